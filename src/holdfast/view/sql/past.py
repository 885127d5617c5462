"""The fleet as it was at a time: every partition that lived then, folded from the newest snapshot
before it, or from the beginning.

What is folded is compared with what was committed on the way, so that other code than that of then
is found out and gives no answer.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterator
from functools import partial
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

    def __init__(self, engine: Engine, number: int, deadline: float, late: str) -> None:
        super().__init__(engine, number)
        self._deadline = deadline
        self._late = late

    def run(self, replay: Replay, until: Until = END) -> Iterator[Commit]:
        for commit in super().run(replay, until):
            if clocks.monotonic() > self._deadline:
                raise TimedOut(self._late)
            yield commit


class Life(NamedTuple):
    """A partition that lived then, and where it is folded from."""

    history: Bounded
    start: Start
    begin: Callable[[], Start]  # the same once more


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
    late = (
        f"the fleet at {written(at)} was not folded within {seconds:g} s: take snapshots more "
        "often, or raise the bound"
    )
    bounded = partial(Bounded, engine, deadline=clocks.monotonic() + seconds, late=late)
    found = Moment({}, {}, [], {})
    with snapshots_at(snapshots, engine) as store:
        for life in _living(engine, bounded, store, at):
            replay = _folded(loaded, codebook, engine, life, at)
            number = life.history.number
            found.heads[number] = replay.head
            found.records[number] = list(replay.records())
            found.letters.extend((number, *each) for each in replay.letters())
    used = {record.schema for records in found.records.values() for record in records}
    used |= {letter.schema for _, letter, _ in found.letters}
    schemas = {each: codebook.schema_of(each) for each in used}
    return found._replace(schemas={**engine.catalog.schemas(), **schemas})


def _living(
    engine: Engine, bounded: Callable[[int], Bounded], store: SnapshotStore | None, at: float
) -> list[Life]:
    """Those of the present partitions, or of the ones before a rescaling that came later."""
    slots = all_slots(engine.catalog)
    numbers = generation_of(slots, engine.catalog.layout.first)
    while True:
        lives = [_life(bounded(number), store, at) for number in numbers]
        if numbers.start == 0 or all(life.start.head.now <= at for life in lives):
            return lives
        numbers = generation_of(slots, numbers.start - 1)


def _life(history: Bounded, store: SnapshotStore | None, at: float) -> Life:
    def begin() -> Start:
        start = latest_start(history, store, at)
        if start is None:
            raise UsageError(
                f"the fleet at {written(at)} cannot be told: partition {history.number}: "
                f"{why_not(history, store)}"
            )
        return start

    return Life(history, begin(), begin)


def _folded(fleet: FleetModel, codebook: Codebook, engine: Engine, life: Life, at: float) -> Replay:
    comparison = Comparison(fleet, codebook, engine, life.history, life.start, Until(time=at))
    difference = comparison.run().difference
    if difference is None and not comparison.is_sure:
        # Newer classes have other bytes for the same states: then the end of the story decides.
        whole = Comparison(fleet, codebook, engine, life.history, life.begin(), END)
        difference = whole.run().difference
    if difference is not None:
        raise UsageError(
            f"partition {life.history.number}: this code makes another history up to "
            f"{written(at)} ({difference.agent}: {difference.what}): run the code of then; "
            "`holdfast replay` tells more"
        )
    return comparison.replay
