"""Conformance: what `append` and `read` promise. Dedupe is in admissions.py, time in stamps.py."""

from __future__ import annotations

from itertools import pairwise

from holdfast.engine.admission import SEQ_MAX
from holdfast.engine.port import Limits, Parcel, Taken
from holdfast.errors import TooOld, UsageError
from holdfast.stepping.frame import Frame, opaque, rows
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
    record,
    refusal,
    tags_of,
    taken,
)

LARGE_BYTES = 32 * 1024 * 1024
ODD_NAMES = [
    *["d-ä", "D-Ä", "d-a\u0308", "🚁 7", "ﬁ", "fi", "a/b", "'; --", "nul\0inside"],
    *["", " ", "a ", "a", "x" * 256, "x" * 255, "\u202eright", "~", "0", "00", "None"],
]


class AppendConformance(Workbench):
    @promise("What differs between engines in a way that others must know")
    def test_it_states_its_capabilities(self) -> None:
        assert self.engine().capabilities == self.capabilities

    @promise("order of append is order of positions", "frames in append order")
    def test_order_of_append_is_order_of_positions(self) -> None:
        engine = self.engine()
        results = [append(engine, parcel([f"a{i}", f"b{i}"])) for i in range(20)]
        for i, result in enumerate(results, start=1):
            self.is_told(result, 2 * i, 2)
        assert inbox(engine) == [tag for i in range(20) for tag in (f"a{i}", f"b{i}")]

    @promise("Append all parcels in one transaction")
    def test_parcels_of_one_append_keep_their_order(self) -> None:
        engine = self.engine()
        results = engine.append(0, [parcel(["a", "b"]), parcel(["c"]), parcel(["d"])])
        for result, following, new in zip(results, (2, 3, 4), (2, 1, 1), strict=True):
            self.is_told(result, following, new)
        assert inbox(engine) == ["a", "b", "c", "d"]

    def test_an_append_of_nothing_changes_nothing(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        assert engine.append(0, []) == []
        assert inbox(engine) == ["a"]

    def test_an_empty_parcel_takes_nothing_and_holds_nobody_up(self) -> None:
        engine = self.engine()
        empty = parcel([], source="gcs", seqs=range(0))
        first, nothing, last = engine.append(0, [parcel(["a"]), empty, parcel(["b"])])
        self.is_told(first, 1, 1)
        self.is_told(nothing, 1, 0)
        self.is_told(last, 2, 1)
        assert inbox(engine) == ["a", "b"]

    @promise("`append` returns after its events are durable", "data outlives the process")
    def test_what_is_acknowledged_is_durable(self) -> None:
        """No close in between: the process that appended may be dead by now."""
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, numbered("gcs", range(1, 4)))
        again = self.again(engine)
        assert inbox(again) == ["gcs.1", "gcs.2", "gcs.3"]
        self.is_told(append(again, parcel(["next"])), 4, 1)
        assert inbox(again, position=3) == ["next"]

    @promise("other processes can append and read")
    def test_several_handles_append_to_one_inbox(self) -> None:
        self.needs("several_processes")
        engine = self.engine()
        again = self.again(engine)
        for i in range(10):
            append(engine, parcel([f"one {i}"]))
            append(again, parcel([f"two {i}"]))
        assert inbox(engine) == inbox(again)
        assert inbox(engine) == [f"{who} {i}" for i in range(10) for who in ("one", "two")]

    @promise("a refused one does not hold up the others")
    def test_a_refused_parcel_does_not_hold_up_the_others(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, numbered("gcs", [1_000_000]))
        results = engine.append(
            0, [parcel(["before"]), numbered("gcs", [1, 999_999]), parcel(["after"])]
        )
        assert isinstance(results[0], Taken)
        assert isinstance(results[1], TooOld)
        assert isinstance(results[2], Taken)
        assert inbox(engine) == ["gcs.1000000", "before", "after"]

    @promise("Events for one inbox that are taken together or not at all")
    def test_a_parcel_is_taken_whole_or_not_at_all(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        append(engine, numbered("gcs", [1_000_000]))
        assert isinstance(refusal(engine, numbered("gcs", [1_000_001, 5])), TooOld)
        twice = parcel(["x", "y", "z"], source="gcs", seqs=[1_000_002, 1_000_003, 1_000_002])
        assert isinstance(refusal(engine, twice), UsageError)
        # None of it is remembered as seen either: its good numbers are still new.
        assert append(engine, numbered("gcs", range(1_000_001, 1_000_004))).new == 3
        assert inbox(engine)[1:] == ["gcs.1000001", "gcs.1000002", "gcs.1000003"]

    def test_numbers_that_do_not_fit_the_rows_are_refused(self) -> None:
        self.needs("refuses_at_append")
        engine = self.engine()
        short = parcel(["a", "b", "c"], source="gcs", seqs=[1, 2])
        assert isinstance(refusal(engine, short), UsageError)
        assert isinstance(refusal(engine, numbered("gcs", [-1])), UsageError)
        assert isinstance(refusal(engine, numbered("gcs", [SEQ_MAX + 1])), UsageError)
        assert inbox(engine) == []

    @promise("Frames from the one that holds `position` on")
    def test_reading_begins_with_the_frame_that_holds_the_position(self) -> None:
        engine = self.engine()
        for start in (0, 5, 10):
            append(engine, parcel([f"e{start + i}" for i in range(5)]))
        first = engine.read(0, 7, 1)[0]
        assert (first.first, first.count) == (5, 5)
        assert tags_of(first) == ["e5", "e6", "e7", "e8", "e9"]
        assert inbox(engine, position=7) == [f"e{i}" for i in range(7, 15)]
        for position in range(15):
            found = engine.read(0, position, 1)[0]
            assert found.first == position - position % 5

    @promise("none only where nothing is yet")
    def test_reading_where_nothing_is_gives_nothing(self) -> None:
        engine = self.engine(partitions=2)
        assert engine.read(0, 0, 100) == []
        append(engine, parcel(["a", "b"]))
        assert engine.read(0, 2, 100) == []
        assert engine.read(0, 1_000, 100) == []
        assert engine.read(1, 0, 100) == [], "another partition"
        for position in (0, 1):
            for events_max in (1, 2, 100):
                assert len(engine.read(0, position, events_max)) == 1

    @promise("It ends with the frame that reaches `events_max`, at the latest", "as `read` gives")
    def test_a_read_gives_no_more_than_it_was_asked_for(self) -> None:
        """A worker bounds its memory by it; a frame is not cut."""
        engine = self.engine()
        sizes = [1, 3, 1, 500, 2, 2, 1, 90]
        for size in sizes:
            append(engine, parcel([""] * size))
        for position in (0, 1, 2, 5, 300, 505, sum(sizes) - 1):
            for events_max in (1, 2, 5, 100, 1000):
                for found in (
                    engine.read(0, position, events_max),
                    engine.view(0).frames(position, events_max),
                ):
                    assert found[0].first <= position < found[0].first + found[0].count
                    for one, following in pairwise(found):
                        assert following.first == one.first + one.count
                    assert sum(stored.count for stored in found[:-1]) < events_max

    def test_a_long_run_of_small_frames_is_read_on_to_its_end(self) -> None:
        engine = self.engine()
        for i in range(300):
            append(engine, parcel([f"{i}"]))
        assert len(engine.read(0, 0, 10)) <= 10
        assert inbox(engine) == [f"{i}" for i in range(300)]
        assert inbox(engine, position=299) == ["299"]

    @promise("What an engine stores is opaque to it")
    def test_a_large_frame_of_many_columns_comes_back_whole(self) -> None:
        engine = self.engine()
        plain = parcel(["x", "y"]).frame
        columns = {f"column {i}": rows([i, str(i)]) for i in range(300)}
        noise = bytes(range(256)) * (LARGE_BYTES // 256)
        frame = Frame(2, {**plain.columns, **columns, "large": opaque(noise)})
        large = Parcel(frame, frame.encode())
        append(engine, parcel(["before"]))
        append(engine, large)
        append(engine, parcel(["after"]))
        for found in (engine.read(0, 1, 1), engine.read(0, 2, 1), engine.view(0).frames(1, 1)):
            whole = found[0].frame == large.encoded
            assert whole, "not what was appended"  # a difference of megabytes is nothing to show
        assert inbox(engine) == ["before", "x", "y", "after"]

    @promise("An engine keeps, per partition, an *inbox*", "one atomic commit per partition")
    def test_partitions_do_not_know_each_other(self) -> None:
        engine = self.engine(partitions=64)
        assert len(engine.catalog.layout.partitions) == 64
        owners = {n: Owner.of(engine, n) for n in (0, 31, 63)}
        for number in (0, 1, 31, 62, 63):
            for i in range(number % 5 + 1):
                append(engine, numbered("gcs", [i]), partition=number)
        for number in (0, 1, 31, 62, 63):
            assert inbox(engine, number) == [f"gcs.{i}" for i in range(number % 5 + 1)]
        assert engine.view(2).inbox_next() == 0
        for number, owner in owners.items():
            owner.commit([record("d-1", f"of {number}")], events=1)
        for number in owners:
            assert list(engine.view(number).records()) == [record("d-1", f"of {number}")]
        assert engine.view(1).head().position == 0

    @promise(
        "positions before `next` include them all, repeats too",
        "how many were not repeats",
        "Where a parcel's events went",
    )
    def test_what_was_taken_is_told(self) -> None:
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(clock=clock)
        assert append(engine, numbered("gcs", [1, 2])) == Taken(2, 2, clock.wall)
        clock.pass_time(1.0)
        assert append(engine, parcel(["x"])) == Taken(3, 1, clock.wall)
        repeated = append(engine, numbered("gcs", [2]))
        assert (repeated.next, repeated.new) == (3, 0)
        partly = append(engine, numbered("gcs", [2, 3]))
        assert (partly.next, partly.new, partly.stamp) == (4, 1, clock.wall)
        assert append(engine, parcel([])) == Taken(4, 0, clock.wall)

    @promise(
        "Where an append does not decide, they are known",
        "For `Taken.next` the position that it stands for",
        "None while nobody can know",
    )
    def test_the_position_of_what_was_taken(self) -> None:
        """Whoever waits until its events are folded knows a position in the end."""
        engine = self.engine()
        sizes = [(parcel(["a", "b"]), parcel(["c"])), (parcel(["d", "e", "f"]),)]
        ends = [taken(each).next for one in sizes for each in engine.append(0, one)]
        for handle in (engine, self.again(engine)):
            view = handle.view(0)
            found = [view.position_of(following) for following in ends]
            assert found[-1] == 6
            known = handle is engine or self.capabilities.refuses_at_append
            assert found == [2, 3, 6] or not known, "a later one is as good for who came later"

    def test_names_of_any_kind_come_back_as_they_went(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        for name in ODD_NAMES:
            one = parcel([name], source=name, seqs=[1], keys=[name])
            assert append(engine, one).new == 1
            if self.capabilities.refuses_at_append:
                assert append(engine, one).new == 0
            assert append(engine, messages(name, 1, 1)).new == 1
        owner.commit([record(name, name, agent=name) for name in ODD_NAMES], events=len(ODD_NAMES))
        again = self.again(engine)
        assert inbox(again)[::2] == ODD_NAMES
        view = again.view(0)
        assert view.marks() == dict.fromkeys(ODD_NAMES, 1)
        for name in ODD_NAMES:
            assert view.record(name, name) == record(name, name, agent=name)
        assert sorted(r.key for r in view.records()) == sorted(ODD_NAMES)

    @promise("with a stored counter of positions")
    def test_positions_go_on_where_nothing_is_left(self) -> None:
        """The counter is stored: it does not start again when the inbox is empty."""
        engine = self.engine(limits=Limits(retain_seconds=0.001, retain_bytes=1, segment_bytes=1))
        owner = Owner.of(engine)
        append(engine, parcel(["a", "b"]))
        owner.fold_all()
        for _ in range(3):
            engine.maintain()
        again = self.again(engine)
        assert again.view(0).inbox_next() == 2
        self.is_told(append(again, parcel(["c"])), 3, 1)
        assert inbox(again, position=2) == ["c"]
