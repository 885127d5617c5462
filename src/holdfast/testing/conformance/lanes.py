"""Conformance: the urgent lane. What stands in it overtakes the inbox, and is as safe as that."""

from __future__ import annotations

import pytest

from holdfast.engine.port import Engine, Limits, Parcel, Taken, waiting_in
from holdfast.errors import Backlog, Rescaling
from holdfast.stepping.lane import LANE
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.rescales import close_and_fold, owners
from holdfast.testing.conformance.workbench import (
    Crash,
    HandClock,
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    parcel,
    refusal,
    soon,
    tags_of,
    together,
)

ROUNDS = 40  # of appends while others look


def urgent(*tags: str) -> Parcel:
    return parcel(tags, urgent=[True] * len(tags))


def mixed(source: str, first: int, pattern: str) -> Parcel:
    """Events of a source, numbered on; a letter of the pattern for each, `u` is urgent."""
    seqs = range(first, first + len(pattern))
    tags = [f"{source}.{seq}" for seq in seqs]
    return parcel(tags, source=source, seqs=seqs, urgent=[letter == "u" for letter in pattern])


def lane(engine: Engine, place: int = 0, partition: int = 0) -> list[str]:
    """Every tag from a place on, by reading on to the end; each is in a frame of its own."""
    found: list[str] = []
    while batch := engine.read(partition, LANE + place, 3):
        for stored in batch:
            assert (stored.first, stored.count) == (LANE + place, 1), "a gap or a repeat"
            found += tags_of(stored)
            place += 1
    assert place == engine.view(partition).urgent_next()
    return found


def leads_to(engine: Engine, following: int, place: int) -> None:
    """What an append gave stands for this place, as soon as anybody can know."""
    soon(lambda: engine.view(0).position_of(following) is not None)
    assert engine.view(0).position_of(following) == place


def fold_urgent(owner: Owner, count: int) -> None:
    owner.commit(head={"urgent": owner.head.urgent + count})


