"""The promises about a power loss, checked on one crash state by the real engine."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path

from holdfast.engine.port import Limits, Parcel
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.testing.conformance.workbench import (
    FLEET,
    HandClock,
    Owner,
    inbox,
    numbered,
    record,
    taken,
)
from tests.crashes.expected import Part, claimed, schemas_of
from tests.crashes.script import PARTITIONS, Moment, Run
from tests.crashes.states import CrashState

LIMITS = Limits(disk_reserve_bytes=1, segment_bytes=150_000)


class Broken(AssertionError):
    """A promise that does not hold in a state that a power loss may leave."""


class Checker:
    """Opens crash states in one place, one after the other.

    Partitions share no file. One whose files were found good before, when the same was promised
    of them, is not looked at again.
    """

    def __init__(self, run: Run, place: Path) -> None:
        self._run = run
        self._place = place
        self._good: set[tuple[int, bytes, int, int]] = set()

    def check(self, state: CrashState) -> None:
        moment = self._run.at(state.position)
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir()
        state.image.write(self._place)
        try:
            self._check(moment, state)
        except Exception as error:
            doing = moment.step.name if moment.step else "nothing"
            raise Broken(
                f"power loss after operation {state.position}, doing: {doing}; of what was not "
                f"synced survived: {state.kind}; {type(error).__name__}: {error}"
            ) from error

    def _check(self, moment: Moment, state: CrashState) -> None:
        root = self._place / "data"
        if moment.before is None:
            SqliteEngine.create(root, FLEET, PARTITIONS)  # a crash while creating: do it again
        engine = SqliteEngine(root, LIMITS, HandClock())
        try:
            schemas = schemas_of(engine)
            if moment.before is None or moment.after is None:
                assert schemas == ()
            else:
                assert schemas in (moment.before.schemas, moment.after.schemas), "schemas lost"
            for number in range(PARTITIONS):
                before = moment.before.parts[number] if moment.before else None
                after = moment.after.parts[number] if moment.after else None
                digest = state.image.digest(f"data/p{number:03d}")
                key = (number, digest, id(before), id(after))
                if key not in self._good:
                    _check_partition(engine, moment, number, before, after)
                    self._good.add(key)
        finally:
            engine.close()


def _check_partition(
    engine: SqliteEngine, moment: Moment, number: int, before: Part | None, after: Part | None
) -> None:
    if before is None or after is None:
        before = after = Part(engine.view(number).incarnation())
    more = before if len(before.answers) > len(after.answers) else after
    seen, owner = claimed(engine, number, more)
    happened = _compare(before, after, seen, moment.step is None or moment.step.whole)
    again = [parcel for to, parcel in moment.acknowledged if to == number]
    sent = moment.step.sent if moment.step else []
    in_flight = [parcel for to, parcel in sent if to == number]
    _send_again(engine, number, again, in_flight, happened)
    if in_flight:
        assert tuple(inbox(engine, number, seen.first)) == after.tags[seen.first :]
    _go_on(engine, owner)


def _compare(before: Part, after: Part, seen: Part, whole: bool) -> bool:
    """Whether the step in flight has happened. What was acknowledged must be there either way."""
    undone, lost = _differences(before, seen), _differences(after, seen)
    if not whole:
        assert not undone & lost, f"neither as before nor as after: {undone & lost}"
        return True
    assert not undone or not lost, f"differs from before in {undone}, from after in {lost}"
    return not lost


def _differences(expected: Part, seen: Part) -> set[str]:
    """What retention may forget need not be gone: a power loss may bring it back."""
    assert seen.first <= expected.head.position, "events are gone that nobody has folded"
    tags = (*expected.tags[: seen.first], *seen.tags)
    whole = replace(seen, first=min(seen.first, expected.first), tags=tags)
    wanted = replace(expected, first=whole.first)
    return {
        one.name for one in fields(Part) if getattr(wanted, one.name) != getattr(whole, one.name)
    } | ({"first"} if seen.first > expected.first else set())


def _send_again(
    engine: SqliteEngine, number: int, again: list[Parcel], in_flight: list[Parcel], happened: bool
) -> None:
    """All that was acknowledged is a repeat. What was in flight is taken once, now or then."""
    if not again + in_flight:
        return
    results = [taken(result).new for result in engine.append(number, again + in_flight)]
    assert not any(results[: len(again)]), "taken twice, though acknowledged"
    assert not happened or not any(results[len(again) :]), "taken twice"
    if in_flight:
        results = [taken(result).new for result in engine.append(number, in_flight)]
        assert not any(results), "taken twice, after the crash"


def _go_on(engine: SqliteEngine, owner: Owner) -> None:
    """Appending, folding and upkeep work as if nothing had been."""
    number = owner.claim.partition
    view = engine.view(number)
    reached = view.inbox_next() + 2
    assert taken(engine.append(number, [numbered("later", [1, 2])])[0]).next == reached
    newest = record("d-1", "after the crash", 99)
    owner.commit([newest], events=reached - owner.head.position)
    engine.maintain()
    assert view.record("Drone", "d-1") == newest
    assert view.head() == owner.head
    assert inbox(engine, number, reached - 2) == ["later.1", "later.2"]
