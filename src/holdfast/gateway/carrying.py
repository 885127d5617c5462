"""Contexts of traces that come with a request, and the span of the request that brought events:
from when it came until they are durable."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence

from holdfast.gateway.envelopes import Sent
from holdfast.model.tracing import is_sampled, read_context, with_span
from holdfast.runtime.tracing.spans import Span, Tracer

HEADER = "traceparent"


class Carried:
    """The contexts of one request. An event's own wins over the request's; what is malformed is
    none. Where spans are exported, the request is one between its sender and the events."""

    def __init__(self, given: str | None, tracer: Tracer | None) -> None:
        self._of_all = read_context(given)
        self._tracer = tracer
        self._known: dict[str, tuple[str, str]] = {}  # as it came -> as it is stored, and a name
        self._start = time.time()

    def put_on(self, rows: Sequence[Sent]) -> None:
        """Each has the context then that is stored with it."""
        for row in rows:
            given = row.traceparent
            context = self._of_all if given is None else read_context(given)
            row.traceparent = self._onward(context, row.type) if context else ""

    def _onward(self, context: str, event: str) -> str:
        if self._tracer is None or not is_sampled(context):
            return context
        if context not in self._known:
            self._known[context] = with_span(context, secrets.token_hex(8)), f"send {event}"
        return self._known[context][0]

    def end(self, error: str = "") -> None:
        """The events are durable, or refused."""
        if self._tracer is not None and self._known:
            spans = list(self._spans(time.time(), error))
            self._tracer.add(len(spans), lambda: iter(spans))

    def _spans(self, end: float, error: str) -> Iterator[Span]:
        for given, (own, name) in self._known.items():
            yield Span(name, "producer", given, own, self._start, end, {}, error)