class LaneConformance(Workbench):
    @promise("Rows that are urgent", "so many events have come to the lane")
    @promise("what is said of positions is true of the lane for itself")
    def test_urgent_rows_stand_in_the_lane_in_order(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b"]))
        append(engine, urgent("u", "v"))
        append(engine, parcel(["c"]))
        append(engine, urgent("w"))
        for each in (engine, self.again(engine)):
            assert lane(each) == ["u", "v", "w"]
            assert inbox(each) == ["a", "b", "c"]
            assert (each.view(0).inbox_next(), each.view(0).urgent_next()) == (3, 3)

    @promise("From a place in the lane on, those of the lane")
    def test_the_lane_is_read_from_any_place_on(self) -> None:
        engine = self.engine(partitions=2)
        append(engine, urgent(*"abcdef"))
        append(engine, urgent("other"), 1)
        assert lane(engine, 4) == ["e", "f"]
        assert engine.read(0, LANE + 6, 10) == []
        assert [tags_of(each) for each in engine.read(0, LANE + 1, 2)] == [["b"], ["c"]]
        assert engine.view(0).frames(LANE + 5, 10) == engine.read(0, LANE + 5, 10)
        assert engine.read(0, 0, 10) == []
        assert lane(engine, partition=1) == ["other"]

    @promise("one that is so in part has both", "its place in the lane")
    def test_a_mixed_parcel_is_divided(self) -> None:
        engine = self.engine()
        append(engine, urgent("before"))
        one = append(engine, mixed("gcs", 1, "-u-u"))
        assert inbox(engine) == ["gcs.1", "gcs.3"]
        assert lane(engine) == ["before", "gcs.2", "gcs.4"]
        assert one.new == 4
        leads_to(engine, one.next, 2)
        leads_to(engine, one.urgent, LANE + 3)
        assert append(engine, parcel(["only"])).urgent == 0

    @promise("Of a parcel that is wholly urgent it is a place in the lane")
    def test_a_parcel_that_is_urgent_has_a_place_in_the_lane(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        one = append(engine, mixed("gcs", 1, "uu"))
        assert one.next >= LANE
        assert one.places == (one.next,)
        leads_to(engine, one.next, LANE + 2)
        repeat = append(engine, mixed("gcs", 1, "uu"))
        if self.capabilities.refuses_at_append:
            assert repeat.places == (1, LANE + 2)
        leads_to(engine, repeat.places[-1], LANE + 2)
        assert lane(engine) == ["gcs.1", "gcs.2"]

    def test_numbers_are_known_in_lane_and_inbox_alike(self) -> None:
        engine = self.engine()
        append(engine, mixed("gcs", 1, "-u-"))
        for again in ("uuu", "---", "u-u"):
            append(engine, mixed("gcs", 1, again))
        one = append(engine, mixed("gcs", 2, "--u"))
        assert inbox(engine) == ["gcs.1", "gcs.3"]
        assert lane(engine) == ["gcs.2", "gcs.4"]
        if self.capabilities.refuses_at_append:
            assert (one.next, one.urgent, one.new) == (2, LANE + 2, 1)
        reopened = self.again(engine)
        append(reopened, mixed("gcs", 1, "-u-u"))
        assert (len(inbox(reopened)), len(lane(reopened))) == (2, 2)

    @promise("where it has both")
    def test_a_refused_parcel_leaves_nothing_in_either(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(sources_max=1))
        append(engine, mixed("gcs", 1, "u-"))
        refusal(engine, mixed("other", 1, "u-u"))
        assert (inbox(engine), lane(engine)) == (["gcs.2"], ["gcs.1"])

    @pytest.mark.parametrize("place", ["before", "inside", "after"])
    def test_a_crash_keeps_all_of_a_mixed_parcel_or_nothing(self, place: str) -> None:
        self.needs_point(f"append.{place}")
        engine = self.engine()
        append(engine, mixed("gcs", 1, "-u"))
        self.faults.crash_at(f"append.{place}")
        with pytest.raises(Crash):
            engine.append(0, [mixed("gcs", 3, "u-u")])
        after = self.again(engine)
        counts = len(inbox(after)), len(lane(after))
        assert counts in ((1, 1), (2, 3))
        append(after, mixed("gcs", 3, "u-u"))
        assert inbox(after) == ["gcs.1", "gcs.4"]
        assert lane(after) == ["gcs.2", "gcs.3", "gcs.5"]

    @promise("Whoever reads an inbox and then the lane sees all of an append")
    def test_the_lane_has_what_came_with_the_inbox(self) -> None:
        engine = self.engine()

        def send() -> None:
            for number in range(ROUNDS):
                append(engine, mixed("gcs", 2 * number + 1, "u-"))

        def look() -> None:
            view = engine.view(0)
            while (came := view.inbox_next()) < ROUNDS:
                assert view.urgent_next() >= came
                seen = sum(each.count for each in engine.read(0, 0, 1_000))
                assert sum(each.count for each in engine.read(0, LANE, 1_000)) >= seen

        together(send, look)
        assert len(lane(engine)) == ROUNDS

    def test_stamps_of_the_lane_go_on_from_those_of_the_inbox(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        append(engine, parcel(["a"]))
        clock.wall -= 50.0
        assert append(engine, urgent("u")).stamp == clock.wall + 50.0
        clock.wall += 60.0
        assert append(engine, urgent("v")).stamp == clock.wall
        clock.wall -= 5.0
        assert append(engine, parcel(["b"])).stamp == clock.wall + 5.0

    # Bounds.

    @promise("the same of those in the lane, whatever the backlog is")
    def test_each_of_the_two_has_a_bound_of_its_own(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(backlog_events_max=3, urgent_events_max=2))
        owner = Owner.of(engine)
        append(engine, urgent("u", "v"))
        assert isinstance(refusal(engine, urgent("w")), Backlog)
        append(engine, parcel(["a", "b", "c"]))
        assert isinstance(refusal(engine, parcel(["d"])), Backlog)
        command = parcel(["pause"], external=False, urgent=[True])
        assert append(engine, command).new == 1
        fold_urgent(owner, 3)
        soon(lambda: isinstance(engine.append(0, [urgent("w")])[0], Taken))
        assert isinstance(refusal(engine, parcel(["d"])), Backlog)
        assert lane(engine, 3) == ["w"]
        assert inbox(engine) == ["a", "b", "c"]

    # Folding.

    @promise("So many events have come and are not folded there")
    def test_a_commit_says_how_much_of_the_lane_is_folded(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        append(engine, urgent("u", "v"))
        owner = Owner.of(engine)
        fold_urgent(owner, 1)
        assert engine.view(0).head().urgent == 1
        reopened = self.again(engine)
        soon(lambda: reopened.view(0).head() == owner.head)
        view = reopened.view(0)
        assert waiting_in(view, view.head()) == 2
        successor = Owner.of(reopened)
        assert successor.head == owner.head
        assert lane(reopened, successor.head.urgent) == ["v"]
        successor.fold_all()
        fold_urgent(successor, 1)
        assert waiting_in(view, successor.head) == 0
        append(reopened, urgent("w"))
        assert lane(reopened, successor.head.urgent) == ["w"]

    @promise("those deaths were at the next event of the lane", "It may be a place in the lane")
    def test_deaths_at_an_urgent_event_are_told_from_others(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, urgent("u"))
        append(engine, parcel(["a"]))
        engine.folding(Owner.of(engine).claim, LANE)
        successor = Owner.of(self.again(engine))
        assert (successor.claim.attempts, successor.claim.urgent) == (1, True)
        fold_urgent(successor, 1)
        successor.engine.folding(successor.claim, 0)
        last = Owner.of(self.again(successor.engine))
        assert (last.claim.attempts, last.claim.urgent) == (1, False)

    @promise("which of them are kept once they are folded is not said")
    def test_upkeep_keeps_what_waits_in_the_lane(self) -> None:
        clock = HandClock()
        engine = self.engine(limits=Limits(segment_bytes=1, retain_bytes=1), clock=clock)
        owner = Owner.of(engine)
        for number in range(6):
            append(engine, mixed("gcs", 2 * number + 1, "-u"))
        owner.fold_all()
        fold_urgent(owner, 2)
        for _ in range(2):
            clock.pass_time(30 * 24 * 3600.0)
            engine.maintain()
        for each in (engine, self.again(engine)):
            assert lane(each, 2) == ["gcs.6", "gcs.8", "gcs.10", "gcs.12"]
        append(engine, mixed("gcs", 1, "-u-u-u-u-u-u"))
        assert engine.view(0).urgent_next() == 6

    # Captures and rescaling.

    def test_what_waits_in_the_lane_is_captured_and_planted(self) -> None:
        self.needs("captures")
        engine = self.engine(partitions=2)
        owner = Owner.of(engine)
        append(engine, mixed("gcs", 1, "u-uu"))
        fold_urgent(owner, 1)
        contents = engine.capture()
        planted = self.planted(contents)
        contents.close()
        assert planted.view(0).head() == owner.head
        for each in (planted, engine):
            append(each, mixed("gcs", 1, "u-uuu"))
            assert lane(each, 1) == ["gcs.3", "gcs.4", "gcs.5"]
            assert inbox(each) == ["gcs.2"]
            assert lane(each, partition=1) == []
        again = Owner.of(planted)
        fold_urgent(again, 3)
        assert again.head.urgent == planted.view(0).urgent_next() == 4

    def test_what_waits_in_the_lane_is_not_left_behind_by_a_rescaling(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        append(engine, mixed("gcs", 1, "-u"))
        both = owners(engine)
        close_and_fold(engine, both)
        assert isinstance(refusal(engine, urgent("late")), Rescaling)
        claims = [owner.claim for owner in both]
        with pytest.raises(Rescaling):
            engine.rescale(claims, 3)
        fold_urgent(both[0], 1)
        engine.rescale(claims, 3)
        for number in engine.catalog.layout.numbers:
            view = engine.view(number)
            assert (view.urgent_next(), view.head().urgent) == (0, 0)
            append(engine, mixed("gcs", 1, "-u"), number)
            assert (inbox(engine, number), lane(engine, partition=number)) == ([], [])
            append(engine, urgent("u"), number)
            append(engine, messages("other", 1, 1), number)
            assert lane(engine, partition=number) == ["u"]

    def test_an_urgent_event_ends_a_wait(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        append(engine, urgent("u"))
        engine.wait(60.0)
        assert lane(engine) == ["u"]
