"""One client that follows all actions as Server-Sent Events, and hangs up once in between."""

from __future__ import annotations

import asyncio
import time

import msgspec

from bench.gateway.plan import HIGH_EVERY
from bench.gateway.wire import Connection, request


class Follower:
    def __init__(self, port: int) -> None:
        self._port = port
        self._cursor = ""
        self._ids: set[str] = set()
        self.ready = asyncio.Event()
        self.numbers: dict[str, list[int]] = {}  # per drone, in the order they came
        self.again = 0  # actions that came a second time, after the reconnect

    async def run(self, hang_up_after: float) -> None:
        line = Connection(self._port)
        answer = await line.ask(request("GET", "/actions?after=now"))
        line.close()
        self._cursor = str(answer.values()["cursor"])
        self.ready.set()
        try:
            await asyncio.wait_for(self._follow(), hang_up_after)
        except TimeoutError:
            await self._follow()

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"GET /actions HTTP/1.1\r\nhost: 127.0.0.1\r\nlast-event-id: {self._cursor}\r\n"
        writer.write(f"{head}accept: text/event-stream\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self._take(msgspec.json.decode(line[6:]))
                elif line.startswith(b"id: "):
                    self._cursor = line[4:].strip().decode()
        finally:
            writer.close()

    def _take(self, action: dict[str, object]) -> None:
        if str(action["id"]) in self._ids:
            self.again += 1
            return
        self._ids.add(str(action["id"]))
        data = action["data"]
        assert isinstance(data, dict), action
        self.numbers.setdefault(str(action["key"]), []).append(data["number"])

    async def until(self, lasts: list[int], seconds: float) -> None:
        """All actions of what was acknowledged are here, or time is up: the oracle will say."""
        wanted = sum(last // HIGH_EVERY for last in lasts)
        deadline = time.monotonic() + seconds
        while len(self._ids) < wanted and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
