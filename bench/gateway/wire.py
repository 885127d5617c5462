"""A lean HTTP/1.1 client: one connection that is kept, one request at a time. The load shares the
cores with what it loads, so it does no more than it has to."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

import msgspec

ANSWER_SECONDS = 60.0


class Answer(NamedTuple):
    status: int
    body: bytes

    def values(self) -> dict[str, object]:
        return cast("dict[str, object]", msgspec.json.decode(self.body))


def request(method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
    return f"{head}content-type: {media}\r\n\r\n".encode() + body


class _Line(asyncio.Protocol):
    def __init__(self) -> None:
        self._heard = b""
        self._needed = 0
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, message: bytes) -> asyncio.Future[Answer]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if len(self._heard) < self._needed:
            return
        end = self._heard.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._heard[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 :].partition(b"\r\n")[0]) if at >= 0 else 0
        self._needed = end + 4 + length
        if len(self._heard) >= self._needed and self._answer is not None:
            body, self._heard, self._needed = self._heard[end + 4 :], b"", 0
            if not self._answer.done():
                self._answer.set_result(Answer(int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the gateway hung up"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Connection:
    """Made again where it was cut: what to do about the request is the caller's."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._line: _Line | None = None

    async def ask(self, message: bytes) -> Answer:
        if self._line is None:
            loop = asyncio.get_running_loop()
            _, self._line = await loop.create_connection(_Line, "127.0.0.1", self._port)
        try:
            return await asyncio.wait_for(self._line.ask(message), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            self.close()
            raise

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
