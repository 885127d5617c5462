"""Conformance: another number of partitions, and nothing lost, doubled or set back by it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.engine.admission import WINDOW
from holdfast.engine.port import Engine, Limits, Mark
from holdfast.engine.sources import ANONYMOUS_SECONDS
from holdfast.errors import (
    Fenced,
    OutdatedCode,
    OutOfOrder,
    Rescaling,
    TooManySources,
    TooOld,
    UsageError,
)
from holdfast.model.keys import SLOTS, Layout, slot_of
from holdfast.stepping.commit import Outgoing
from holdfast.testing.conformance.commits import ANSWER, full_commit, letter, visible
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    SCHEMA,
    HandClock,
    Owner,
    Workbench,
    append,
    gone,
    inbox,
    messages,
    numbered,
    parcel,
    record,
    refusal,
    states_in,
)

_pack = msgspec.msgpack.Encoder().encode
_ROW = msgspec.Raw(_pack(["held"]))


def extras(ask: int) -> bytes:
    """A paused agent that holds one event, perhaps asked, and has a timer (stepping/cell.py)."""
    held = (SCHEMA, _ROW, 7, 5.0, ("Drone", "d-2"), 1, ask)
    return _pack(["by an operator", [held], [("watch", 99.0, 0.0, SCHEMA, _ROW)]])


def key_in(slots: range, number: int = 0) -> str:
    """The first or a later key of the form k-N that lives in these slots."""
    found = [key for i in range(9 * SLOTS) if slot_of(key := f"k-{i}") in slots]
    return found[number]


def owners(engine: Engine, generation: int = 1) -> list[Owner]:
    return [Owner.of(engine, n, generation) for n in engine.catalog.layout.numbers]


def close_and_fold(engine: Engine, all_owners: Sequence[Owner]) -> None:
    for owner in all_owners:
        engine.close_intake(owner.claim)
    for owner in all_owners:
        owner.fold_all()


def rescale(engine: Engine, all_owners: Sequence[Owner], partitions: int) -> Layout:
    """Close, fold and switch, as the runtime does it; the layout that came of it."""
    close_and_fold(engine, all_owners)
    engine.rescale([owner.claim for owner in all_owners], partitions)
    return engine.catalog.layout


class RescaleConformance(Workbench):
    @promise("UsageError if they know more sources together than one may")
    def test_more_sources_than_one_partition_may_know_are_refused(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2, limits=Limits(sources_max=3))
        for number in (0, 1):
            for source in ("a", "b"):
                append(engine, numbered(f"{source}{number}", [1]), number)
        both = owners(engine)
        close_and_fold(engine, both)
        with pytest.raises(UsageError, match="sources_max"):
            engine.rescale([owner.claim for owner in both], 3)
        assert engine.catalog.layout == Layout.even(2)

    def test_anonymous_sources_of_all_count_by_their_own_bound(self) -> None:
        """Idle ones are no hindrance: nobody resends under them. They go as far as they must."""
        self.needs("rescales")
        self.needs("refuses_at_append")
        clock = HandClock()
        limits = Limits(sources_max=1, anonymous_sources_max=3)
        engine = self.engine(partitions=2, limits=limits, clock=clock)
        for number in (0, 1):
            append(engine, numbered("named", [1]), number)
            for source in ("~a", "~b"):
                append(engine, numbered(f"{source}{number}", [1]), number)
        both = owners(engine)
        close_and_fold(engine, both)
        with pytest.raises(UsageError, match="anonymous_sources_max"):
            engine.rescale([owner.claim for owner in both], 3)
        for owner in both:
            engine.open_intake(owner.claim)
        clock.pass_time(ANONYMOUS_SECONDS * 1.2)
        append(engine, numbered("~late", [1]))
        layout = rescale(engine, both, 3)
        for number in layout.numbers:
            assert append(engine, numbered("named", [1]), number).new == 0
            assert append(engine, numbered("~late", [1]), number).new == 0
            assert append(engine, numbered("~a0", [1]), number).new == 1
            assert append(engine, numbered("~a1", [1]), number).new == 1
            assert isinstance(refusal(engine, numbered("~b0", [1]), number), TooManySources)

    # What must be so before.

    @pytest.mark.parametrize("undone", ["intake", "event", "outbox", "message"])
    @promise("Refused with Fenced unless every live partition", "Then nothing has changed")
    def test_what_is_not_drained_stays_as_it_is(self, undone: str) -> None:
        self.needs("rescales")
        if undone == "outbox" and self.capabilities.delivers_messages:
            pytest.skip("this engine delivers messages inside the commit")
        engine = self.engine(partitions=2)
        both = owners(engine)
        close_and_fold(engine, both)
        if undone == "intake":
            engine.open_intake(both[1].claim)
        elif undone == "event":
            append(engine, messages("other", 1, 1), 1)
        elif undone == "outbox":
            both[0].commit(outgoing=[Outgoing(1, 1, 1, parcel(["m"]).encoded)], sent_next={1: 2})
            mark = Mark(both[0].claim.incarnation, 1)
            append(engine, parcel(["m"], mark=mark, external=False), 1)
            both[1].fold_all()
        else:
            both[0].commit(sent_next={1: 2})
        before = visible(engine), visible(engine, 1)
        with pytest.raises(Rescaling):
            engine.rescale([owner.claim for owner in both], 3)
        assert engine.catalog.layout == Layout.even(2)
        assert engine.catalog.retired == {}
        assert (visible(engine), visible(engine, 1)) == before
        both[0].commit([record("d-1", "goes on")])
        engine.open_intake(both[0].claim)
        assert append(engine, parcel(["goes on"])).new == 1

    def test_every_partition_has_to_be_claimed(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        first, second = owners(engine)
        close_and_fold(engine, [first, second])
        with pytest.raises(Fenced):
            engine.rescale([first.claim], 3)
        assert engine.catalog.layout == Layout.even(2)
        engine.rescale([second.claim, first.claim], 3)

    def test_an_older_claim_is_not_enough(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        old = owners(engine)
        close_and_fold(engine, old)
        again = self.again(engine)
        Owner.of(again, 1)
        with pytest.raises(Fenced):
            engine.rescale([owner.claim for owner in old], 3)
        assert again.catalog.layout == Layout.even(2)
        assert append(again, parcel(["a"]), 1).new == 1

    # The new layout.

    @promise(
        "Numbers of partitions are never used twice",
        "the number of partitions can be changed",
        "Put `partitions` new ones in the place",
    )
    def test_numbers_go_on_when_it_grows_and_when_it_shrinks(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        assert rescale(engine, owners(engine), 5) == Layout.even(5, first=2)
        assert rescale(engine, owners(engine), 1) == Layout.even(1, first=7)
        assert rescale(engine, owners(engine), 3) == Layout.even(3, first=8)
        assert engine.catalog.retired == {
            **Layout.even(2).slots_by_number,
            **Layout.even(5, first=2).slots_by_number,
            **Layout.even(1, first=7).slots_by_number,
        }

    @promise("current at every look", "The slots of every partition before those")
    def test_every_process_sees_the_new_layout(self) -> None:
        self.needs("rescales")
        self.needs("several_processes")
        engine = self.engine(partitions=2)
        beside = self.again(engine)
        assert beside.catalog.layout == Layout.even(2)
        layout = rescale(engine, owners(engine), 3)
        assert beside.catalog.layout == self.again(engine).catalog.layout == layout
        assert beside.catalog.retired == Layout.even(2).slots_by_number
        assert append(beside, parcel(["a"]), 4).new == 1

    def test_new_partitions_are_claimed_written_and_read_like_others(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=1)
        rescale(engine, owners(engine), 2)
        first, second = owners(engine)
        assert len({first.claim.incarnation, second.claim.incarnation}) == 2
        assert first.claim.incarnation == engine.view(1).incarnation()
        append(engine, parcel(["a", "b"]), 1)
        first.commit([record("d-1", "x")], events=2)
        loaded = self.again(engine).load(first.claim)
        assert loaded.head.position == 2
        assert [r.key for r in states_in(loaded)] == ["d-1"]

    # What the new partitions inherit.

    @pytest.mark.parametrize("partitions", [1, 2, 5])
    @promise("What the new ones inherit")
    def test_agents_move_to_the_partition_of_their_slot(self, partitions: int) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=3)
        stored = {}
        for owner, slots in zip(owners(engine), Layout.even(3).partitions, strict=True):
            keys = [key_in(slots, n) for n in range(12)]
            own = [record(key, f"state of {key}", 3) for key in keys]
            own[0] = own[0]._replace(extras=extras(ask=-1))
            owner.commit([*own, record("k-gone", "x")])
            owner.commit([gone("k-gone", 2)])
            stored.update({r.key: r for r in own})
        again = self.again(engine)
        layout = rescale(again, owners(again), partitions)
        found = [(n, r) for n in layout.numbers for r in again.view(n).records()]
        assert {r.key: r for _, r in found} == stored
        assert len(found) == len(stored)
        assert all(layout.partition_of(r.key) == n for n, r in found)
        for key, each in stored.items():
            assert again.view(layout.partition_of(key)).record("Drone", key) == each

    def test_who_asked_an_event_that_is_held_looks_at_the_old_partition(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit([record("d-1", "x")._replace(extras=extras(ask=7))])
        layout = rescale(engine, [owner], 2)
        moved = engine.view(layout.partition_of("d-1")).record("Drone", "d-1")
        assert moved == record("d-1", "x")._replace(extras=extras(ask=-1))

    @pytest.mark.parametrize("partitions", [1, 3])
    def test_every_child_knows_the_numbers_of_all_parents(self, partitions: int) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        append(engine, numbered("gcs", range(1, 9_000, 2)), 0)
        append(engine, numbered("gcs", range(2, 5_000, 2)), 1)
        append(engine, numbered("uav", range(7, 8)), 1)
        for number in rescale(engine, owners(engine), partitions).numbers:
            append(engine, numbered("gcs", range(1, 5_000)), number)
            append(engine, numbered("uav", range(6, 9)), number)
            append(engine, numbered("gcs", range(8_990, 9_002)), number)
            assert inbox(engine, number) == [
                *("uav.6", "uav.8"),
                *(f"gcs.{n}" for n in (8_990, 8_992, 8_994, 8_996, 8_998)),
                *("gcs.9000", "gcs.9001"),
            ]

    def test_the_window_of_a_child_ends_where_the_newest_parents_does(self) -> None:
        self.needs("rescales")
        self.needs("refuses_at_append")
        engine = self.engine(partitions=2)
        append(engine, numbered("gcs", [10, 20]), 0)
        append(engine, numbered("gcs", [WINDOW + 15]), 1)
        (child,) = rescale(engine, owners(engine), 1).numbers
        assert isinstance(refusal(engine, numbered("gcs", [15]), child), TooOld)
        assert append(engine, numbered("gcs", [16]), child).new == 1
        assert append(engine, numbered("gcs", [20]), child).new == 0

    def test_ordered_sources_go_on_per_key(self) -> None:
        self.needs("rescales")
        self.needs("refuses_at_append")
        engine = self.engine(partitions=2)
        keys = [key_in(slots) for slots in Layout.even(2).partitions]
        for number, key in enumerate(keys):
            append(engine, parcel(["a"], source="up", seqs=[5], keys=[key], previous=[0]), number)
        layout = rescale(engine, owners(engine), 3)
        for number, key in enumerate(keys, start=6):
            place = layout.partition_of(key)
            gap = parcel(["b"], source="up", seqs=[number + 9], keys=[key], previous=[4])
            assert isinstance(refusal(engine, gap, place), OutOfOrder)
            following = parcel(["b"], source="up", seqs=[number], keys=[key], previous=[5])
            assert append(engine, following, place).new == 1

    def test_time_never_goes_back(self) -> None:
        self.needs("rescales")
        self.needs("refuses_at_append")
        clock = HandClock()
        engine = self.engine(partitions=2, clock=clock)
        append(engine, parcel(["early"]), 0)
        clock.pass_time(100.0)
        late = append(engine, parcel(["late"]), 1).stamp
        first, second = owners(engine)
        first.commit(events=1, head={"now": 2_000_000.0})
        second.commit(events=1)
        clock.pass_time(-500.0)
        for number in rescale(engine, [first, second], 3).numbers:
            assert engine.view(number).head().now >= 2_000_000.0
            assert append(engine, parcel(["after"]), number).stamp >= late

    def test_dead_letters_that_wait_move_and_are_numbered_anew(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        both = owners(engine)
        for owner, slots in zip(both, Layout.even(2).partitions, strict=True):
            key = key_in(slots)
            dead = [letter(n)._replace(key=key, ask=-1) for n in (1, 2)]
            owner.commit(letters=dead, head={"letters_next": 3})
            owner.commit(redriven=[1])
        (child,) = rescale(engine, both, 1).numbers
        found = engine.view(child).letters()
        assert [(dead.id, redriven) for dead, redriven in found] == [(1, False), (2, False)]
        assert {dead.key for dead, _ in found} == {key_in(s) for s in Layout.even(2).partitions}
        assert engine.view(child).head().letters_next == 3
        assert engine.view(child).letter(2) == found[1][0]

    def test_older_code_may_not_fold_where_newer_code_did_before(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        rescale(engine, owners(engine, generation=7), 1)
        with pytest.raises(OutdatedCode):
            list(engine.assignments(engine.catalog.layout.numbers, 6))
        assert Owner.of(engine, 2, generation=7).claim.epoch > 0

    def test_messages_are_numbered_anew(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        owner = Owner.of(engine)
        append(engine, messages(owner.claim.incarnation, 1, 3))
        owner.commit(events=3, sent_next={0: 4})
        (child,) = rescale(engine, [owner], 1).numbers
        assert engine.view(child).sent_next() == {}
        assert append(engine, messages("another incarnation", 1, 1), child).new == 1

    # The old partitions.

    @promise("After `rescale` the old partitions are retired")
    def test_a_retired_partition_takes_nothing_any_more(self) -> None:
        self.needs("rescales")
        engine = self.engine(partitions=2)
        old = owners(engine)
        again = self.again(engine)
        new = owners(again)
        late = [(o, o.prepare([record("d-1", "late")])) for o in (old[0], new[0])]
        rescale(again, new, 3)
        for owner, commit in late:
            with pytest.raises(Fenced):
                owner.engine.commit([(owner.claim, commit)])
            with pytest.raises(Fenced):
                owner.engine.open_intake(owner.claim)
        with pytest.raises(Fenced):
            again.rescale([owner.claim for owner in new], 4)
        with pytest.raises(Fenced):
            list(again.assignments([0], 9))
        assert isinstance(refusal(again, parcel(["late"])), Rescaling)
        assert again.view(0).record("Drone", "d-1") is None
        assert isinstance(refusal(self.again(again), parcel(["late"])), Rescaling)

    def test_a_retired_partition_can_be_read(self) -> None:
        self.needs("rescales")
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        commit = {**full_commit(owner), "outgoing": [], "sent_next": {}}
        owner.commit([record("d-1", "one")], events=4, **commit)
        before = visible(engine)
        head = owner.head
        engine.close_intake(owner.claim)
        engine.rescale([owner.claim], 2)
        for each in (engine, self.again(engine)):
            if each is engine and not self.capabilities.several_processes:
                continue
            assert visible(each) == before
            assert each.view(0).head() == head
            assert each.view(0).answer(3) == ANSWER
            assert inbox(each) == ["a", "b", "c", "d"]
        assert engine.catalog.layout.numbers == range(1, 3)
