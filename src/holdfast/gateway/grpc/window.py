"""What came on a stream and is not taken yet: so many bytes, then nothing more is read.

What is not read fills the window of HTTP/2, and the client has to wait: that is the back-pressure.
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.problems import Problem

MESSAGE_BYTES = 256  # what a message takes besides its bytes


class Window:
    def __init__(self, bytes_max: int, events_max: int) -> None:
        self._bytes_max = bytes_max
        self._events_max = events_max
        self._waiting: deque[tuple[pb.SendRequest, int]] = deque()
        self._bytes = 0
        self._number = 0
        self._ended = False
        self._trouble: Exception | None = None
        self._changed = asyncio.Event()

    async def put(self, message: pb.SendRequest) -> None:
        """Returns when there is room for another one."""
        if message.number <= self._number:
            text = f"message {message.number} after {self._number}: count up with every message"
            raise Problem(400, "Bad Request", text)
        self._number = message.number
        size = message.ByteSize() + MESSAGE_BYTES
        self._waiting.append((message, size))
        self._bytes += size
        self._tell()
        while self._bytes >= self._bytes_max:
            await self._change()

    def end(self, trouble: Exception | None = None) -> None:
        """Nothing more comes. What is here is still taken, unless there is trouble."""
        self._ended = True
        self._trouble = self._trouble or trouble
        self._tell()

    async def take(self) -> list[pb.SendRequest]:
        """All that wait, up to a bound of events, at least one; none at the end."""
        while not self._waiting and not self._ended:
            await self._change()
        if self._trouble is not None:
            raise self._trouble
        found: list[pb.SendRequest] = []
        events = 0
        while self._waiting and (not found or events < self._events_max):
            message, size = self._waiting.popleft()
            self._bytes -= size
            events += len(message.events)
            found.append(message)
        self._tell()
        return found

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        await self._changed.wait()
