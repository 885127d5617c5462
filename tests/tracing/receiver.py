"""A small OTLP receiver over HTTP, as a collector is one: spans as the protocol has them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

KINDS = {2: "server", 3: "client", 4: "producer", 5: "consumer"}
ERROR = 2


class Received(NamedTuple):
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    error: str | None  # the text of one that failed
    seconds: float
    service: str
    process: str


class Receiver:
    """On a port that the system chose."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Received] = []
        self.status = 200  # of its answers
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if outer.status == 200:
                    outer.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(outer.status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, request: Any) -> None:
        for part in request.resource_spans:
            about = _values(part.resource.attributes)
            for scope in part.scope_spans:
                found = [_received(span, about) for span in scope.spans]
                with self._lock:
                    self._spans += found

    @property
    def spans(self) -> list[Received]:
        with self._lock:
            return list(self._spans)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _received(span: Any, about: dict[str, Any]) -> Received:
    return Received(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _values(span.attributes),
        span.status.message if span.status.code == ERROR else None,
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        about["service.name"],
        about["service.instance.id"],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
