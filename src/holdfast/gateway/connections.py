"""Connections of HTTP, with bounds that the server library does not have: how many there are, how
long headers may be and take to come, and refusals that are problem documents.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.gateway.patience import ABORT
from holdfast.gateway.problems import PROBLEM, Problem, document
from holdfast.gateway.settings import Bounds


def connection_class(bounds: Bounds) -> type[HttpToolsProtocol]:
    class Connection(HttpToolsProtocol):
        _waiting: asyncio.TimerHandle | None = None
        _heard = 0  # bytes of headers that are not complete

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > bounds.connections_max:
                text = f"{bounds.connections_max} connections are open, the bound: try again"
                self._refuse(Problem(503, "Service Unavailable", text, {"retry-after": "1"}))
                return
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._waiting is not None:
                self._heard += len(data)
            super().data_received(data)
            if self._waiting is not None and self._heard > bounds.header_bytes_max:
                text = f"headers of more than {bounds.header_bytes_max:,} bytes: send less"
                self._refuse(Problem(431, "Request Header Fields Too Large", text))

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._wait()
            self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(Problem(400, "Bad Request", "this is no HTTP request that can be read"))

        def _wait(self) -> None:
            if self._waiting is None:
                self._waiting = self.loop.call_later(bounds.header_seconds, self._give_up)

        def _stop_waiting(self) -> None:
            self._heard = 0
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _give_up(self) -> None:
            text = f"no request came within {bounds.header_seconds:g} s: send it faster"
            self._refuse(Problem(408, "Request Timeout", text))

        def _refuse(self, problem: Problem) -> None:
            self._stop_waiting()
            body = document(problem)
            headers = {"content-type": PROBLEM, "content-length": str(len(body)), **problem.headers}
            lines = [f"{name}: {text}\r\n".encode() for name, text in headers.items()]
            start = STATUS_LINE[problem.status]
            if not self.transport.is_closing():
                self.transport.write(b"".join([start, *lines, b"connection: close\r\n\r\n", body]))
                self.transport.close()

    return Connection
