"""Conformance: upkeep and the end of an engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast.engine.port import Limits, no_images
from holdfast.errors import UsageError
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Issued
from holdfast.testing.conformance.commits import framed
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    WAIT_SECONDS,
    HandClock,
    Owner,
    Workbench,
    append,
    inbox,
    parcel,
    record,
    together,
)

# A segment per append, so that there is something to forget.
FORGETFUL = Limits(retain_seconds=0.001, retain_bytes=1, segment_bytes=1)


class UpkeepConformance(Workbench):
    @promise("Work that is off the commit path", "nobody sees a difference")
    def test_upkeep_changes_nothing_that_can_be_seen(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        append(engine, parcel(["a", "b"]))
        for i in range(1, 30):
            owner.commit([record(f"d-{n}", "x", i) for n in range(i % 7 + 1)])
        before = sorted(engine.view(0).records()), engine.view(0).head(), inbox(engine)
        upkeep = threading.Thread(target=engine.maintain)
        upkeep.start()
        upkeep.join()
        engine.maintain()
        assert (sorted(engine.view(0).records()), engine.view(0).head(), inbox(engine)) == before

    def test_upkeep_needs_no_claim(self) -> None:
        engine = self.engine(partitions=2)
        engine.maintain()
        append(engine, parcel(["a"]))
        engine.maintain()
        assert inbox(engine) == ["a"]

    @promise("But for what is past retention", "past it folded events go earlier", "per inbox")
    def test_of_events_only_folded_ones_are_ever_forgotten(self) -> None:
        engine = self.engine(limits=FORGETFUL)
        owner = Owner.of(engine)
        for i in range(6):
            append(engine, parcel([f"{i}a", f"{i}b"]))
        owner.commit(events=7)  # up to the middle of a frame
        for _ in range(4):
            engine.maintain()
        view = engine.view(0)
        assert 0 < view.inbox_first() <= 7, "nothing, or too much, was forgotten"
        assert view.inbox_next() == 12
        assert inbox(engine, position=7) == ["3b", "4a", "4b", "5a", "5b"]

    @promise("older events are past retention")
    def test_what_is_left_starts_at_the_first_position(self) -> None:
        engine = self.engine(limits=FORGETFUL)
        owner = Owner.of(engine)
        for i in range(6):
            append(engine, parcel([f"{i}"]))
        owner.commit(events=4)
        for _ in range(4):
            engine.maintain()
        view = engine.view(0)
        first = view.inbox_first()
        assert view.frames(first, 1)[0].first == first
        assert view.frames(0, 1)[0].first == first

    @promise("so long folded events and actions are kept")
    def test_what_is_younger_than_retention_is_kept(self) -> None:
        clock = HandClock(time.time())
        engine = self.engine(limits=Limits(retain_seconds=1_000.0, segment_bytes=1), clock=clock)
        owner = Owner.of(engine)
        for i in range(4):
            append(engine, parcel([f"{i}"]))
        issued = Issued(0, 1, clock.wall, framed("action"))
        owner.commit(events=4, issued=issued, head={"actions_next": 1})
        clock.pass_time(900.0)
        for _ in range(4):
            engine.maintain()
        assert engine.view(0).inbox_first() == 0
        assert inbox(engine) == ["0", "1", "2", "3"]
        assert engine.view(0).actions(0, 10) == [issued]

    @promise("may be called from any thread at any time", "Any thread")
    def test_upkeep_at_any_time(self) -> None:
        """While one appends, one commits and one reads, two threads do nothing but upkeep."""
        engine = self.engine(limits=FORGETFUL)
        owner = Owner.of(engine)
        rounds = 40
        done = threading.Event()
        tidied = threading.Semaphore(0)

        def work() -> None:
            try:
                for i in range(rounds):
                    assert tidied.acquire(timeout=WAIT_SECONDS), "upkeep does not come to an end"
                    append(engine, parcel([f"{i}"]))
                    owner.commit([record("d-1", "x", i + 1)], events=1)
            finally:
                done.set()

        def upkeep() -> None:
            while not done.is_set():
                engine.maintain()
                tidied.release()

        def read() -> None:
            view = engine.view(0)
            seen = 0
            while not done.is_set():
                first = view.inbox_first()
                assert first >= seen, "what was forgotten is back"
                seen = first
                frames = view.frames(first, 100)
                for before, after in pairwise(frames):
                    assert after.first == before.first + before.count, "a gap in what was read"

        together(work, upkeep, upkeep, read)
        assert engine.view(0).head().position == rounds
        assert engine.view(0).inbox_next() == rounds
        found = engine.view(0).record("Drone", "d-1")
        assert found is not None
        assert found.version == rounds

    # The end.

    @promise("`maintain` and another `close` do nothing")
    def test_closing_twice_is_closing(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine)
        append(engine, parcel(["a"]))
        engine.view(1).head()
        engine.close()
        engine.close()
        engine.wake()
        engine.maintain()
        engine.close()

    @promise("After `close` every call that would read or write is refused with `UsageError`")
    def test_a_closed_engine_refuses(self) -> None:
        """It must not acknowledge what is lost, nor claim what somebody else folds."""
        engine = self.engine(partitions=2)
        owner = Owner.of(engine)
        prepared = owner.prepare()
        engine.close()
        calls: dict[str, Callable[[], object]] = {
            "append": lambda: engine.append(0, [parcel(["a"])]),
            "read": lambda: engine.read(0, 0, 1),
            "view": lambda: engine.view(0),
            "assignments": lambda: list(engine.assignments([0, 1], 1)),
            "load": lambda: engine.load(owner.claim),
            "commit": lambda: engine.commit([(owner.claim, prepared)]),
            "compact": lambda: engine.compact(owner.claim, no_images),
            "register": lambda: engine.catalog.register([Schema("event", "Late", ())]),
        }
        for call in calls.values():
            with pytest.raises(UsageError, match="closed"):
                call()

    def test_closing_leaves_the_data(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel(["a", "b"]))
        owner = Owner.of(engine)
        owner.commit([record("d-1", "one")], events=1)
        engine.close()
        again = self.again(engine)
        assert inbox(again) == ["a", "b"]
        assert again.view(0).head() == owner.head
        assert Owner.of(again).claim.attempts == 0, "nobody died"
