"""A WebSocket client on a real socket, over wsproto."""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)


class Following:
    """What a feed tells; `closed` once it has ended, `refused` if it never began."""

    def __init__(self, port: int, target: str, token: str | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._text = ""
        self.accepted = False
        self.refused: tuple[int, bytes] | None = None
        self.closed: CloseConnection | None = None
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        begin = Request(host=f"localhost:{port}", target=target, extra_headers=headers)
        self.socket.sendall(self._protocol.send(begin))
        while not (self.accepted or self.refused or self.closed):
            self.message()

    def message(self) -> dict[str, Any] | None:
        """The next one, or None if something else came."""
        found = None
        self._protocol.receive_data(self.socket.recv(65536) or None)
        for event in self._protocol.events():
            found = self._take(event) or found
        return found

    def _take(self, event: Event) -> dict[str, Any] | None:
        if isinstance(event, AcceptConnection):
            self.accepted = True
        elif isinstance(event, RejectConnection):
            self.refused = (event.status_code, b"")
        elif isinstance(event, RejectData) and self.refused is not None:
            self.refused = (self.refused[0], self.refused[1] + bytes(event.data))
        elif isinstance(event, Ping):
            self.socket.sendall(self._protocol.send(event.response()))
        elif isinstance(event, CloseConnection):
            self.closed = event
        elif isinstance(event, TextMessage):
            self._text += event.data
            if event.message_finished:
                text, self._text = self._text, ""
                told: dict[str, Any] = json.loads(text)
                self._told.append(told)
                return told
        return None

    @property
    def _told(self) -> list[dict[str, Any]]:
        return self.__dict__.setdefault("told", [])

    def rows(self, count: int) -> list[dict[str, Any]]:
        """All rows so far, once there are so many."""
        while sum(len(each["rows"]) for each in self._told) < count:
            assert self.closed is None, self.closed
            self.message()
        return [row for each in self._told for row in each["rows"]]

    @property
    def cursor(self) -> str:
        return str(self._told[-1]["cursor"])

    def until_closed(self) -> CloseConnection:
        while self.closed is None:
            self.message()
        return self.closed

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
