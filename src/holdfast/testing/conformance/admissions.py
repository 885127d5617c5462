"""Conformance: dedupe by (source, seq), message marks, ordered sources, the bound of sources."""

from __future__ import annotations

import pytest

from holdfast.engine.admission import CHUNK, WINDOW
from holdfast.engine.port import Limits
from holdfast.engine.sources import ANONYMOUS_SECONDS, FORGOTTEN_SECONDS
from holdfast.errors import OutOfOrder, TooManySources, TooOld
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    HandClock,
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    refusal,
)

FORGETFUL = Limits(retain_seconds=0.001, retain_bytes=1, segment_bytes=1)


class AdmissionConformance(Workbench):
    @promise("a repeat of a (source, seq)", "an append dedupes, refuses, stamps")
    def test_a_repeat_is_a_no_op(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        first = append(engine, numbered("gcs", range(1, 6)))
        for _ in range(3):
            repeat = append(engine, numbered("gcs", range(1, 6)))
            assert (repeat.next, repeat.new) == (first.next, 0)
        assert inbox(engine) == [f"gcs.{i}" for i in range(1, 6)]

    def test_of_a_partial_repeat_only_the_new_ones_are_taken(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, numbered("gcs", range(5, 10)))
        assert append(engine, numbered("gcs", range(3, 12))).new == 4
        assert append(engine, numbered("gcs", [2, 7, 13, 11])).new == 2
        assert inbox(engine) == [f"gcs.{i}" for i in (5, 6, 7, 8, 9, 3, 4, 10, 11, 2, 13)]

    def test_a_repeat_within_one_append_is_seen(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        engine.append(0, [numbered("gcs", [1]), numbered("gcs", [1, 2]), numbered("gcs", [2])])
        assert inbox(engine) == ["gcs.1", "gcs.2"]

    def test_sources_have_numbers_of_their_own(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        for source in ("a", "b", "a.b", "A", "ä"):
            assert append(engine, numbered(source, [1, 2])).new == 2
        assert len(inbox(engine)) == 10

    @promise("without one nothing is a repeat")
    def test_events_without_a_source_are_never_repeats(self) -> None:
        engine = self.engine()
        for _ in range(3):
            assert append(engine, parcel(["same"])).new == 1
        assert inbox(engine) == ["same"] * 3

    def test_numbers_that_step_are_not_taken_for_a_run(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        assert append(engine, numbered("gcs", range(0, 10, 2))).new == 5
        assert append(engine, numbered("gcs", range(10))).new == 5
        assert sorted(inbox(engine)) == [f"gcs.{i}" for i in range(10)]

    def test_a_late_number_within_the_window_is_taken_once(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, numbered("gcs", [WINDOW + CHUNK]))
        for late in (CHUNK + 1, CHUNK + 2, WINDOW // 2, WINDOW + CHUNK - 1):
            assert append(engine, numbered("gcs", [late])).new == 1
            assert append(engine, numbered("gcs", [late])).new == 0

    def test_the_window_ends_exactly_where_it_says(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        top = 3 * WINDOW + 17
        append(engine, numbered("gcs", [top]))
        assert append(engine, numbered("gcs", [top - WINDOW + 1])).new == 1
        assert append(engine, numbered("gcs", [top - WINDOW + 1])).new == 0
        error = refusal(engine, numbered("gcs", [top - WINDOW]))
        assert isinstance(error, TooOld)
        assert str(top - WINDOW + 1) in str(error), "it says where the window starts"
        # One more moves the edge by one.
        append(engine, numbered("gcs", [top + 1]))
        assert isinstance(refusal(engine, numbered("gcs", [top - WINDOW + 1])), TooOld)
        assert append(engine, numbered("gcs", [top - WINDOW + 2])).new == 1

    def test_a_leap_forgets_what_falls_out_of_the_window(self) -> None:
        """Forgotten numbers are refused, never taken for new."""
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, numbered("gcs", range(1, 100)))
        append(engine, numbered("gcs", [10 * WINDOW]))
        for old in (1, 50, 99, 9 * WINDOW):
            assert isinstance(refusal(engine, numbered("gcs", [old])), TooOld)
        assert append(engine, numbered("gcs", range(9 * WINDOW + 1, 9 * WINDOW + 9))).new == 8

    def test_dedupe_outlives_the_process(self) -> None:
        self.needs("refuses_at_append")
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, numbered("gcs", range(1, 6)))
        append(engine, messages("0-first", 1, 4))
        again = self.again(engine)
        assert append(again, numbered("gcs", range(1, 7))).new == 1
        assert append(again, messages("0-first", 3, 4)).new == 2
        assert again.view(0).marks() == {"0-first": 6}

    def test_dedupe_and_positions_outlive_retention(self) -> None:
        """Counters are stored, not derived from what is left in the inbox."""
        engine = self.engine(limits=FORGETFUL)
        owner = Owner.of(engine)
        append(engine, numbered("gcs", range(1, 6)))
        append(engine, messages("0-first", 1, 4))
        owner.fold_all()
        for _ in range(3):
            engine.maintain()
        view = engine.view(0)
        assert view.inbox_next() == 9
        assert view.inbox_first() <= 9
        self.is_told(append(engine, messages("0-first", 1, 5)), 10, 1)
        if self.capabilities.refuses_at_append:
            assert append(engine, numbered("gcs", range(1, 6))).new == 0
            assert append(engine, numbered("gcs", [6])).next == 11
        assert inbox(engine, position=9)[0] == "0-first>5"

    # Messages.

    @promise("or of a message number is a no-op")
    def test_a_repeated_message_is_a_no_op(self) -> None:
        engine = self.engine()
        self.is_told(append(engine, messages("1-abc", 1, 3)), 3, 3)
        self.is_told(append(engine, messages("1-abc", 1, 3)), 3, 0)
        self.is_told(append(engine, messages("1-abc", 2, 1)), 3, 0)
        self.is_told(append(engine, messages("1-abc", 4, 1)), 4, 1)
        assert inbox(engine) == [f"1-abc>{n}" for n in (1, 2, 3, 4)]
        assert engine.view(0).marks() == {"1-abc": 4}

    def test_of_overlapping_messages_only_the_new_ones_are_taken(self) -> None:
        engine = self.engine()
        append(engine, messages("1-abc", 1, 3))
        self.is_told(append(engine, messages("1-abc", 2, 4)), 5, 2)
        assert inbox(engine) == [f"1-abc>{n}" for n in range(1, 6)]

    @promise("Where a parcel of messages stands in the stream from one partition to another")
    def test_a_gap_in_messages_is_refused(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        assert isinstance(refusal(engine, messages("1-abc", 2, 1)), OutOfOrder)
        append(engine, messages("1-abc", 1, 3))
        error = refusal(engine, messages("1-abc", 5, 1))
        assert isinstance(error, OutOfOrder)
        assert "expected 4" in str(error)
        assert engine.view(0).marks() == {"1-abc": 3}
        assert inbox(engine) == [f"1-abc>{n}" for n in (1, 2, 3)]

    def test_a_new_incarnation_starts_a_new_mark(self) -> None:
        engine = self.engine()
        append(engine, messages("1-abc", 1, 2))
        append(engine, messages("1-def", 1, 2))
        assert engine.view(0).marks() == {"1-abc": 2, "1-def": 2}
        assert len(inbox(engine)) == 4

    # Ordered sources: each event names the number before it for its key.

    def test_an_ordered_source_is_taken_in_order_per_key(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        chain = parcel(
            ["a1", "b1", "a2"],
            source="up",
            seqs=[1, 2, 3],
            keys=["a", "b", "a"],
            previous=[0, 0, 1],
        )
        assert append(engine, chain).new == 3
        assert append(engine, chain).new == 0, "a repeat is still a repeat"
        more = parcel(["b2"], source="up", seqs=[4], keys=["b"], previous=[2])
        assert append(engine, more).new == 1
        assert inbox(engine) == ["a1", "b1", "a2", "b2"]

    def test_a_gap_in_an_ordered_source_is_refused_with_the_number_expected(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, parcel(["a1"], source="up", seqs=[1], keys=["a"], previous=[0]))
        gap = parcel(["a3"], source="up", seqs=[3], keys=["a"], previous=[2])
        error = refusal(engine, gap)
        assert isinstance(error, OutOfOrder)
        assert "after 1" in str(error)
        # The refusal left no trace: what was missing comes, and then the refused one is new.
        append(engine, parcel(["a2"], source="up", seqs=[2], keys=["a"], previous=[1]))
        assert append(engine, gap).new == 1
        assert inbox(engine) == ["a1", "a2", "a3"]

    # The bounds of sources.

    @promise("a new named source past it: TooManySources")
    def test_past_the_bound_a_new_source_is_refused_and_none_is_forgotten(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(limits=Limits(sources_max=3), clock=clock)
        for source in ("a", "z", "ä"):
            append(engine, numbered(source, [1]))
        clock.pass_time(100 * ANONYMOUS_SECONDS)
        error = refusal(engine, numbered("one more", [1]))
        assert isinstance(error, TooManySources)
        assert "raise sources_max" in str(error)
        for source in ("a", "z", "ä"):
            assert append(engine, numbered(source, [1])).new == 0, f"{source} was forgotten"
            assert append(engine, numbered(source, [2])).new == 1
        assert append(engine, parcel(["no source needs no room"])).new == 1

    @promise("of requests and handles without one")
    def test_a_flood_of_anonymous_sources_refuses_no_named_one(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(sources_max=2, anonymous_sources_max=5))
        for n in range(5):
            assert append(engine, numbered(f"~{n}", [1])).new == 1
        error = refusal(engine, numbered("~one more", [1]))
        assert isinstance(error, TooManySources)
        assert "raise anonymous_sources_max" in str(error)
        for source in ("a", "b"):
            assert append(engine, numbered(source, [1])).new == 1
        assert append(engine, numbered("~0", [1])).new == 0, "a known one is known at the bound"

    def test_a_flood_of_named_sources_refuses_no_anonymous_one(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine(limits=Limits(sources_max=2, anonymous_sources_max=3))
        for source in ("a", "b"):
            append(engine, numbered(source, [1]))
        assert isinstance(refusal(engine, numbered("c", [1])), TooManySources)
        for n in range(3):
            assert append(engine, numbered(f"~{n}", [1])).new == 1
        assert isinstance(refusal(engine, numbered("~3", [1])), TooManySources)

    def test_idle_anonymous_sources_make_room(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(limits=Limits(anonymous_sources_max=2), clock=clock)
        append(engine, numbered("~idle", [1]))
        clock.pass_time(ANONYMOUS_SECONDS)
        append(engine, numbered("~busy", [1]))
        clock.pass_time(ANONYMOUS_SECONDS / 2)
        assert append(engine, numbered("~new", [1])).new == 1
        assert append(engine, numbered("~busy", [1])).new == 0
        assert isinstance(refusal(engine, numbered("~another", [1])), TooManySources)

    def test_a_forgotten_source_is_unknown_though_there_is_room(self) -> None:
        """Or who has it in his files still, and who has not, would decide otherwise."""
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        for source in ("~a", "~b", "named"):
            append(engine, numbered(source, [7]))
        clock.pass_time(FORGOTTEN_SECONDS * 0.99)
        assert append(engine, numbered("~c", [7])).new == 1
        assert append(engine, numbered("~a", [7])).new == 0, "there was room"
        clock.pass_time(FORGOTTEN_SECONDS * 0.02)
        assert append(engine, numbered("~b", [7])).new == 1
        assert append(engine, numbered("~b", [7])).new == 0
        assert append(engine, numbered("named", [7])).new == 0
        clock.pass_time(FORGOTTEN_SECONDS * 1.01)
        assert append(engine, numbered("~a", [7])).new == 1

    def test_an_anonymous_source_in_use_is_not_idle(self) -> None:
        """Late numbers count as use, though they are below the highest."""
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(limits=Limits(anonymous_sources_max=1), clock=clock)
        append(engine, numbered("~handle", [100]))
        clock.pass_time(ANONYMOUS_SECONDS * 0.09)
        append(engine, numbered("~handle", [50]))
        clock.pass_time(ANONYMOUS_SECONDS * 0.95)
        assert isinstance(refusal(engine, numbered("~new", [1])), TooManySources)
        assert append(engine, numbered("~handle", [50])).new == 0

    @pytest.mark.parametrize("seconds", [ANONYMOUS_SECONDS * 1.2, FORGOTTEN_SECONDS * 1.1])
    def test_what_a_flood_left_makes_room_for_as_many(self, seconds: float) -> None:
        """It goes a few at a time, and all of it goes."""
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(limits=Limits(anonymous_sources_max=50), clock=clock)
        for n in range(50):
            append(engine, numbered(f"~{n}", [1]))
        clock.pass_time(seconds)
        for n in range(50):
            assert append(engine, numbered(f"~again {n}", [1])).new == 1
        assert isinstance(refusal(engine, numbered("~one more", [1])), TooManySources)
