"""The event loop inside a child: async functions side by side, and a watch over the loop itself.

A function that blocks holds up all the others. A thread notices it, and says which one it is, so
that only that one is blamed when the parent ends the process.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import time

from holdfast.runtime.calling.running import Ended, Functions, failed, judge
from holdfast.runtime.calling.wire import LOOP_SECONDS_MAX, Line, Message

BEAT_SECONDS = 0.5


class Loop:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._functions = Functions()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._working = threading.Event()
        self._importing = False
        self._turned = time.monotonic()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._line.socket.fileno(), self._hear)
        threading.Thread(target=self._watch, name="holdfast-watch", daemon=True).start()
        self._take_all()  # what came behind the greeting
        await asyncio.Event().wait()  # until the parent ends

    def _hear(self) -> None:
        try:
            self._line.hear(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        self._take_all()

    def _take_all(self) -> None:
        while self._line.waiting:
            message = self._line.receive()
            if message[0] == "run":
                self._start(message)
            else:
                self._cancel(message)

    def _start(self, message: Message) -> None:
        serial = message[1]
        assert isinstance(serial, int)
        self._turned = time.monotonic()
        self._tasks[serial] = self._loop.create_task(self._attempt(serial, message))
        self._working.set()

    def _cancel(self, message: Message) -> None:
        serial = message[1]
        assert isinstance(serial, int)
        if serial in self._tasks:
            self._tasks[serial].cancel()

    async def _attempt(self, serial: int, message: Message) -> None:
        ended = Ended("error", "it was cancelled")
        try:
            self._importing = True
            try:
                prepared = self._functions.prepare(message)
            finally:
                self._importing = False
            if isinstance(prepared, Ended):
                ended = prepared
                return
            self._line.send("begun", serial)
            result = prepared.run()
            ended = judge(prepared, await result if inspect.isawaitable(result) else result)
        except BaseException as error:
            ended = failed(error)
        finally:
            del self._tasks[serial]
            if not self._tasks:
                self._working.clear()
            self._line.send("ended", serial, *ended)

    # The watch. Idle, it sleeps for as long as there is nothing to do.

    def _watch(self) -> None:
        while True:
            self._working.wait()
            self._loop.call_soon_threadsafe(self._turn)
            time.sleep(BEAT_SECONDS)
            stood = time.monotonic() - self._turned
            if stood > LOOP_SECONDS_MAX and not self._importing and self._working.is_set():
                self._line.send("stuck", self._culprit())
                self._turned = time.monotonic()
            else:
                self._line.send("beat")

    def _turn(self) -> None:
        self._turned = time.monotonic()

    def _culprit(self) -> int:
        """The attempt whose code the loop is in; 0 if that cannot be told."""
        current = asyncio.current_task(self._loop)
        found = [serial for serial, task in list(self._tasks.items()) if task is current]
        return found[0] if found else 0


def serve_async(line: Line) -> None:
    asyncio.run(Loop(line).run())
