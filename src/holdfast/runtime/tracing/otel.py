"""Our spans as those of the OpenTelemetry SDK; their ids are ours, so no tracer of it is asked."""

from __future__ import annotations

import os

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from holdfast.model.tracing import span_id, trace_id
from holdfast.runtime.metering.vitals import release
from holdfast.runtime.tracing.spans import Span

_KINDS = {
    "consumer": SpanKind.CONSUMER,
    "producer": SpanKind.PRODUCER,
    "client": SpanKind.CLIENT,
}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Conversion:
    def __init__(self, fleet: str, process: str) -> None:
        self._fleet = fleet
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": fleet}
        self._resource = Resource.create({**named, "service.instance.id": process})
        self._scope = InstrumentationScope("holdfast", release())

    def of(self, span: Span) -> ReadableSpan:
        failed = Status(StatusCode.ERROR, span.error) if span.error else Status()
        return ReadableSpan(
            span.name,
            context=_context(span.trace, is_remote=False),
            parent=_context(span.given, is_remote=True),
            resource=self._resource,
            attributes={"holdfast.fleet": self._fleet, **span.attributes},
            kind=_KINDS[span.kind],
            status=failed,
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=self._scope,
        )


def _context(trace: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(trace_id(trace), 16), int(span_id(trace), 16), is_remote, _SAMPLED)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
