"""Conformance: many threads at once. Producers, an owner and readers share one engine, and claims
race: nothing is lost, doubled or half seen, and of several owners one can commit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from holdfast.engine.port import Engine, Taken
from holdfast.errors import Busy, Fenced, HoldfastError
from holdfast.testing.conformance.commits import full_commit
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.waits import LONG_SECONDS, slept
from holdfast.testing.conformance.workbench import (
    WAIT_SECONDS,
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    record,
    soon,
    together,
)

PRODUCERS = 4
SENDS = 25


@contextmanager
def quick_switches() -> Iterator[None]:
    """Threads take turns so often that what is half done gets seen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def claimed_by(handle: Engine, claimed: list[Owner]) -> bool:
    """Claim, unless the owner commits so often that it leaves no moment for it: then try again."""
    try:
        claimed.append(Owner.of(handle))
    except Busy:
        return False
    return True


def fold(owner: Owner) -> None:
    """Commit what waits, with the number of events so far as the version of one agent."""
    waiting = owner.engine.view(owner.claim.partition).inbox_next() - owner.head.position
    owner.commit([record("counter", "x", owner.head.position + waiting)], events=waiting)


class ConcurrencyConformance(Workbench):
    def test_appends_of_many_threads_are_all_there_once(self) -> None:
        engine = self.engine()

        def produce(name: str) -> None:
            for i in range(SENDS):
                append(engine, numbered(name, [i]))

        together(*(partial(produce, f"t{n}") for n in range(PRODUCERS)))
        found = inbox(engine)
        assert sorted(found) == sorted(f"t{n}.{i}" for n in range(PRODUCERS) for i in range(SENDS))
        for n in range(PRODUCERS):
            mine = [tag for tag in found if tag.startswith(f"t{n}.")]
            assert mine == [f"t{n}.{i}" for i in range(SENDS)], "order within a source"

    def test_the_same_events_from_many_threads_are_taken_once(self) -> None:
        """A producer that sends again while its first try is still under way."""
        self.needs("refuses_at_append")
        engine = self.engine()
        new: list[int] = []

        def produce() -> None:
            for i in range(SENDS):
                new.append(append(engine, numbered("gcs", [2 * i, 2 * i + 1])).new)
                new.append(append(engine, messages("1-abc", i + 1, 1)).new)

        together(*[produce] * PRODUCERS)
        assert sum(new) == 3 * SENDS
        found = inbox(engine)
        assert len(found) == len(set(found)) == 3 * SENDS

    @promise("neither blocks a writer")
    def test_producers_an_owner_and_readers_at_once(self) -> None:
        """Two partitions, appended to by all; each folded as it fills; read all the time."""
        engine = self.engine(partitions=2)
        owners = [Owner.of(engine, n) for n in range(2)]
        everything = PRODUCERS * SENDS
        done = threading.Event()

        def produce(name: str) -> None:
            for i in range(SENDS):
                for partition in range(2):
                    append(engine, numbered(name, [i]), partition)

        def own() -> None:
            try:
                while any(owner.head.position < everything for owner in owners):
                    engine.wait(0.01)
                    for owner in owners:
                        fold(owner)
            finally:
                done.set()

        def read(partition: int) -> None:
            view = engine.view(partition)
            seen = 0
            while not done.wait(0.0002):  # so that others have the processor, too
                head = view.head().position
                counter = view.record("Drone", "counter")
                reached = 0 if counter is None else counter.version
                assert reached >= head >= seen
                assert view.inbox_next() >= reached, "folded before it was appended"
                seen = reached

        producers = [partial(produce, f"t{n}") for n in range(PRODUCERS)]
        together(own, partial(read, 0), partial(read, 1), *producers)
        for partition in range(2):
            found = inbox(engine, partition)
            assert len(found) == len(set(found)) == everything
            assert engine.view(partition).head().position == everything

    @promise("Whoever has seen a part of an append or commit sees all of it")
    def test_who_saw_a_part_of_a_commit_sees_all_of_it(self) -> None:
        """One after the other, in any order: no later look shows less than an earlier one."""
        engine = self.engine()
        owner = Owner.of(engine)
        view = engine.view(0)
        commits = 30
        done = threading.Event()

        def work() -> None:
            try:
                for i in range(1, commits + 1):
                    states = [record(f"d-{n:03}", "x", i) for n in range(200)]
                    parts = {**full_commit(owner), "outgoing": []}
                    owner.commit(states, 0, **parts)
            finally:
                done.set()

        def version(key: str) -> int:
            found = view.record("Drone", key)
            return 0 if found is None else found.version

        looks: list[Callable[[], int]] = [
            lambda: version("d-000"),
            lambda: version("d-199"),
            lambda: view.head().commits,
            lambda: len(view.actions(0, 1000)),
            lambda: len(view.letters()),
            lambda: len(view.journal(0, 1000)),
            lambda: max((r.version for r in view.records()), default=0),
        ]

        def read(turn: int) -> None:
            seen = at = 0
            while not done.is_set():
                at = (at + turn) % len(looks)
                found = looks[at]()
                assert found >= seen, f"look {at} shows commit {found}, {seen} was seen before"
                seen = found

        with quick_switches():
            together(work, partial(read, 1), partial(read, len(looks) - 1))
        assert [look() for look in looks] == [commits] * len(looks)

    def test_who_saw_a_part_of_an_append_sees_all_of_it(self) -> None:
        """Three parcels go in with one append: nobody ever finds one or two of them."""
        engine = self.engine()
        view = engine.view(0)
        done = threading.Event()

        def work() -> None:
            try:
                for i in range(60):
                    engine.append(0, [parcel([f"{i}{part}"]) for part in "abc"])
            finally:
                done.set()

        def read() -> None:
            seen = 0
            while not done.is_set():
                reached = sum(stored.count for stored in view.frames(seen, 1000))
                assert reached % 3 == 0, "a part of an append"
                assert view.inbox_next() >= seen + reached
                seen += reached

        with quick_switches():
            together(work, read)
        assert view.inbox_next() == 180

    @promise("show only what is durable and committed")
    def test_what_is_under_way_is_not_seen(self) -> None:
        self.needs_point("append.inside")
        self.needs_point("commit.inside")
        engine = self.engine()
        owner = Owner.of(engine)
        view = engine.view(0)
        early: list[object] = []

        def look() -> None:
            """From another thread; an engine may also let it wait until the call has ended."""
            found: list[object] = []
            reader = threading.Thread(
                target=lambda: found.append((view.inbox_next(), view.head().commits)), daemon=True
            )
            reader.start()
            reader.join(0.2)
            early.extend(found)

        self.faults.at("append.inside", look)
        append(engine, parcel(["a"]))
        assert early in ([], [(0, 0)])
        early.clear()
        self.faults.at("commit.inside", look)
        owner.commit([record("d-1", "one")], events=1)
        assert early in ([], [(1, 0)])
        assert (view.inbox_next(), view.head().commits) == (1, 1)

    # Turns.

    @promise("Raises Busy when others do not let it have its turn within `wait_seconds`")
    def test_an_append_that_gets_no_turn_gives_up_in_time(self) -> None:
        """It is taken or Busy, and never waits on and on behind somebody who hangs."""
        self.needs_point("append.inside")
        engine = self.engine()
        hangs, go_on = threading.Event(), threading.Event()

        def hang() -> None:
            hangs.set()
            go_on.wait(10 * WAIT_SECONDS)

        outcome: list[object] = []

        def try_to_append() -> None:
            hangs.wait(WAIT_SECONDS)
            try:
                outcome.extend(engine.append(0, [numbered("late", [1])], 0.1))
            except Busy as busy:
                outcome.append(busy)

        self.faults.at("append.inside", hang)
        first = threading.Thread(target=lambda: append(engine, parcel(["first"])), daemon=True)
        second = threading.Thread(target=try_to_append, daemon=True)
        first.start()
        second.start()
        second.join(WAIT_SECONDS)
        in_time = not second.is_alive()
        go_on.set()
        first.join(WAIT_SECONDS)
        second.join(WAIT_SECONDS)
        assert in_time, "it waited longer than it was told"
        assert isinstance(outcome[0], Taken | Busy)
        append(engine, numbered("late", [1]))
        assert sorted(inbox(engine)) == ["first", "late.1"]

    # Claims.

    @promise("Of several who claim, one can commit")
    def test_of_two_who_claim_at_once_one_can_commit(self) -> None:
        engine = self.engine()
        for _ in range(5):
            owners: list[Owner] = []

            def claim(handle: Engine, owners: list[Owner] = owners) -> None:
                owners.append(Owner.of(handle))

            together(*(partial(claim, self.other_handle(engine)) for _ in range(2)))
            assert len({owner.claim.epoch for owner in owners}) == 2
            outcomes = [self._try_to_commit(owner) for owner in owners]
            assert sorted(outcomes) == [False, True]
            latest = max(owners, key=lambda owner: owner.claim.epoch)
            assert outcomes[owners.index(latest)], "the later claim is the one that holds"
            appender = engine if self.capabilities.several_processes else latest.engine
            append(appender, parcel(["for whoever holds it"]))
            assert slept(latest.engine, LONG_SECONDS) < LONG_SECONDS / 2

    def _try_to_commit(self, owner: Owner) -> bool:
        try:
            owner.commit([record("d-1", "x", owner.claim.epoch)])
        except Fenced:
            return False
        return True

    @promise("until somebody claims it later", "Busy where the owner leaves no moment for it")
    def test_what_stands_before_a_claim_is_loaded_and_nothing_comes_after(self) -> None:
        """An owner commits on and on while another claims: nothing falls between the two."""
        engine = self.engine()
        for _ in range(4):
            old, other = Owner.of(engine), self.other_handle(engine)
            new = self._take_over(old, other)
            assert new.head == old.head, "acknowledged and not loaded, or the reverse"
            new.commit([record("d-1", "new owner", new.head.commits + 1)])
            engine = self.other_handle(other)

    def _take_over(self, old: Owner, other: Engine) -> Owner:
        """Claim through another handle while `old` commits without a pause, until it is fenced."""
        started = threading.Event()
        claimed: list[Owner] = []

        ended = threading.Event()

        def work() -> None:
            with pytest.raises(Fenced):
                while not ended.is_set():
                    old.commit([record("d-1", "x", old.head.commits + 1)])
                    started.set()
                old.commit()  # refused at the latest once the claim is made

        def claim() -> None:
            try:
                started.wait(WAIT_SECONDS)
                soon(lambda: claimed_by(other, claimed))
            finally:
                ended.set()

        together(work, claim)
        return claimed[0]

    @promise("also when that claim was made while this commit was under way")
    def test_a_claim_during_a_commit_fences_it(self) -> None:
        self.needs_point("commit.before")
        engine = self.engine()
        old = Owner.of(engine)
        other = self.other_handle(engine)
        claimed: list[Owner] = []
        self.faults.at("commit.before", lambda: claimed.append(Owner.of(other)))
        with pytest.raises(Fenced):
            old.commit([record("d-1", "late")])
        assert len(claimed) == 1
        assert list(other.view(0).records()) == []
        claimed[0].commit([record("d-1", "mine")])

    @pytest.mark.parametrize("point", ["commit.inside", "commit.after"])
    def test_a_claim_behind_the_fence_comes_before_or_after_the_commit(self, point: str) -> None:
        """It waits, or the commit is fenced: the new owner never loads half of it or misses it."""
        self.needs_point(point)
        engine = self.engine()
        old = Owner.of(engine)
        other = self.other_handle(engine)
        claimed: list[Owner] = []
        claiming = threading.Thread(target=lambda: claimed.append(Owner.of(other)), daemon=True)

        def claim() -> None:
            claiming.start()
            claiming.join(0.2)

        self.faults.at(point, claim)
        try:
            old.commit([record("d-1", "in time")])
        except Fenced:
            pass
        claiming.join(WAIT_SECONDS)
        assert claimed[0].head == old.head
        with pytest.raises(HoldfastError):
            old.commit([record("d-1", "late", 2)])
        found = other.view(0).record("Drone", "d-1")
        assert found == (record("d-1", "in time") if old.head.commits else None)
