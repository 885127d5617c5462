"""Conformance: a crash at every call. The call happened wholly or not at all, and what was before
is intact; repeating it has exactly one effect.

A short workload runs up to one call, which is cut off at one of the fault points the engine calls.
The handle is then left as it is, as a dead process leaves it, and a new one looks and goes on.
"""

from __future__ import annotations

import pytest

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import DiskFull
from holdfast.stepping.commit import Commit, Issued, Journalled, Outgoing, Record
from holdfast.testing.conformance.commits import ANSWER, framed, full_commit, letter, visible
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    Crash,
    HandClock,
    Owner,
    Workbench,
    gone,
    inbox,
    messages,
    numbered,
    record,
    stamps,
)

PARTITIONS = range(2)
APPEND, COMMIT = "append", "commit"
# Each call, by what it is to be cut off in.
CALLS = (APPEND, APPEND, COMMIT, APPEND, COMMIT, COMMIT, APPEND, COMMIT)
CRASHES = [
    (number, f"{call}.{place}")
    for number, call in enumerate(CALLS)
    for place in ("before", "inside", "after")
]


def parcels(number: int) -> tuple[int, list[Parcel]]:
    """What the appends of the workload carry, and where to."""
    one = numbered("gcs", range(1, 4)), messages("1-abc", 1, 2)
    return {
        0: (0, list(one)),
        1: (1, [numbered("gcs", [7])]),
        3: (0, [numbered("gcs", [3, 4]), numbered("gcs", [4, 5]), numbered("ä", [1])]),
        6: (1, [messages("0-abc", 1, 1), numbered("gcs", [7, 8])]),
    }[number]


def commits(number: int, owners: list[Owner]) -> list[tuple[Owner, Commit]]:
    """What the commits of the workload carry, from the head that the one before has left."""
    first, second = owners
    if number == 2:
        full = first.prepare(
            [record("d-1", "one"), record("d-2", "two")],
            events=5,
            outgoing=[Outgoing(1, 1, 1, framed("out"))],
            sent_next={1: 2},
            issued=Issued(0, 2, 5.0, framed("actions")),
            answers=[ANSWER],
            letters=[letter(1)],
            journalled=Journalled(0, 1, framed("timer")),
            head={"actions_next": 2, "letters_next": 2, "journal_next": 1},
        )
        return [(first, full)]
    if number == 4:
        return [(first, first.prepare([gone("d-1", 2)], events=2, redriven=[1], relayed={1: 1}))]
    if number == 5:
        both = [owner.prepare([record("d-9", "new")], events=1) for owner in owners]
        return list(zip(owners, both, strict=True))
    return [(second, second.prepare([record("d-9", "newer", 2)], events=2))]


EXPECTED_TAGS = (
    ["gcs.1", "gcs.2", "gcs.3", "1-abc>1", "1-abc>2", "gcs.4", "gcs.5", "ä.1"],
    ["gcs.7", "0-abc>1", "gcs.8"],
)
EXPECTED_RECORDS: tuple[list[Record], ...] = (
    [record("d-2", "two"), record("d-9", "new")],
    [record("d-9", "newer", 2)],
)


def everything(engine: Engine, partition: int) -> object:
    """All that anybody can see of a partition."""
    view = engine.view(partition)
    return (
        visible(engine, partition),
        inbox(engine, partition),
        stamps(engine, partition),
        view.marks(),
        view.incarnation(),
    )


