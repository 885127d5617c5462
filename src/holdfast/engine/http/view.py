"""Reading a partition through a gateway: every method of `View` is one request."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import cast

import msgspec

from holdfast.engine.asked import AskedView
from holdfast.engine.http.line import Line
from holdfast.engine.http.wire import LENGTH
from holdfast.engine.questions import (
    DONE,
    FAILED,
    MORE,
    REPLY_BYTES_MAX,
    Reply,
    pack,
    unpack_error,
    unpack_reply,
    unpack_text,
)
from holdfast.errors import DamagedData, Unreachable


class HttpView(AskedView):
    def __init__(self, line: Line, partition: int, seconds: float) -> None:
        self._line = line
        self._partition = partition
        self._timeout = seconds

    def hides(self) -> bool:
        return cast(bool, self._plain("hides"))

    def paused_seconds(self) -> float | None:
        return cast("float | None", self._plain("paused_seconds"))

    def _plain(self, method: str) -> object:
        found: list[object] = []
        self._ask(lambda payload: found.append(msgspec.msgpack.decode(payload)), method)
        return found[-1]

    def _ask(self, take: Callable[[msgspec.Raw], object], method: str, *arguments: object) -> None:
        path = f"/engine/{self._partition}/{method}"
        with self._line.ask("POST", path, pack(arguments), self._timeout) as response:
            while True:
                reply = self._reply(response)
                if reply.status == FAILED:
                    raise unpack_error(reply.payload)
                if reply.status not in (DONE, MORE):
                    raise DamagedData(unpack_text(reply.payload))
                take(reply.payload)
                if reply.status == DONE:
                    break
            response.read()  # to its end: then the connection can be used again

    def _reply(self, response: http.client.HTTPResponse) -> Reply:
        head = response.read(LENGTH.size)
        length = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else REPLY_BYTES_MAX + 1
        body = response.read(length) if length <= REPLY_BYTES_MAX else b""
        if len(body) != length:
            raise Unreachable(f"the answer about partition {self._partition} was cut off")
        return unpack_reply(body)
