"""The fleet as it was at a time: every partition that lived then, folded from the newest snapshot
before it, or from the beginning.

What is folded is compared with what was committed on the way, so that other code than that of then
is found out and gives no answer.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.engine.port import Engine
from holdfast.engine.stamping import system_clock
from holdfast.errors import TimedOut, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema
from holdfast.runtime.replaying.comparing import Comparison
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.history import History, all_slots, generation_of, written
from holdfast.runtime.replaying.replay import Replay, Start
from holdfast.runtime.schemas import codebook_of
from holdfast.runtime.snapshots.beginnings import latest_start, snapshots_at, why_not
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Head, Letter, Record


class Moment(NamedTuple):
    """What a fleet had folded by a time."""

    heads: dict[int, Head]
    records: dict[int, list[Record]]
    letters: list[tuple[int, Letter, bool]]
    schemas: dict[int, Schema]


class Bounded(History):
    """History that nobody folds for longer than is allowed."""

    deadline = float("inf")
    why = ""

    def run(self, replay: Replay, until: Until = END) -> Iterator[Commit]:
        for commit in super().run(replay, until):
            if clocks.monotonic() > self.deadline:
                raise TimedOut(self.why)
            yield commit


def moment_of(
    engine: Engine,
    fleet: Callable[[], FleetModel] | None,
    at: float,
    snapshots: str | None,
    seconds: float,
) -> Moment:
    if not at <= system_clock().wall:
        raise UsageError(f"{written(at)} is in the future: give a time before now")
    if fleet is None:
        raise UsageError(
            "the past is folded again from its events: give the code that folds them: --fleet FILE"
        )
    loaded = fleet()
    if loaded.name != engine.catalog.fleet:
        raise UsageError(
            f"the code is of fleet {loaded.name!r}, the data of {engine.catalog.fleet!r}"
        )
    codebook = codebook_of(loaded, engine.catalog.schemas())
    with snapshots_at(snapshots, engine) as store:
        histories = _living(engine, store, at)
        late = f"the fleet at {written(at)} was not folded within {seconds:g} s: take snapshots "
        late += "more often, or raise the bound"
        found = Moment({}, {}, [], {})
        deadline = clocks.monotonic() + seconds
        for history, start in histories:
            history.deadline, history.why = deadline, late
            replay = _folded(loaded, codebook, engine, history, start, at)
            number = history.number
            found.heads[number] = replay.head
            found.records[number] = list(replay.records())
            found.letters.extend((number, *each) for each in replay.letters())
    used = {record.schema for records in found.records.values() for record in records}
    used |= {letter.schema for _, letter, _ in found.letters}
    schemas = {each: codebook.schema_of(each) for each in used}
    return found._replace(schemas={**engine.catalog.schemas(), **schemas})


def _living(engine: Engine, store: SnapshotStore | None, at: float) -> list[tuple[Bounded, Start]]:
    """The partitions that lived then, and where each is folded from."""
    slots = all_slots(engine.catalog)
    numbers = generation_of(slots, engine.catalog.layout.first)
    while True:
        lives = [Bounded(engine, number) for number in numbers]
        starts = [latest_start(life, store, at) for life in lives]
        for life, start in zip(lives, starts, strict=True):
            if start is None:
                kept = life.first_kept()
                raise UsageError(
                    f"the fleet at {written(at)} cannot be told: partition {life.number}: "
                    f"{why_not(life, store) if kept else 'there is no history'}"
                )
        pairs = [(life, start) for life, start in zip(lives, starts, strict=True) if start]
        if numbers.start == 0 or all(start.head.now <= at for _, start in pairs):
            return pairs
        numbers = generation_of(slots, numbers.start - 1)  # before a rescaling


def _folded(
    fleet: FleetModel, codebook: Codebook, engine: Engine, history: Bounded, start: Start, at: float
) -> Replay:
    comparison = Comparison(fleet, codebook, engine, history, start, Until(time=at))
    difference = comparison.run().difference
    if difference is not None:
        raise UsageError(
            f"partition {history.number}: this code makes another history up to {written(at)} "
            f"({difference.agent}: {difference.what}): run the code of then; `holdfast replay` "
            "tells more"
        )
    return comparison.replay
