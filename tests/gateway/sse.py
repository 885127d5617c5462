"""A client of Server-Sent Events, as browsers are: it knows the last id it was given."""

from __future__ import annotations

import http.client
import json
from types import TracebackType
from typing import Any


class Stream:
    def __init__(self, port: int, path: str, last: str | None = None, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        sent = {"accept": "text/event-stream", **headers}
        if last is not None:
            sent["last-event-id"] = last
        self._connection.request("GET", path, None, sent)
        self.response = self._connection.getresponse()
        self.last = last
        self.rows: list[dict[str, Any]] = []
        self.ended = False

    def read(self, count: int) -> list[dict[str, Any]]:
        """Until there are so many rows, or it ends."""
        while len(self.rows) < count and not self.ended:
            self._one()
        return self.rows

    def _one(self) -> None:
        """A block of lines."""
        data = None
        while line := self.response.readline().strip():
            name, _, text = line.decode().partition(": ")
            if name == "data":
                data = json.loads(text)
            if name == "id":
                self.last = text
        if data is not None:
            self.rows.append(data)
        self.ended = self.response.isclosed()

    def until_end(self) -> None:
        while not self.ended:
            self._one()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.response.close()  # it may have the socket, and then the connection has it no more
        self._connection.close()
