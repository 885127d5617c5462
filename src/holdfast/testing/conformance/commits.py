"""Conformance: a commit is everything at once or nothing, and only its owner's."""

from __future__ import annotations

import pytest

from holdfast.engine.port import Engine
from holdfast.errors import Fenced, HoldfastError
from holdfast.stepping.commit import (
    Answer,
    Call,
    Fate,
    Issued,
    Journalled,
    Letter,
    Outgoing,
    Record,
)
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    SCHEMA,
    Owner,
    Workbench,
    append,
    gone,
    inbox,
    messages,
    parcel,
    record,
    soon,
    states_in,
)


def letter(number: int) -> Letter:
    return Letter(
        id=number,
        position=number,
        now=5.0,
        agent="Drone",
        key="d-1",
        schema=SCHEMA,
        row=b"\x91\x01",
        error="ValueError: no",
        trace="line 1",
        event_time=4.0,
        sender=("Drone", "d-2"),
        hops=1,
        ask=0,
    )


def call(number: int, key: str = "d-1", now: float = 5.0) -> Call:
    """The call of that number; its id tells what it was before any rescaling."""
    return Call(
        number=number,
        id=f"conformance/Drone/{key}/{number}/call1",
        agent="Drone",
        key=key,
        function="plan",
        arguments=b"\x91\x01",
        reply="Planned",
        timeout=30.0,
        retries=2,
        backoff=1.0,
        now=now,
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


ANSWER = Answer(3, 5.0, "reply", "", SCHEMA, b"\x91\x02")


def framed(tag: str) -> bytes:
    return parcel([tag]).encoded


def full_commit(owner: Owner) -> dict[str, object]:
    """One of everything, numbered on from the owner's head."""
    head = owner.head
    return {
        "outgoing": [Outgoing(0, 1, 1, framed("out"))],
        "sent_next": {0: 2},
        "issued": Issued(head.actions_next, 1, 5.0, framed("action")),
        "answers": [ANSWER],
        "letters": [letter(head.letters_next)],
        "journalled": Journalled(head.journal_next, 1, framed("timer")),
        "calls": [call(head.calls_next)],
        "fates": [Fate(f"fleet/Drone/d-1/{head.commits}/0", "d-1", 5.0, "a test")],
        "head": {
            "actions_next": head.actions_next + 1,
            "letters_next": head.letters_next + 1,
            "journal_next": head.journal_next + 1,
            "calls_next": head.calls_next + 1,
        },
    }


def visible(engine: Engine, partition: int = 0) -> object:
    """All that a reader can see of a partition's state."""
    view = engine.view(partition)
    return (
        view.head(),
        sorted(view.records()),
        view.record("Drone", "d-1"),
        view.actions(0, 100),
        view.journal(0, 100),
        view.letters(),
        [view.answer(p) for p in range(10)],
        view.sent_next(),
        view.commits(0, 100),
        view.fates(),
        view.calls(0, 100),
    )


class CommitConformance(Workbench):
    @promise("records of agents, outputs, and the head")
    def test_everything_in_a_commit_is_there(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        states = [record("d-1", "one"), record("d-2", "two")]
        owner.commit(states, events=4, **full_commit(owner))
        self._check_full(engine, owner, states)

    @promise("`commit` makes everything in it durable at once, or nothing")
    def test_a_commit_is_durable(self) -> None:
        self.needs("survives_exit")
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        states = [record("d-1", "one"), record("d-2", "two")]
        owner.commit(states, events=4, **full_commit(owner))
        self._check_full(self.again(engine), owner, states)

    def _check_full(self, engine: Engine, owner: Owner, states: list[Record]) -> None:
        view = engine.view(0)
        assert view.head() == owner.head
        assert view.head().position == 4
        assert sorted(view.records()) == sorted(states)
        assert view.actions(0, 10) == [Issued(0, 1, 5.0, framed("action"))]
        assert view.journal(0, 10) == [Journalled(0, 1, framed("timer"))]
        assert view.letters() == [(letter(1), False)]
        assert view.letter(1) == letter(1)
        assert view.answer(3) == ANSWER
        assert view.sent_next() == {0: 2}
        assert view.calls(0, 10) == [call(1)]

    @promise("All that was committed, for whoever folds on", "destination, first, count, frame")
    def test_what_was_loaded_is_what_was_committed(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        states = [record("d-1", "one"), record("d-2", "two")]
        owner.commit(states, events=4, **full_commit(owner))
        again = self.again(engine)
        loaded = again.load(Owner.of(again).claim)
        assert loaded.head == owner.head
        assert loaded.sent_next == {0: 2}
        assert states_in(loaded) == sorted(states)
        if not self.capabilities.delivers_messages:
            assert loaded.outbox == [(0, 1, 1, framed("out"))]

    @promise("otherwise the runtime relays")
    def test_relayed_messages_leave_the_outbox(self) -> None:
        if self.capabilities.delivers_messages:
            pytest.skip("this engine delivers messages inside the commit")
        engine = self.engine(partitions=2)
        owner = Owner.of(engine)
        out = [Outgoing(d, first, 2, framed(f"{d}/{first}")) for first in (1, 3) for d in (0, 1)]
        owner.commit(outgoing=out, sent_next={0: 5, 1: 5})
        owner.commit(relayed={0: 1, 1: 3})
        again = self.again(engine)
        assert again.load(Owner.of(again).claim).outbox == [(0, 3, 2, framed("0/3"))]
        assert again.view(0).sent_next() == {0: 5, 1: 5}

    @promise("messages go out inside the commit")
    def test_messages_of_a_commit_are_delivered_with_it(self) -> None:
        self.needs("delivers_messages")
        engine = self.engine(partitions=2)
        owner = Owner.of(engine)
        owner.commit(outgoing=[Outgoing(1, 1, 1, framed("out"))], sent_next={1: 2})
        soon(lambda: inbox(engine, 1) == ["out"])
        again = self.again(engine)
        assert again.load(Owner.of(again).claim).outbox == []

    def test_a_later_commit_replaces_states_and_removes_gone_ones(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit([record("d-1", "old"), record("d-2", "stays"), record("d-3", "leaves")])
        owner.commit([record("d-1", "new", 2), gone("d-3", 2)])
        view = engine.view(0)
        assert view.record("Drone", "d-1") == record("d-1", "new", 2)
        assert view.record("Drone", "d-2") == record("d-2", "stays")
        assert view.record("Drone", "d-3") is None
        assert [r.key for r in sorted(view.records())] == ["d-1", "d-2"]
        owner.commit([record("d-3", "is back", 3)])
        assert view.record("Drone", "d-3") == record("d-3", "is back", 3)

    @promise("with: was it redriven", "None once it was redriven")
    def test_a_redriven_letter_is_marked(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        letters = [letter(1), letter(2)]
        owner.commit(letters=letters, head={"letters_next": 3})
        owner.commit(redriven=[1])
        view = engine.view(0)
        assert view.letters() == [(letter(1), True), (letter(2), False)]
        assert view.letter(1) is None
        assert view.letter(2) == letter(2)
        assert view.letter(3) is None

    @promise("A commit from another head than the stored one is refused")
    def test_a_commit_from_a_wrong_head_is_refused_and_leaves_nothing(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        owner.commit([record("d-1", "one")], events=1)
        before = visible(engine)
        stale = owner.prepare([record("d-1", "wrong", 2)], events=3, **full_commit(owner))
        stale.before = stale.before._replace(position=0)
        with pytest.raises(HoldfastError):
            engine.commit([(owner.claim, stale)])
        assert visible(engine) == before
        owner.commit([record("d-1", "right", 2)], events=1)
        assert engine.view(0).head().position == 2

    @promise("Each batch atomically")
    def test_partitions_commit_each_by_itself(self) -> None:
        """A refused batch does not undo another partition's, nor the other way round."""
        engine = self.engine(partitions=2)
        first, second = Owner.of(engine, 0), Owner.of(engine, 1)
        good = first.prepare([record("d-1", "good")])
        bad = second.prepare([record("d-1", "bad")])
        bad.before = bad.before._replace(commits=99)
        with pytest.raises(HoldfastError):
            engine.commit([(first.claim, good), (second.claim, bad)])
        assert engine.view(0).head() in (first.head, good.head)
        assert engine.view(1).head() == second.head
        assert list(engine.view(1).records()) == []

    # Fencing.

    @promise("It is refused with `Fenced` when a later claim exists", "Raises Fenced")
    def test_an_older_claim_can_not_commit(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        old = Owner.of(engine)
        old.commit([record("d-1", "one")], events=1)
        again = self.again(engine)
        new = Owner.of(again)
        assert new.claim.epoch > old.claim.epoch
        assert new.claim.incarnation == old.claim.incarnation
        before = visible(again)
        with pytest.raises(Fenced):
            old.commit([record("d-1", "late", 2)], events=3, **full_commit(old))
        assert visible(again) == before
        new.commit([record("d-1", "two", 2)], events=1)
        with pytest.raises(Fenced):
            old.commit([record("d-1", "later", 3)], events=3)
        assert again.view(0).record("Drone", "d-1") == record("d-1", "two", 2)

    def test_a_claim_alone_fences_though_nothing_was_committed_since(self) -> None:
        engine = self.engine()
        old = Owner.of(engine)
        again = self.again(engine)
        Owner.of(again)
        with pytest.raises(Fenced):
            old.commit([record("d-1", "late")])
        assert list(again.view(0).records()) == []

    @promise("The right to commit to one partition")
    def test_an_append_needs_no_claim_and_ends_none(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        append(engine, parcel(["a"]))
        append(engine, messages("1-abc", 1, 1))
        owner.commit(events=2)
        assert engine.view(0).head().position == 2
