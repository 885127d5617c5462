"""The contexts of what a program sends: given by it, or those of its own current span."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from holdfast.errors import UsageError
from holdfast.model.keys import shortened
from holdfast.model.tracing import NONE, context_of, read_context
from holdfast.stepping.frame import Column
from holdfast.stepping.traces import trace_columns

# A traceparent for all events of a send, or one for each; None: that of the current span.
TraceGiven: TypeAlias = str | Sequence[str] | None


class Contexts(NamedTuple):
    """Of the events of one send, whose numbers count from `first`."""

    first: int
    each: str | Sequence[str]

    def columns(self, seqs: Sequence[int]) -> dict[str, Column]:
        if isinstance(self.each, str):
            return trace_columns(self.each, len(seqs))
        return trace_columns([self.each[seq - self.first] for seq in seqs], len(seqs))


def contexts_of(given: TraceGiven, count: int) -> str | Sequence[str]:
    """As they are stored. What is malformed is none, as W3C wants it."""
    if given is None:
        return current_context()
    if isinstance(given, str):
        return read_context(given)
    if not isinstance(given, Sequence) or len(given) != count:
        raise UsageError(
            f"trace cannot be {shortened(given)}: give one traceparent, or one for each event"
        )
    known = {text: read_context(text) for text in set(given)}
    return [known[text] for text in given] if any(known.values()) else NONE


def current_context() -> str:
    """Of the span that the program is in; whoever has not imported OpenTelemetry is in none."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return NONE
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return NONE
    return context_of(f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_flags)
