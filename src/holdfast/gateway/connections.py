"""Connections of HTTP, with bounds that the server library does not have: how many there are, how
long headers may be and take to come, and refusals that are problem documents.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.events import Request

from holdfast.gateway.bodies import LINGER_SECONDS
from holdfast.gateway.patience import ABORT
from holdfast.gateway.problems import PROBLEM, Problem, document
from holdfast.gateway.settings import Bounds

AROUND_PER_BYTE = 8  # a chunk of one byte has five around it


class Socket(WSProtocol):
    """A WebSocket that can be cut off."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        cast("dict[str, object]", self.scope)[ABORT] = self.transport.abort


class Connection(HttpToolsProtocol):
    bounds = Bounds()
    _waiting: asyncio.TimerHandle | None = None  # for headers
    _hurry: asyncio.TimerHandle | None = None  # until the body has to be here
    _heard = 0  # bytes since the last complete headers or request that are no body
    _allowed = Bounds().header_bytes_max

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allowed = self.bounds.header_bytes_max
        if len(self.connections) > self.bounds.connections_max:
            text = f"{self.bounds.connections_max} connections are open, the bound: try again"
            self._refuse(Problem(503, "Service Unavailable", text, {"retry-after": "1"}))
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_hurrying()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # it was refused, and goes on talking
        self._heard += len(data)
        super().data_received(data)
        if self._heard <= self._allowed:
            return
        if self._waiting is not None:
            text = f"headers of more than {self.bounds.header_bytes_max:,} bytes: send less"
            self._refuse(Problem(431, "Request Header Fields Too Large", text))
        else:
            text = "a request with more around its body than in it: send larger chunks"
            self._refuse(Problem(400, "Bad Request", text))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()
        seconds = self.bounds.body_seconds + LINGER_SECONDS
        self._hurry = self._hurry or self.loop.call_later(seconds, self._has_hurried)

    def on_body(self, body: bytes) -> None:
        self._heard = max(0, self._heard - len(body))
        self._allowed += AROUND_PER_BYTE * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._heard, self._allowed = 0, self.bounds.header_bytes_max
        self._stop_hurrying()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and self._hurry is None:
            self.transport.close()

    def _has_hurried(self) -> None:
        """Who reads a body sees to it; one that nobody reads must not last for ever."""
        self._hurry = None
        if self.cycle is not None and self.cycle.response_complete:
            self.transport.close()

    def _stop_hurrying(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "Bad Request", "this is no HTTP request that can be read"))

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.bounds.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        self._heard, self._allowed = 0, self.bounds.header_bytes_max
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        text = f"no request came within {self.bounds.header_seconds:g} s: send it faster"
        self._refuse(Problem(408, "Request Timeout", text))

    def _refuse(self, problem: Problem) -> None:
        """In the place of an answer, never in front of one that is still to come."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        cycle = self.cycle
        under_way = cycle is not None and not cycle.response_complete
        if under_way and not cycle.more_body:
            cycle.keep_alive = False  # it was read whole and is answered; then it is over
            self.flow.pause_reading()
            return
        if not self.pipeline and not (under_way and cycle.response_started):
            self._write(problem)
        self.transport.close()

    def _write(self, problem: Problem) -> None:
        body = document(problem)
        headers = {"content-type": PROBLEM, "content-length": str(len(body)), **problem.headers}
        lines = [f"{name}: {text}\r\n".encode() for name, text in headers.items()]
        start = STATUS_LINE[problem.status]
        self.transport.write(b"".join([start, *lines, b"connection: close\r\n\r\n", body]))


def connection_class(bounds: Bounds) -> type[HttpToolsProtocol]:
    return type("Connection", (Connection,), {"bounds": bounds})
