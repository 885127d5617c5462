"""Spans to an OTLP receiver, on a thread beside the fold.

What waits is bounded: more is dropped and counted. A receiver that does not answer is told of once,
and once when it does again. What was for it is dropped; the fleet does not wait for it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urlsplit

from holdfast.errors import UsageError
from holdfast.runtime.repeating import Repeating
from holdfast.runtime.tracing.complaints import Complaints
from holdfast.runtime.tracing.spans import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
EXTRA = "pip install 'holdfast[traces]'"
SPANS_WAITING_MAX = 8_192
SPANS_PER_EXPORT = 512
EXPORT_SECONDS = 0.2
TIMEOUT_SECONDS = 3.0  # of one export, with its repetitions
_NEEDED = "opentelemetry.exporter.otlp.proto.http"

_log = logging.getLogger("holdfast.traces")
_complaints = Complaints()


def is_wanted() -> bool:
    """By the variables that OpenTelemetry has for it; `--otlp` sets the first of them."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    off = off or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return not off and any(os.environ.get(name) for name in (ENDPOINT, OF_TRACES))


def is_installed() -> bool:
    try:
        return importlib.util.find_spec(_NEEDED) is not None
    except ModuleNotFoundError:
        return False


def ask_for(url: str | None) -> None:
    """For this process and those it starts; what is wrong with it is told now."""
    if url is not None:
        _check_url("--otlp", url)
        os.environ[ENDPOINT] = url
    if not is_wanted():
        return
    for name in (ENDPOINT, OF_TRACES):
        if given := os.environ.get(name):
            _check_url(name, given)
    if not is_installed():
        asked = "--otlp" if url is not None else ENDPOINT
        raise UsageError(f"{asked} needs opentelemetry-exporter-otlp-proto-http: {EXTRA}")


def _check_url(asked: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        is_good = False
    if not is_good or any(each.isspace() for each in url):
        raise UsageError(f"{asked} {url}: give the URL of a receiver, http://host:4318")


def start_tracing(fleet: str, process: str) -> Exporter | None:
    """None where nobody wants spans, or nothing is there to export them."""
    return Exporter(fleet, process) if is_wanted() and is_installed() else None


class Exporter:
    def __init__(self, fleet: str, process: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from holdfast.runtime.tracing.otel import Conversion

        self._process = process
        self._readable = Conversion(fleet, process)
        self._exporter = OTLPSpanExporter(timeout=TIMEOUT_SECONDS)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Callable[[], Iterator[Span]]]] = deque()
        self._count = 0
        self._failing = False
        self._stopping = False
        self.exported = 0
        self.dropped = 0
        self._repeating = Repeating("traces", self._export_all, EXPORT_SECONDS, self._finish)
        # It tells of every failure, again and again; we do once. Others in this process may have
        # an exporter of their own, so only what is said on our thread is not heard.
        self._said = logging.getLogger(OTLPSpanExporter.__module__)
        self._said.addFilter(self._is_of_others)

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        if not self._repeating.is_current():
            return True
        _complaints.filter(record)
        return False

    def add(self, count: int, make: Callable[[], Iterator[Span]]) -> None:
        with self._lock:
            taken = min(count, SPANS_WAITING_MAX - self._count)
            self.dropped += count - taken
            if taken:
                self._waiting.append((taken, make))
                self._count += taken

    def _take(self) -> Iterator[Span]:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                count, make = self._waiting.popleft()
                self._count -= count
            yield from islice(make(), count)

    def _export_all(self) -> None:
        spans = self._take()
        while some := list(islice(spans, SPANS_PER_EXPORT)):
            if not self._export(some) and self._stopping:
                self._drop(spans)

    def _finish(self) -> None:
        if self._failing:
            self._drop(self._take())
        else:
            self._export_all()

    def _drop(self, spans: Iterator[Span]) -> None:
        """All that waits, and the rest of those at hand: each export would fail as slowly."""
        with self._lock:
            self.dropped += self._count
            self._waiting.clear()
            self._count = 0
        rest = sum(1 for _ in spans)
        with self._lock:
            self.dropped += rest

    def _export(self, spans: list[Span]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        _complaints.why = ""
        done = self._exporter.export([self._readable.of(span) for span in spans])
        failed = done is not SpanExportResult.SUCCESS
        with self._lock:
            self.dropped += len(spans) if failed else 0
            self.exported += 0 if failed else len(spans)
        if failed != self._failing:
            self._tell(failed)
        self._failing = failed
        return not failed

    def _tell(self, failed: bool) -> None:
        place = os.environ.get(OF_TRACES) or os.environ.get(ENDPOINT)
        if not failed:
            _log.warning("%s: %s takes traces again", self._process, place)
            return
        why = _complaints.why or f"no answer within {TIMEOUT_SECONDS:g} s"
        text = "%s: no traces: %s does not take them (%s); the fleet goes on without"
        _log.warning(text, self._process, place, why)

    def stop(self) -> None:
        """What waits goes out, unless nobody takes it: the first export that fails is the last."""
        self._stopping = True
        self._repeating.stop()
        self._said.removeFilter(self._is_of_others)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