class Workload:
    """The calls in order, each of which may be made again by a successor on another handle."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.owners = [Owner.of(engine, n) for n in PARTITIONS]

    def call(self, number: int) -> None:
        if CALLS[number] == APPEND:
            partition, taken_together = parcels(number)
            for result in self.engine.append(partition, taken_together):
                assert not isinstance(result, Exception), result
            return
        made = commits(number, self.owners)
        self.engine.commit([(owner.claim, commit) for owner, commit in made])
        for owner, commit in made:
            owner.head = commit.head

    def go_on_with(self, engine: Engine) -> None:
        """Another process takes over. It repeats what it does not know the outcome of."""
        heads = [owner.head for owner in self.owners]
        self.engine = engine
        self.owners = [Owner.of(engine, n) for n in PARTITIONS]
        for owner, head in zip(self.owners, heads, strict=True):
            owner.head = head


class CrashConformance(Workbench):
    def _workload(self) -> Workload:
        return Workload(self.engine(partitions=len(PARTITIONS), clock=HandClock()))

    def _finish(self, work: Workload, number: int, before: list[object]) -> None:
        """Look at what the crash left, repeat the call and make the rest of the calls."""
        again = self.again(work.engine)
        left = [everything(again, n) for n in PARTITIONS]
        work.go_on_with(again)
        work.call(number)
        after = [everything(again, n) for n in PARTITIONS]
        for n in PARTITIONS:
            assert left[n] in (before[n], after[n]), "neither wholly nor not at all"
        for following in range(number + 1, len(CALLS)):
            work.call(following)
        for n in PARTITIONS:
            assert [tag for tag in inbox(again, n) if tag != "out"] == EXPECTED_TAGS[n]
            assert sorted(again.view(n).records()) == EXPECTED_RECORDS[n]
            assert again.load(work.owners[n].claim).head == work.owners[n].head
        assert again.load(work.owners[0].claim).outbox == []
        assert inbox(again, 1).count("out") == self.capabilities.delivers_messages
        assert again.view(0).letters() == [(letter(1), True)]
        assert [issued.count for issued in again.view(0).actions(0, 9)] == [2]
        assert again.view(0).sent_next() == {1: 2}

    @promise(
        "A call that ends in a crash has happened wholly or not at all, and leaves what was before",
        "after any trouble but Fenced it may be repeated",
    )
    @pytest.mark.parametrize(("number", "point"), CRASHES)
    def test_a_crash_inside_a_call(self, number: int, point: str) -> None:
        self.needs_point(point)
        work = self._workload()
        for earlier in range(number):
            work.call(earlier)
        before = [everything(work.engine, n) for n in PARTITIONS]
        self.faults.crash_at(point)
        with pytest.raises(Crash):
            work.call(number)
        self._finish(work, number, before)

    @promise("One that stands already is done")
    @pytest.mark.parametrize("number", range(len(CALLS)))
    def test_a_crash_after_a_call(self, number: int) -> None:
        """It was acknowledged, so it stands; and the successor may still repeat it."""
        work = self._workload()
        heads = [owner.head for owner in work.owners]
        for earlier in range(number + 1):
            heads = [owner.head for owner in work.owners]
            work.call(earlier)
        stands = [everything(work.engine, n) for n in PARTITIONS]
        for owner, head in zip(work.owners, heads, strict=True):
            owner.head = head
        self._finish(work, number, stands)

    @promise("events are durable, all of a parcel or none")
    def test_a_crash_at_the_first_call_of_all(self) -> None:
        self.needs_point("append.inside")
        engine = self.engine()
        self.faults.crash_at("append.inside")
        with pytest.raises(Crash):
            engine.append(0, [numbered("gcs", range(1, 4))])
        again = self.again(engine)
        assert inbox(again) in ([], ["gcs.1", "gcs.2", "gcs.3"])
        again.append(0, [numbered("gcs", range(1, 4))])
        assert inbox(again) == ["gcs.1", "gcs.2", "gcs.3"]

    def test_crashes_without_end(self) -> None:
        """Every handle dies in its first append, and every successor in the same one."""
        self.needs_point("append.inside")
        engine = self.engine()
        for _ in range(5):
            self.faults.crash_at("append.inside")
            with pytest.raises(Crash):
                engine.append(0, [numbered("gcs", [1, 2]), messages("1-abc", 1, 1)])
            engine = self.again(engine)
        engine.append(0, [numbered("gcs", [1, 2]), messages("1-abc", 1, 1)])
        assert inbox(engine) == ["gcs.1", "gcs.2", "1-abc>1"]

    @promise("DiskFull leaves nothing behind, so repeat it")
    def test_trouble_inside_a_commit_leaves_nothing(self) -> None:
        """The handle lives on, and so may its owner: it repeats the very same commit."""
        self.needs_point("commit.inside")
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit([record("d-1", "one")])
        before = everything(engine, 0)
        prepared = owner.prepare([record("d-1", "two", 2)], 0, **full_commit(owner))

        def fill_the_disk() -> None:
            raise DiskFull("no room at all")

        for _ in range(3):
            self.faults.at("commit.inside", fill_the_disk)
            with pytest.raises(DiskFull):
                engine.commit([(owner.claim, prepared)])
            assert everything(engine, 0) == before
        engine.commit([(owner.claim, prepared)])
        assert engine.view(0).head() == prepared.head
        assert len(engine.view(0).letters()) == 1

    def test_every_fault_point_is_passed(self) -> None:
        """A point that is declared and never called would be a crash that is never tried."""
        if not self.fault_points:
            pytest.skip("this engine calls no fault points")
        work = self._workload()
        for number in range(len(CALLS)):
            work.call(number)
        known = {point for _, point in CRASHES}
        planting = {"plant.inside", "plant.after"}  # passed in captures.py
        assert self.fault_points <= known | planting, "names that engine/faults.py does not have"
        assert self.fault_points - planting <= set(self.faults.passed)
