"""The snapshotter: takes a snapshot whenever one is due, and lets old ones go.

A plain loop object like the worker: engine, store and clocks are handed in, `tick()` advances it.
It reads beside the workers and never writes to the fleet's data, so the worst it can do is to take
time from them. That is bounded twice: it works for at most a share of the time, and when commits
came slower during a snapshot while events waited, the next ones come more rarely.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.port import Engine, waiting_in
from holdfast.errors import DiskFull, HoldfastError, TryAgain, Unreachable
from holdfast.runtime.snapshots import retention
from holdfast.runtime.snapshots.creating import Creation, Made, Memory
from holdfast.runtime.snapshots.retention import Keeping
from holdfast.runtime.snapshots.store import SnapshotStore

LOOK_SECONDS = 0.5
RETRY_SECONDS = 30.0
COLLECT_SECONDS = 3600.0
STRETCH_MAX = 16.0
SLOWED = 0.7  # of the commits per second before: fewer than that during a snapshot is slower

_log = logging.getLogger("holdfast.snapshots")


class Pace(NamedTuple):
    """When snapshots are due."""

    events: int = 10_000
    seconds: float = 300.0
    share: float = 0.05  # of the time, at most
    keeping: Keeping = Keeping()


PACE = Pace()


class Seen(NamedTuple):
    """How far the fleet was at a time."""

    at: float
    events: int  # folded
    commits: int
    waiting: int
    partitions: range

    def commits_per_second(self, before: Seen) -> float:
        return (self.commits - before.commits) / max(1e-6, self.at - before.at)


class Snapshotter:
    def __init__(
        self,
        engine: Engine,
        store: SnapshotStore,
        pace: Pace = PACE,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._store = store
        self._pace = pace
        self._monotonic = monotonic
        self._wall = wall
        self._memory = Memory()
        self._creation = Creation(engine, store, self._memory, wall, monotonic)
        self._last: Seen | None = None  # at the end of the last snapshot
        self._looked = self._look()
        self._rest_until = self._looked.at
        self._collected = self._looked.at
        self.stretch = 1.0  # of the interval
        self.made: Made | None = None
        self.taken: float | None = None  # when the newest was, by the clock
        self.trouble: str | None = None

    def tick(self) -> bool:
        """True if a snapshot was made."""
        try:
            return self._tick()
        except HoldfastError as trouble:
            self._rest_until = self._monotonic() + (1.0 if _soon(trouble) else RETRY_SECONDS)
            if self.trouble != str(trouble):
                self.trouble = str(trouble)
                _log.warning("no snapshot: %s", trouble)
            return False

    def _tick(self) -> bool:
        if not self._engine.folds_here(self._engine.catalog.layout.first):
            return False  # of several machines one makes them
        seen = self._look()
        if not self._due(seen):
            if seen.at - self._looked.at > self._pace.seconds:
                self._looked = seen  # the commits before a snapshot are those shortly before
            return False
        if self._last is None and self._is_saved(seen):
            self._last = seen
            return False
        self.made = self._creation.run()
        self.taken = self.made.manifest.taken
        self.trouble = None
        after = self._look()
        self._judge(seen, after)
        took = after.at - seen.at
        self._rest_until = after.at + took * (1.0 / self._pace.share - 1.0)
        self._last = self._looked = after._replace(events=seen.events, commits=seen.commits)
        self._tidy(after.at)
        return True

    def _due(self, seen: Seen) -> bool:
        if seen.at < self._rest_until:
            return False
        last = self._last
        if last is None or last.partitions != seen.partitions:
            return True  # what was there when it started, so that every run has one to go back to
        if seen.commits == last.commits:
            return False
        enough = seen.events - last.events >= self._pace.events * self.stretch
        return enough or seen.at - last.at >= self._pace.seconds * self.stretch

    def _is_saved(self, seen: Seen) -> bool:
        """Whether the newest snapshot, of an earlier run, has all there is."""
        newest = self._creation.before()
        self.taken = None if newest is None else newest.taken
        if newest is None or newest.layout.numbers != seen.partitions:
            return False
        return sum(entry.facts.head.commits for entry in newest.partitions) == seen.commits

    def _judge(self, before: Seen, after: Seen) -> None:
        """Slower commits with nothing waiting are only a quiet moment."""
        usual = before.commits_per_second(self._looked)
        slowed = after.commits_per_second(before) < usual * SLOWED
        if slowed and after.waiting:
            self.stretch = min(STRETCH_MAX, self.stretch * 2.0)
        else:
            self.stretch = max(1.0, self.stretch / 2.0)

    def _tidy(self, now: float) -> None:
        """What fails here is tried after the next snapshot."""
        try:
            retention.retain(self._store, self._pace.keeping)
            if now - self._collected >= COLLECT_SECONDS:
                retention.collect(self._store, self._wall())
                self._collected = now
        except HoldfastError as trouble:
            _log.warning("old snapshots stay for now: %s", trouble)

    def _look(self) -> Seen:
        numbers = self._engine.catalog.layout.numbers
        views = [self._engine.view(number) for number in numbers]
        heads = [view.head() for view in views]
        waiting = sum(waiting_in(v, h) for v, h in zip(views, heads, strict=True))
        return Seen(
            self._monotonic(),
            sum(head.position for head in heads),
            sum(head.commits for head in heads),
            waiting,
            numbers,
        )


def _soon(trouble: HoldfastError) -> bool:
    """A lock or a rescaling in the way is gone in a moment; a store or a full disk is not."""
    again = isinstance(trouble, TryAgain) and not isinstance(trouble, (DiskFull, Unreachable))
    return again and "://" not in str(trouble)
