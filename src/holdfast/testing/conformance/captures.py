"""Conformance: a fleet captured while it works, planted elsewhere, and going on there."""

from __future__ import annotations

import threading

import msgspec
import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.port import Engine, Parcel
from holdfast.errors import OutOfOrder, Rescaling
from holdfast.model.schema import Field, Schema
from holdfast.stepping.commit import Fate, Issued, Journalled, Outgoing
from holdfast.stepping.frame import Frame
from holdfast.testing.conformance.commits import call, framed, full_commit, letter
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.rescales import extras, key_in, owners, rescale
from holdfast.testing.conformance.workbench import (
    Crash,
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
    states_in,
    tags_of,
    together,
)

_unpack = msgspec.msgpack.Decoder(list[str]).decode
EVENTS = 36  # sent at once: 18 of them go on to the next partition, 6 of those, and 2 of those
AHEAD = 20  # sends that may wait to be folded: what is left over is folded to its end at last
CUTS = 12  # taken under traffic; a torn one shows in the first few
UNDONE = [Fate(f"fleet/Drone/d-1/{n}/0", "d-1", float(n), "no") for n in (4, 2)]
RICH = [record("d-1", "one")._replace(extras=extras(-1)), record("d-2", "two")]


def rich_engine(bench: Workbench, clock: HandClock) -> Engine:
    """One of everything in partition 0, and events that wait from the middle of a frame on."""
    engine = bench.engine(partitions=2, clock=clock)
    engine.catalog.register([Schema("event", "Ping", (Field("text", "str", True),))])
    append(engine, parcel(["a", "b", "c", "d"]))
    owner = Owner.of(engine, generation=7)
    owner.commit(RICH, events=2, **full_commit(owner))
    letters = {"letters": [letter(2)], "redriven": [1], "head": {"letters_next": 3}}
    owner.commit([], 0, fates=UNDONE, **letters)
    append(engine, numbered("gcs", [1, 2, 5]))
    append(engine, messages("other", 1, 3))
    ordered = parcel(["k"], source="ordered", seqs=[4], previous=[0], keys=["d-9"])
    append(engine, ordered)
    return engine


