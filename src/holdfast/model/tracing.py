"""Trace contexts as W3C has them: of which trace an event is, and which span it comes from.

A context is the text of a `traceparent` header, 00-TRACE-SPAN-FLAGS; "" is none. The span of a fold
has an id that derives from what is folded, so that a fold repeated after a kill, and a replay, have
the same.
"""

from __future__ import annotations

import hashlib
import re

NONE = ""
LENGTH = 55
_TRACE, _SPAN = slice(3, 35), slice(36, 52)
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KNOWN_FLAGS = 0x03  # sampled, and that the trace's id is random
_SAMPLED = ("1", "3")  # how contexts end that are


def read_context(given: object) -> str:
    """What a header or an attribute says; "" for what is malformed, as W3C wants it."""
    found = _FORM.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None or (found[0].startswith("00") and found[4]):
        return NONE  # only later versions may say more
    trace, span, flags, _ = found.groups()
    if not trace.strip("0") or not span.strip("0"):
        return NONE
    return context_of(trace, span, int(flags, 16))


def context_of(trace: str, span: str, flags: int) -> str:
    return f"00-{trace}-{span}-{flags & _KNOWN_FLAGS:02x}"


def is_context(text: object) -> bool:
    """Whether this is one exactly as we store them."""
    return isinstance(text, str) and text != NONE and read_context(text) == text


def is_sampled(context: str) -> bool:
    return context[54:] in _SAMPLED


def trace_id(context: str) -> str:
    return context[_TRACE]


def span_id(context: str) -> str:
    return context[_SPAN]


def onward(context: str, *words: object) -> str:
    """The context of what comes next: its parent is a span whose id derives from this context and
    what the span is about. One that is not sampled makes no spans and is carried as it is."""
    if not is_sampled(context):
        return context
    text = "\0".join((context[3:52], *map(str, words)))
    span = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return with_span(context, span)


def with_span(context: str, span: str) -> str:
    return f"{context[:36]}{span}{context[52:]}"
