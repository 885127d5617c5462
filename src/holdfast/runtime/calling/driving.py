"""Turning the caller: real children, the waiting between its ticks, and what it publishes."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.calling.caller import Caller
from holdfast.runtime.calling.coroutines import CoroutineExecutor
from holdfast.runtime.calling.port import Executor
from holdfast.runtime.calling.processes import ProcessExecutor
from holdfast.runtime.calling.status import publish, withdraw
from holdfast.runtime.metering.reporting import of_caller
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.tracing.spans import Tracer

WAIT_SECONDS_MAX = 0.5  # children are looked at this often, whatever they say
PUBLISH_SECONDS = 0.5


class Driver:
    """A caller with real children, and the waiting between its ticks."""

    def __init__(self, fleet: FleetModel, engine: Engine, bell: int, tracer: Tracer | None) -> None:
        self._bell = bell
        processes, coroutines = ProcessExecutor(time.monotonic), CoroutineExecutor(time.monotonic)
        self._executors = (processes, coroutines)
        kinds: dict[str, Executor] = {"process": processes, "async": coroutines}
        self._caller = Caller(fleet, engine, kinds, time.monotonic, tracer=tracer)
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

    def samples(self) -> Iterator[Sample]:
        return of_caller(self._caller)

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