class CaptureConformance(Workbench):
    @promise("the whole fleet can be captured while it runs", "only with the capability `captures`")
    @promise("positions, dedupe, marks, timers, open calls, dead letters, fates of actions")
    def test_what_is_planted_goes_on_from_there(self) -> None:
        self.needs("captures")
        clock = HandClock()
        engine = rich_engine(self, clock)
        contents = engine.capture()
        planted = self.planted(contents)
        contents.close()
        before, after = engine.view(0), planted.view(0)
        assert after.head() == before.head()
        assert sorted(after.records()) == sorted(before.records()) == sorted(RICH)
        assert after.letters() == [(letter(1), True), (letter(2), False)]
        assert after.calls(0, 10) == [call(1)]
        assert after.fates() == before.fates()
        assert before.fates()[1:] == UNDONE, "behind the one of the commit before"
        assert after.sent_next() == {0: 2}
        delivers = self.capabilities.delivers_messages
        own = {before.incarnation(): 1} if delivers else {}
        assert after.marks() == before.marks() == {"other": 3, **own}
        assert after.incarnation() == before.incarnation()
        assert planted.view(1).incarnation() == engine.view(1).incarnation()
        assert planted.catalog.schemas() == engine.catalog.schemas()
        assert planted.catalog.layout == engine.catalog.layout
        assert planted.catalog.fleet == engine.catalog.fleet
        assert inbox(planted, position=2) == inbox(engine, position=2)
        loaded = planted.load(Owner.of(planted, generation=7).claim)
        assert loaded.stamp.wall == engine.read(0, 2, 1_000)[-1].stamp
        if self.capabilities.refuses_at_append:
            assert loaded.stamp.wall == clock.wall
        assert loaded.outbox == ([] if delivers else [(0, 1, 1, framed("out"))])
        assert inbox(planted).count("out") == delivers

    def test_dedupe_marks_and_order_go_on_where_it_is_planted(self) -> None:
        self.needs("captures")
        engine = rich_engine(self, HandClock())
        planted = self.planted_from(engine)
        assert self._new(planted, numbered("gcs", [1, 2, 5])) == 0
        assert self._new(planted, numbered("gcs", [3])) == 1
        assert self._new(planted, messages("other", 2, 3)) == 1
        self._is_out_of_order(planted, messages("other", 9, 1))
        late = parcel(["k"], source="ordered", seqs=[6], previous=[5], keys=["d-9"])
        self._is_out_of_order(planted, late)
        due = parcel(["k"], source="ordered", seqs=[5], previous=[4], keys=["d-9"])
        assert self._new(planted, due) == 1

    def _new(self, engine: Engine, one: Parcel, partition: int = 0) -> int:
        """How many events of it are new: so the inbox says, and the append, where it decides."""
        view = engine.view(partition)
        before = view.inbox_next()
        told = append(engine, one, partition)
        after = view.inbox_next()
        self.is_told(told, after, after - before)
        return after - before

    def _is_out_of_order(self, engine: Engine, one: Parcel) -> None:
        """Refused; where an append cannot, it is taken to become a dead letter with the reason."""
        if self.capabilities.refuses_at_append:
            assert isinstance(refusal(engine, one), OutOfOrder)
            return
        append(engine, one)
        (stored,) = engine.read(0, engine.view(0).inbox_next() - 1, 1)
        assert isinstance(Frame.decode(stored.frame).constant("refused"), str)

    def test_commits_go_on_where_it_is_planted(self) -> None:
        self.needs("captures")
        engine = rich_engine(self, HandClock())
        planted = self.planted_from(engine)
        owner = Owner.of(planted, generation=7)
        owner.commit([record("d-1", "later", 2)], events=2, redriven=[2], relayed={0: 1})
        view = planted.view(0)
        assert view.head().position == 4
        assert view.record("Drone", "d-1") == record("d-1", "later", 2)
        assert view.letter(2) is None
        assert planted.load(owner.claim).outbox == []
        assert engine.view(0).head().position == 2  # where it came from knows nothing of it

    @promise("of events, actions and the journal only the counters are planted")
    def test_history_begins_where_it_was_captured(self) -> None:
        self.needs("captures")
        engine = rich_engine(self, HandClock())
        planted = self.planted_from(engine)
        view = planted.view(0)
        assert view.inbox_first() == 0  # the frame that holds the position is there as a whole
        assert planted.view(1).inbox_first() == engine.view(1).inbox_next()
        assert view.actions(0, 10) == []
        assert view.journal(0, 10) == []
        owner = Owner.of(planted, generation=7)
        owner.commit([], 0, **full_commit(owner))
        assert view.actions(0, 10) == [Issued(1, 1, 5.0, framed("action"))]
        assert view.journal(0, 10) == [Journalled(1, 1, framed("timer"))]

    @promise("Writers go on, and what they do later is not in it")
    def test_what_comes_later_is_not_in_it(self) -> None:
        self.needs("captures")
        engine = self.engine(partitions=2)
        append(engine, numbered("gcs", [1, 2]))
        owner = Owner.of(engine)
        owner.commit([record("d-1", "before")], events=1)
        contents = engine.capture()
        append(engine, numbered("gcs", [3]))
        owner.commit([record("d-1", "after", 2)], events=2)
        planted = self.planted(contents)
        contents.close()
        assert sorted(planted.view(0).records()) == [record("d-1", "before")]
        assert inbox(planted, position=1) == ["gcs.2"]
        assert append(planted, numbered("gcs", [3])).new == 1

    @promise("A consistent cut through all partitions", "to be read at leisure, then closed")
    @promise("Every event acknowledged before is in it, every message is in it once, and none")
    def test_a_cut_under_traffic_loses_and_doubles_nothing(self) -> None:
        self.needs("captures")
        engine = self.engine(partitions=3)
        traffic = Traffic(engine)
        cuts: list[tuple[int, Contents]] = []

        def cut() -> None:
            try:
                for _ in range(CUTS):
                    acknowledged = traffic.acknowledged
                    contents = engine.capture()
                    minted, held = count(contents)
                    assert acknowledged <= minted, "an acknowledged event is missing"
                    assert held == minted, f"{minted} were sent in, {held} are there"
                    cuts.append((minted, contents))
            finally:
                traffic.over.set()

        together(cut, traffic.produce, *traffic.workers())
        minted, contents = cuts[CUTS // 2]
        planted = self.planted(contents)
        for _, each in cuts:
            each.close()
        later = Traffic(planted)
        later.over.set()
        together(*later.workers())
        final = planted.capture()
        assert count(final) == (minted, minted)
        assert all(part.facts.next == part.facts.head.position for part in final.partitions)
        final.close()

    @promise("Rescaling while partitions are being replaced")
    def test_not_while_partitions_are_replaced(self) -> None:
        self.needs("captures")
        self.needs("rescales")
        engine = self.engine(partitions=2)
        both = owners(engine)
        engine.close_intake(both[1].claim)
        with pytest.raises(Rescaling):
            engine.capture()
        engine.open_intake(both[1].claim)
        engine.capture().close()

    def test_a_rescaled_fleet_keeps_its_retired_partitions(self) -> None:
        self.needs("captures")
        self.needs("rescales")
        engine = self.engine(partitions=1)
        owner = Owner.of(engine)
        append(engine, numbered("gcs", [1]))
        state = record(key_in(range(0, 512)), "moved")
        owner.commit([state], events=1)
        rescale(engine, [owner], 2)
        planted = self.planted_from(engine)
        assert planted.catalog.layout == engine.catalog.layout
        assert planted.catalog.retired == engine.catalog.retired
        assert planted.view(0).head().position == 1
        assert planted.view(0).actions(0, 10) == []
        assert isinstance(refusal(planted, numbered("new", [1])), Rescaling)
        assert sorted(planted.view(1).records()) == [state]
        assert self._new(planted, numbered("gcs", [1]), 1) == 0

    @pytest.mark.parametrize("point", ["plant.inside", "plant.after"])
    @promise("Planting it makes the same fleet anew elsewhere, whole or not at all")
    def test_half_planted_is_not_there(self, point: str) -> None:
        self.needs("captures")
        self.needs_point(point)
        contents = rich_engine(self, HandClock()).capture()
        self.faults.crash_at(point)
        with pytest.raises(Crash):
            self.plant(contents)
        contents.close()
        again = self._engines[0].capture()
        planted = self.planted(again)
        again.close()
        assert sorted(planted.view(0).records()) == sorted(RICH)


class Traffic:
    """Events go into partition 0 and wander on: each one keeps some, and sends on the rest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.over = threading.Event()
        self.acknowledged = 0
        self.folded = 0

    def produce(self) -> None:
        number = 0
        while not self.over.is_set():
            if number - self.folded >= AHEAD * EVENTS:
                threading.Event().wait(0.001)
                continue
            append(self._engine, numbered("gcs", range(number, number + EVENTS)))
            number += EVENTS
            self.acknowledged = number

    def workers(self) -> list[Worker]:
        return [Worker(self, self._engine, n) for n in self._engine.catalog.layout.numbers]


class Worker:
    """Folds one partition by hand: its state says how many came in and how many it kept."""

    def __init__(self, traffic: Traffic, engine: Engine, number: int) -> None:
        self._traffic, self._engine, self._number = traffic, engine, number
        self._owner = Owner.of(engine, number)
        loaded = engine.load(self._owner.claim)
        self._sent = loaded.sent_next
        self._outbox = [(to, first, n, frame) for to, first, n, frame in loaded.outbox]
        self._minted, self._kept = next((kept_of(r.state) for r in states_in(loaded)), (0, 0))

    def __call__(self) -> None:
        idle = 0
        while idle < 200:
            idle = 0 if self._turn() else idle + self._traffic.over.is_set()
            if idle:
                threading.Event().wait(0.001)

    def _turn(self) -> bool:
        position = self._owner.head.position
        stored = self._engine.read(self._number, position, 8)[:1]
        tags = tags_of(stored[0])[position - stored[0].first :] if stored else []
        relayed = self._deliver()
        if not tags and not relayed:
            return False
        minted = sum(tag.startswith("gcs") for tag in tags)
        on = len(tags) // 2 if minted else len(tags) // 3
        self._minted += minted
        self._kept += len(tags) - on
        state = record(f"k-{self._number}", f"{self._minted} {self._kept}", self._minted)
        self._owner.commit([state], len(tags), relayed=relayed, **self._outgoing(on))
        self._traffic.folded += minted
        return True

    def _outgoing(self, count: int) -> dict[str, object]:
        if not count:
            return {}
        destination = (self._number + 1) % 3
        first = self._sent.get(destination, 1)
        self._sent[destination] = first + count
        frame = messages(self._owner.claim.incarnation, first, count).encoded
        self._outbox.append((destination, first, count, frame))
        out = Outgoing(destination, first, count, frame)
        return {"outgoing": [out], "sent_next": {destination: first + count}}

    def _deliver(self) -> dict[int, int]:
        """What was delivered is cleared by the next commit, as the relay has it."""
        relayed: dict[int, int] = {}
        for to, first, count, _ in self._outbox:
            one = messages(self._owner.claim.incarnation, first, count)
            append(self._engine, one, to)
            relayed[to] = first
        self._outbox.clear()
        return relayed


def kept_of(state: bytes) -> tuple[int, int]:
    minted, kept = _unpack(state)[0].split()
    return int(minted), int(kept)


def count(contents: Contents) -> tuple[int, int]:
    """How many events the cut says were sent in, and how many are somewhere in it."""
    minted = held = 0
    marks = {part.facts.number: part.facts.marks for part in contents.partitions}
    for part in contents.partitions:
        for each in part.records():
            of_state = kept_of(each.state)
            minted, held = minted + of_state[0], held + of_state[1]
        position = part.facts.head.position
        for stored in part.frames():
            tags = tags_of(stored)[max(0, position - stored.first) :]
            minted += sum(tag.startswith("gcs") for tag in tags)
            held += len(tags)
        for to, first, number, _ in part.outbox():
            taken = marks[to].get(part.facts.incarnation, 0)
            held += max(0, first + number - 1 - max(taken, first - 1))
        for to, following in part.facts.sent_next.items():
            assert marks[to].get(part.facts.incarnation, 0) < following, "a message without cause"
    return minted, held
