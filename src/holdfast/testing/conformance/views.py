"""Conformance: views show what is committed, all of it, and nothing else; catalogs say the same."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from holdfast.engine.port import Engine
from holdfast.model.keys import Layout
from holdfast.model.schema import Field, Schema
from holdfast.stepping.commit import Head, Issued, Journalled
from holdfast.testing.conformance.commits import framed
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    FLEET,
    WAIT_SECONDS,
    Owner,
    Workbench,
    append,
    parcel,
    record,
    soon,
    tags_of,
    together,
)


def schema(name: str, *fields: str) -> Schema:
    return Schema("event", name, tuple(Field(f, "float", True) for f in fields))


def _options(engine: Engine, ids: Mapping[str, int]) -> list[Mapping[str, object]]:
    stored = engine.catalog.schemas()
    return [stored[number].options for number in ids.values()]


class ViewConformance(Workbench):
    def test_a_view_of_nothing_is_empty(self) -> None:
        view = self.engine().view(0)
        assert view.head() == Head()
        assert (view.inbox_first(), view.inbox_next()) == (0, 0)
        assert view.record("Drone", "d-1") is None
        assert list(view.records()) == []
        assert view.frames(0, 10) == []
        assert view.actions(0, 10) == []
        assert view.journal(0, 10) == []
        assert view.letters() == []
        assert view.letter(1) is None
        assert view.answer(0) is None
        assert view.sent_next() == {}
        assert view.calls(0, 10) == []
        assert view.marks() == {}
        assert view.owner() == ""

    @promise(
        "Whether events may have been taken there that nobody can read yet",
        "As behind a commit elsewhere that has not ended",
        "it passes",
    )
    def test_nothing_stays_hidden(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        owner = Owner.of(engine)
        engine.commit([(owner.claim, owner.prepare([record("d-1", "one")], events=1))])
        soon(lambda: not engine.hides(0))

    @promise(
        "Its calls wait for others who have the answer for about `wait_seconds`, then TryAgain"
    )
    def test_who_has_little_time_sees_the_same(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        assert engine.view(0, wait_seconds=5.0).inbox_next() == 1

    def test_an_owner_is_named(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        assert engine.view(0).owner() != ""

    @promise("Committed reads of one partition", "committed reads")
    def test_what_is_prepared_is_not_seen_before_it_is_committed(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a"]))
        owner = Owner.of(engine)
        prepared = owner.prepare([record("d-1", "one")], events=1)
        assert engine.view(0).record("Drone", "d-1") is None
        assert engine.view(0).head().position == 0
        engine.commit([(owner.claim, prepared)])
        assert engine.view(0).record("Drone", "d-1") == record("d-1", "one")
        assert engine.view(0).head().position == 1

    def test_records_can_be_had_by_class(self) -> None:
        engine = self.engine()
        states = [record("x", "a drone"), record("x", "a depot", agent="Depot"), record("y", "b")]
        Owner.of(engine).commit(states)
        view = engine.view(0)
        assert sorted(view.records()) == sorted(states)
        assert list(view.records("Depot")) == [states[1]]
        assert list(view.records("Nobody")) == []
        assert view.record("Depot", "x") == states[1]
        assert view.record("Depot", "y") is None

    def test_iterating_and_committing_do_not_wait_for_each_other(self) -> None:
        """A half-read view: appends and commits go on, and it still tells of one commit only."""
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit([record(f"d-{i:04}", "old") for i in range(1000)])
        reading = engine.view(0).records()
        found = [next(reading)]
        append(engine, parcel(["a"]))
        owner.commit([record(f"d-{i:04}", "new", 2) for i in range(1000)], events=1)
        found += reading
        assert found == [record(f"d-{i:04}", "old") for i in range(1000)]
        assert {r.version for r in engine.view(0).records()} == {2}

    @promise("a `View` never goes back in one process")
    def test_a_view_never_goes_back(self) -> None:
        """What one thread has seen committed, it sees until a later commit, while others commit."""
        engine = self.engine()
        owner = Owner.of(engine)
        view = engine.view(0)
        commits = 40
        done = threading.Event()

        def work() -> None:
            try:
                for i in range(1, commits + 1):
                    owner.commit([record("d-1", "x", i), record("d-2", "x", i)])
            finally:
                done.set()

        worker = threading.Thread(target=work)
        worker.start()
        seen = 0
        while not done.is_set() or seen < commits:
            head = view.head().commits
            found = view.record("Drone", "d-1")
            version = 0 if found is None else found.version
            assert version >= head >= seen
            seen = max(head, version)
            assert seen < commits or done.wait(WAIT_SECONDS)
        worker.join()
        assert seen == commits

    def test_nobody_sees_half_a_commit(self) -> None:
        """All agents change together in every commit: a reader never sees them differ."""
        engine = self.engine()
        owner = Owner.of(engine)
        view = engine.view(0)
        done = threading.Event()

        def work() -> None:
            try:
                for version in range(1, 40):
                    owner.commit([record(f"d-{n}", "x", version) for n in range(100)])
            finally:
                done.set()

        worker = threading.Thread(target=work)
        worker.start()
        while not done.is_set():
            assert len({r.version for r in view.records()}) <= 1
        worker.join()
        assert {r.version for r in view.records()} == {39}

    def test_actions_and_journal_continue_behind_a_number(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        for i in range(0, 9, 3):
            owner.commit(
                issued=Issued(i, 3, float(i), framed(f"actions {i}")),
                journalled=Journalled(i, 3, framed(f"timers {i}")),
                head={"actions_next": i + 3, "journal_next": i + 3},
            )
        view = engine.view(0)
        for first, expected in [
            (0, [0, 3, 6]),
            (3, [3, 6]),
            (4, [3, 6]),
            (8, [6]),
            (9, []),
            (99, []),
        ]:
            assert [i.first for i in view.actions(first, 10)] == expected
            assert [j.first for j in view.journal(first, 10)] == expected
        assert [i.first for i in view.actions(2, 2)] == [0, 3]
        assert view.actions(6, 1) == [Issued(6, 3, 6.0, framed("actions 6"))]

    def test_a_view_reads_frames(self) -> None:
        engine = self.engine()
        for tag in ("a", "b", "c"):
            append(engine, parcel([tag, tag]))
        frames = engine.view(0).frames(2, 100)
        assert [tags_of(f) for f in frames] == [["b", "b"], ["c", "c"]]
        assert engine.view(0).inbox_next() == 6

    # The catalog.

    @promise("What a fleet's data says of itself, the same in every process")
    def test_the_catalog_knows_fleet_and_layout(self) -> None:
        engine = self.engine(partitions=3)
        assert engine.catalog.fleet == FLEET
        assert engine.catalog.layout == Layout.even(3)
        again = self.again(engine)
        assert again.catalog.fleet == FLEET
        assert again.catalog.layout == Layout.even(3)

    @promise("Ids by fingerprint", "new schemas are stored, with higher ids than all before them")
    def test_schemas_get_ids_that_stay(self) -> None:
        engine = self.engine()
        position, battery = schema("Position", "lat", "lon"), schema("Battery", "percent")
        first = engine.catalog.register([position])
        both = engine.catalog.register([battery, position])
        assert both[position.fingerprint] == first[position.fingerprint]
        assert both[battery.fingerprint] > first[position.fingerprint], "later is higher"
        newer = schema("Position", "lat", "lon", "alt")
        again = self.again(engine)
        third = again.catalog.register([newer])
        assert third[newer.fingerprint] > both[battery.fingerprint]
        stored = again.catalog.schemas()
        assert stored[third[newer.fingerprint]] == newer
        assert stored[first[position.fingerprint]] == position
        assert len(stored) == 3
        assert again.catalog.register([newer, battery]) == again.catalog.register([])
        if self.capabilities.several_processes:
            assert engine.catalog.schemas() == stored

    @promise("With `renew` the options of those that are known become what these say")
    def test_options_are_renewed_on_demand(self) -> None:
        engine = self.engine()
        plain = schema("Halt", "when")
        urgent = Schema(plain.kind, plain.name, plain.fields, {"priority": "urgent"})
        ids = engine.catalog.register([plain])
        assert engine.catalog.register([urgent]) == ids
        assert _options(engine, ids) == [{}], "who does not ask for it changes nothing"
        assert engine.catalog.register([urgent, schema("Go")], renew=True).items() > ids.items()
        assert _options(engine, ids) == [{"priority": "urgent"}]
        assert _options(self.again(engine), ids) == [{"priority": "urgent"}]
        engine.catalog.register([plain], renew=True)
        assert _options(engine, ids) == [{}]

    def test_schemas_registered_at_once_get_different_ids(self) -> None:
        engine = self.engine()
        known = [schema(f"Event{i}", "value") for i in range(8)]
        together(*(partial(engine.catalog.register, known[i : i + 4]) for i in range(5)))
        stored = engine.catalog.schemas()
        assert sorted(s.name for s in stored.values()) == [s.name for s in known]
        assert engine.catalog.register([]) == {s.fingerprint: i for i, s in stored.items()}
