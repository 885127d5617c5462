"""Conformance: what `append` and `read` promise. Dedupe is in admissions.py, time in stamps.py."""

from __future__ import annotations

import threading

from holdfast.engine.admission import SEQ_MAX
from holdfast.engine.port import Limits, Taken
from holdfast.errors import Backlog, TooOld, UsageError
from holdfast.testing.conformance.workbench import (
    Owner,
    Workbench,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    refusal,
    soon,
    tags_of,
    taken,
)

LARGE_BYTES = 8 * 1024 * 1024


class AppendConformance(Workbench):
    def test_it_states_its_capabilities(self) -> None:
        assert self.engine().capabilities == self.capabilities

    def test_order_of_append_is_order_of_positions(self) -> None:
        engine = self.engine()
        results = [append(engine, parcel([f"a{i}", f"b{i}"])) for i in range(20)]
        assert [r.next for r in results] == list(range(2, 42, 2))
        assert [r.new for r in results] == [2] * 20
        assert inbox(engine) == [tag for i in range(20) for tag in (f"a{i}", f"b{i}")]

    def test_parcels_of_one_append_keep_their_order(self) -> None:
        engine = self.engine()
        results = engine.append(0, [parcel(["a", "b"]), parcel(["c"]), parcel(["d"])])
        assert [taken(r).next for r in results] == [2, 3, 4]
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
        assert (taken(first).next, taken(last).next) == (1, 2)
        assert taken(nothing)[:2] == (1, 0)
        assert inbox(engine) == ["a", "b"]

    def test_what_is_acknowledged_is_durable(self) -> None:
        """No close in between: the process that appended may be dead by now."""
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, numbered("gcs", range(1, 4)))
        again = self.again(engine)
        assert inbox(again) == ["gcs.1", "gcs.2", "gcs.3"]
        assert append(again, parcel(["next"])).next == 4

    def test_several_handles_append_to_one_inbox(self) -> None:
        self.needs("several_processes")
        engine = self.engine()
        again = self.again(engine)
        for i in range(10):
            append(engine, parcel([f"one {i}"]))
            append(again, parcel([f"two {i}"]))
        assert inbox(engine) == inbox(again)
        assert inbox(engine) == [f"{who} {i}" for i in range(10) for who in ("one", "two")]

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

    def test_reading_where_nothing_is_gives_nothing(self) -> None:
        engine = self.engine()
        assert engine.read(0, 0, 100) == []
        append(engine, parcel(["a", "b"]))
        assert engine.read(0, 2, 100) == []
        assert engine.read(0, 1_000, 100) == []

    def test_a_read_gives_about_what_it_was_asked_for(self) -> None:
        engine = self.engine()
        for i in range(300):
            append(engine, parcel([f"{i}"]))
        assert len(engine.read(0, 0, 1)) >= 1
        assert len(engine.read(0, 0, 10)) < 300
        assert inbox(engine) == [f"{i}" for i in range(300)]

    def test_a_large_frame_comes_back_whole(self) -> None:
        engine = self.engine()
        large = parcel(["x" * LARGE_BYTES, "small"])
        append(engine, parcel(["before"]))
        append(engine, large)
        append(engine, parcel(["after"]))
        assert engine.read(0, 1, 1)[0].frame == large.encoded
        assert [len(tag) for tag in inbox(engine)] == [6, LARGE_BYTES, 5, 5]

    def test_partitions_do_not_know_each_other(self) -> None:
        engine = self.engine(partitions=16)
        assert len(engine.catalog.layout.partitions) == 16
        for number in range(16):
            for i in range(number):
                append(engine, numbered("gcs", [i]), partition=number)
        for number in range(16):
            assert inbox(engine, number) == [f"gcs.{i}" for i in range(number)]
            assert engine.view(number).inbox_next() == number

    def test_appends_of_many_threads_are_all_there_once(self) -> None:
        engine = self.engine()
        failures: list[BaseException] = []

        def produce(name: str) -> None:
            try:
                for i in range(25):
                    append(engine, numbered(name, [i]))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=produce, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        found = inbox(engine)
        assert sorted(found) == sorted(f"t{n}.{i}" for n in range(4) for i in range(25))
        for n in range(4):
            mine = [tag for tag in found if tag.startswith(f"t{n}.")]
            assert mine == [f"t{n}.{i}" for i in range(25)], "order within a source"

    def test_backlog_refuses_the_outside_and_not_messages(self) -> None:
        """At the bound outside sends stop; messages go on, or two partitions could deadlock."""
        engine = self.engine(limits=Limits(backlog_events_max=10))
        owner = Owner.of(engine)
        append(engine, parcel([f"{i}" for i in range(10)]))
        assert isinstance(refusal(engine, parcel(["one more"])), Backlog)
        assert append(engine, messages("other", 1, 3)).new == 3
        control = parcel(["command"], external=False)
        assert append(engine, control).new == 1
        owner.fold_all()
        # An engine may judge the backlog by a folded position that is a moment old.
        soon(lambda: isinstance(engine.append(0, [parcel(["room again"])])[0], Taken))
