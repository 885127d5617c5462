"""What the tests of agent semantics share: engine URLs, and a world whose clock stands still.

`World` drives the real worker and the real engines by hand: nothing runs on its own, and time moves
only when a test says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.stamping import Instant
from holdfast.model.fleet import FleetModel
from holdfast.runtime.live import Live
from holdfast.runtime.worker import Worker
from tests.run.speed import patient

ENGINES = ["memory", "sqlite"]
DEADLINE_SECONDS = patient(20.0)


def engine_url(engine: str, folder: Path, **settings: int) -> str:
    """The same kind of fleet in memory or on disk; settings as in an engine URL."""
    place = "memory:" if engine == "memory" else f"sqlite:{folder / 'data'}"
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    return f"{place}?{query}" if query else place


def until(look: Callable[[], object], what: str) -> None:
    """Poll until true; fail by name instead of hanging."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not look():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:g} s: {what}"
        time.sleep(0.002)


class HandClock:
    """Stands still until moved. `set` moves the wall clock only, as an operator would."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.uptime = 500.0

    def __call__(self) -> Instant:
        return Instant(self.wall, self.uptime, "boot")

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.uptime += seconds

    def set(self, wall: float) -> None:
        self.wall = wall


class World:
    """A fleet, an engine and one worker, all ticked by hand."""

    def __init__(
        self,
        fleet: FleetModel,
        engine: str,
        folder: Path,
        partitions: int = 1,
        limits: Limits | None = None,
    ) -> None:
        self.fleet = fleet
        self.clock = HandClock()
        self.faults: dict[str, Exception] = {}
        self._folder = folder / "world"
        self._limits = limits or Limits(disk_reserve_bytes=1)
        self._partitions = partitions
        self._engines: list[Engine] = []  # of all processes that there have been
        if engine == "memory":
            self.engine: Engine = MemoryEngine(fleet.name, partitions, self._limits, self.clock)
        else:
            SqliteEngine.create(self._folder, fleet.name, partitions)
            self.engine = self._open_sqlite()
        self._start(fleet)

    def _open_sqlite(self) -> Engine:
        self._engines.append(SqliteEngine(self._folder, self._limits, self.clock, self._reach))
        return self._engines[-1]

    def _reach(self, point: str) -> None:
        """A fault point of the engine: raise what the test has laid there, once."""
        fault = self.faults.pop(point, None)
        if fault is not None:
            raise fault

    def _start(self, fleet: FleetModel) -> None:
        self.worker = Worker(fleet, self.engine, range(self._partitions), self.clock)
        self.live = Live(fleet, self.engine)

    def run(self) -> None:
        """Tick until nothing moves at this time."""
        for _ in range(10_000):
            if not self.worker.tick():
                return
        raise AssertionError("the worker never comes to rest")

    def pass_time(self, seconds: float) -> None:
        """Time passes while the worker does nothing; then it runs."""
        self.clock.pass_time(seconds)
        self.run()

    def restart(self, fleet: FleetModel | None = None) -> None:
        """Another process takes over, perhaps with newer classes. On disk only."""
        assert isinstance(self.engine, SqliteEngine)
        self.live.close()
        self.engine = self._open_sqlite()
        self._start(fleet or self.fleet)

    def close(self) -> None:
        self.live.close()
        for engine in self._engines:
            engine.close()

    @property
    def elapsed(self) -> float:
        return self.clock.wall - 1_000_000.0


@contextmanager
def opened(
    fleet: FleetModel,
    engine: str,
    folder: Path,
    partitions: int = 1,
    limits: Limits | None = None,
) -> Iterator[World]:
    world = World(fleet, engine, folder, partitions, limits)
    try:
        yield world
    finally:
        world.close()
