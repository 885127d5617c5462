"""Turning the caller: the loop around it, a thread for `fleet.open`, and what it publishes.

The process of `holdfast run` is in `process`.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time

from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.calling.caller import Caller
from holdfast.runtime.calling.coroutines import CoroutineExecutor
from holdfast.runtime.calling.port import Executor
from holdfast.runtime.calling.processes import ProcessExecutor
from holdfast.runtime.calling.status import publish, withdraw

WAIT_SECONDS_MAX = 0.5  # children are looked at this often, whatever they say
PUBLISH_SECONDS = 0.5

_log = logging.getLogger("holdfast.caller")


def new_bell() -> int:
    """Rung by whoever commits calls. It may be rung from anywhere, in any process that has it."""
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def ring(bell: int) -> None:
    try:
        os.eventfd_write(bell, 1)
    except BlockingIOError:
        pass  # rung 2^64 times, and nobody came


class Driver:
    """A caller with real children, and the waiting between its ticks."""

    def __init__(self, fleet: FleetModel, engine: Engine, bell: int) -> None:
        self._bell = bell
        processes, coroutines = ProcessExecutor(time.monotonic), CoroutineExecutor(time.monotonic)
        self._executors = (processes, coroutines)
        kinds: dict[str, Executor] = {"process": processes, "async": coroutines}
        self._caller = Caller(fleet, engine, kinds, time.monotonic)
        self._root = engine.root if isinstance(engine, SqliteEngine) else None
        self._published: object = None
        self._publish_after = 0.0

    def turn(self) -> None:
        if not self._caller.tick():
            self._wait(min(WAIT_SECONDS_MAX, self._caller.idle_seconds()))
        if self._root is not None and time.monotonic() >= self._publish_after:
            status = self._caller.status()
            if status != self._published:
                publish(self._root, status)
                self._published = status
            self._publish_after = time.monotonic() + PUBLISH_SECONDS

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        for executor in self._executors:
            for descriptor, writes in executor.descriptors():
                poll.register(descriptor, select.POLLIN | (select.POLLOUT if writes else 0))
        for descriptor, _ in poll.poll(seconds * 1000):
            if descriptor == self._bell:
                os.eventfd_read(self._bell)
                self._caller.nudge()

    def close(self) -> None:
        for executor in self._executors:
            executor.close()
        if self._root is not None:
            withdraw(self._root)


def has_open_calls(engine: Engine) -> bool:
    return any(engine.view(number).calls(0, 1) for number in engine.catalog.layout.numbers)


class CallerThread:
    """A caller beside the worker of `fleet.open`; its thread starts with the first call."""

    def __init__(self, fleet: FleetModel, engine: Engine) -> None:
        self._fleet = fleet
        self._engine = engine
        self._bell = new_bell()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopping = False
        self.failure: BaseException | None = None
        if has_open_calls(engine):
            self.called()

    def called(self) -> None:
        """Calls were committed: run them."""
        with self._starting:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-caller", daemon=True
                )
                self._thread.start()
        ring(self._bell)

    def _run(self) -> None:
        try:
            driver = Driver(self._fleet, self._engine, self._bell)
            try:
                while not self._stopping:
                    driver.turn()
            finally:
                driver.close()
        except BaseException as error:
            self.failure = error
            _log.exception("the caller stopped")

    def stop(self) -> None:
        """What its functions are at is ended; those calls are open, and run again next time."""
        with self._starting:
            self._stopping = True
        if self._thread is not None:
            ring(self._bell)
            self._thread.join()
        os.close(self._bell)
