"""The board: a folder in which every process of a fleet on this machine tells of itself.

One small file per process, written anew every second and never synced: it says how things are, not
what must be kept. It lies beside the data, on Kafka beside the copies. A file of a process that is
gone is not read, and goes when the fleet starts again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.metering.vitals import start_ticks, vitals
from holdfast.runtime.repeating import Repeating

FOLDER = "metrics"
PUBLISH_SECONDS = 1.0
STALE_SECONDS = 5.0  # a process that has not published for so long is not well
METERED = "HOLDFAST_METRICS"  # `off`: commits are not counted
PROCESS = "HOLDFAST_PROCESS"  # the name of this process, given by its supervisor
PROGRAM = "program"  # one that has opened the fleet itself


class Bulletin(msgspec.Struct):
    """What one process tells."""

    process: str
    pid: int
    started: int  # in ticks since boot: a pid alone may be another's by now
    at: float
    samples: list[Sample]

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.started

    def fresh(self, now: float) -> bool:
        return abs(now - self.at) < STALE_SECONDS


def board_of(engine: Engine) -> Path | None:
    """None where one process is all there is."""
    if isinstance(engine, SqliteEngine):
        return engine.root / FOLDER
    settings = getattr(engine, "settings", None)
    return settings.folder / FOLDER if isinstance(settings, KafkaSettings) else None


def metered() -> bool:
    return os.environ.get(METERED, "on") != "off"


def own_name() -> str:
    """Of this process: `worker-0`, `caller`, …, as its supervisor has named it."""
    return os.environ.get(PROCESS, PROGRAM)


def publish(board: Path, process: str, samples: Iterable[Sample]) -> None:
    """All or nothing for whoever reads."""
    pid = os.getpid()
    told = Bulletin(process, pid, start_ticks(pid) or 0, time.time(), list(samples))
    path = board / f"{process}.json"
    new = board / f"{process}.{pid}.new"
    try:
        board.mkdir(exist_ok=True)
        new.write_bytes(msgspec.json.encode(told))
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)  # a full disk keeps the old one


def bulletins(board: Path) -> list[Bulletin]:
    """Of the processes that are alive, the latest last."""
    found = [_read(path) for path in board.glob("*.json")]
    alive = [each for each in found if each is not None and each.alive]
    return sorted(alive, key=lambda each: each.at)


def _read(path: Path) -> Bulletin | None:
    """None where it is going just now, or another release wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Bulletin)
    except (OSError, msgspec.MsgspecError):
        return None


def tidy(board: Path) -> None:
    """For whoever holds the fleet, before it starts others: what the dead have left goes."""
    if not board.is_dir():
        return
    living = {f"{each.process}.json" for each in bulletins(board)}
    for path in board.iterdir():
        if path.name not in living:
            path.unlink(missing_ok=True)


class Publisher:
    """Publishes every second, on a thread of its own, until it is stopped."""

    def __init__(
        self,
        board: Path,
        process: str,
        collect: Callable[[], Iterable[Sample]],
        *,
        at_once: bool = True,
    ) -> None:
        self._board = board
        self._process = process
        self._collect = collect
        if at_once:  # that it is there; the rest takes time, and may have to be tried again
            publish(board, process, ())
        self._repeating = Repeating("metrics", self._tell, PUBLISH_SECONDS)

    def _tell(self) -> None:
        publish(self._board, self._process, [*vitals(self._process), *self._collect()])

    def stop(self) -> None:
        self._repeating.stop()
        path = self._board / f"{self._process}.json"
        if (told := _read(path)) is not None and told.pid == os.getpid():
            path.unlink(missing_ok=True)  # a successor's stays


def nothing_more() -> Iterable[Sample]:
    """Of a process that has nothing to tell but how it is."""
    return ()


def start_publishing(
    engine: Engine,
    collect: Callable[[], Iterable[Sample]] = nothing_more,
    *,
    at_once: bool = True,
) -> Callable[[], None]:
    """Begin to tell of this process; call what is returned to end it."""
    board = board_of(engine)
    if board is None:
        return lambda: None
    return Publisher(board, own_name(), collect, at_once=at_once).stop
