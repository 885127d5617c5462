"""Rescaling: giving a fleet's data another number of partitions, while producers go on sending.

`Rescale` is a plain object whose `step()` advances it, like the worker it drives: engine and clock
are handed in, and it never sleeps. `rescale` runs one on the data of a URL.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.port import Claim, Engine, waiting_in
from holdfast.engine.stamping import Clock, system_clock
from holdfast.engine.urls import open_engine
from holdfast.errors import Fenced, HoldfastError, Rescaling, TimedOut, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.alone import hold_alone
from holdfast.runtime.repeating import keep_house
from holdfast.runtime.schemas import check_agents
from holdfast.runtime.worker import Worker

FEW_EVENTS = 1_000  # folded in less time than a producer waits before it is told to try again
CATCH_UP_SECONDS = 60.0  # then the intake is closed though producers outrun the fold
DRAIN_SECONDS = 60.0  # with the intake closed: much longer than what has come by then takes
TROUBLE_SECONDS = 3.0  # a partition tries again every second what holds it up
PAUSE_SECONDS = 0.01


class Rescaled(NamedTuple):
    before: int
    after: int
    agents: int
    partitions: range  # the new ones


class Rescale:
    """1 check the classes, 2 claim, 3 fold until little waits, 4 close the intake, 5 drain,
    6 put the new partitions in the place of the old ones."""

    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        partitions: int,
        clock: Clock = system_clock,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        if not engine.capabilities.rescales:
            raise UsageError("this engine cannot be rescaled: make new data with more partitions")
        self._engine = engine
        self._layout = engine.catalog.layout
        self._partitions = partitions
        self._clock = clock
        self._drain_seconds = drain_seconds
        if partitions == len(self._layout.partitions):
            raise UsageError(f"there are {partitions} partitions already: give another number")
        check_agents(fleet, engine)
        self._worker = Worker(fleet, engine, self._layout.numbers, clock)
        self._next: Callable[[], None] = self._catch_up
        self._since = clock().uptime
        self._troubled: dict[int, float] = {}  # partition -> since when
        self._closed: list[Claim] = []
        self.moved = False  # the last step did something: do not sleep before the next
        self.result: Rescaled | None = None

    def step(self) -> bool:
        """One turn. True when the new partitions are there; then `result` says how many.

        Raises when it cannot be; then the intake is open again, and nothing has changed.
        """
        try:
            self.moved = self._worker.tick()
            self._check_worker()
            self._next()
        except Exception:
            self.give_up()
            raise
        return self.result is not None

    def give_up(self) -> None:
        """Let events in again. Whoever ends it between two steps calls this."""
        for claim in self._closed:
            try:
                self._engine.open_intake(claim)
            except HoldfastError:
                pass  # whoever claims the partition next opens it; what went wrong is raised

    def _check_worker(self) -> None:
        for number, reason in self._worker.fenced.items():
            raise Fenced(f"partition {number}: {reason}")
        now = self._clock().uptime
        alarms = self._worker.alarms
        self._troubled = {n: self._troubled.get(n, now) for n in alarms}
        for number, since in self._troubled.items():
            if now - since > TROUBLE_SECONDS:
                raise TimedOut(
                    f"partition {number} cannot be drained: {alarms[number]}; "
                    "then rescale again, nothing has changed"
                )

    # The phases. Each ends by naming the next.

    def _catch_up(self) -> None:
        if self._waiting() <= FEW_EVENTS or self._elapsed() > CATCH_UP_SECONDS:
            self._next = self._close

    def _close(self) -> None:
        for partition in self._worker.partitions.values():
            self._closed.append(partition.claim)
            self._engine.close_intake(partition.claim)
            partition.draining = True
        self._since = self._clock().uptime
        self._next = self._drain

    def _drain(self) -> None:
        if self.moved and self._elapsed() < self._drain_seconds:
            return
        try:
            self._switch()
        except Rescaling as refusal:
            if self._elapsed() >= self._drain_seconds:
                raise TimedOut(
                    f"{refusal}; this was tried for {self._drain_seconds:g} s, and nothing has "
                    "changed: run the fleet until it has caught up, then rescale again"
                ) from None

    def _switch(self) -> None:
        claims = [partition.claim for partition in self._worker.partitions.values()]
        # Counted before: once it has happened, nothing may make it look as if it had not.
        agents = sum(1 for n in self._layout.numbers for _ in self._engine.view(n).records())
        self._engine.rescale(claims, self._partitions)
        after = self._engine.catalog.layout
        before = len(self._layout.partitions)
        self.result = Rescaled(before, len(after.partitions), agents, after.numbers)

    def _waiting(self) -> int:
        views = [self._engine.view(number) for number in self._layout.numbers]
        return sum(waiting_in(view, view.head()) for view in views)

    def _elapsed(self) -> float:
        return self._clock().uptime - self._since


def rescale(
    fleet: FleetModel,
    url: str,
    partitions: int,
    *,
    clock: Clock = system_clock,
    sleep: Callable[[float], None] = time.sleep,
    faults: FaultPoints = no_faults,
) -> Rescaled:
    """Rescale data that nobody folds. Producers may be connected: they wait for a moment."""
    engine = open_engine(url, fleet.name, faults=faults)
    try:
        hold_alone(engine, url, "rescaled")
        job = Rescale(fleet, engine, partitions, clock)
        housekeeper = keep_house(engine)  # so that a long drain does not fill the disk
        try:
            while not job.step():
                if not job.moved:
                    sleep(PAUSE_SECONDS)
        except KeyboardInterrupt:
            job.give_up()
            raise
        finally:
            housekeeper.stop()
        assert job.result is not None
        return job.result
    finally:
        engine.close()
