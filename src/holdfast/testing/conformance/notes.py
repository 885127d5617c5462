"""Conformance: every commit leaves a note of itself, by which a replay is compared."""

from __future__ import annotations

import time

from holdfast.engine.port import Limits
from holdfast.stepping.commit import FORM, CommitNote, Journalled, Outgoing
from holdfast.testing.conformance.commits import framed, full_commit
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import (
    HandClock,
    Owner,
    Workbench,
    append,
    parcel,
    record,
)


class NoteConformance(Workbench):
    @promise("The note of each commit from number `first` on, in order, written with it")
    def test_every_commit_leaves_a_note(self) -> None:
        engine = self.engine()
        append(engine, parcel(["a", "b", "c", "d"]))
        owner = Owner.of(engine)
        made = [owner.prepare([record("d-1", "one")], events=3)]
        engine.commit([(owner.claim, made[0])])
        owner.head = made[0].head
        fired = Journalled(0, 1, framed("timer"))
        made.append(owner.prepare(journalled=fired, condemned="why", head={"journal_next": 1}))
        engine.commit([(owner.claim, made[1])])
        owner.head = made[1].head
        full = full_commit(owner)
        made.append(owner.prepare([record("d-1", "two", 2), record("d-2", "x")], 1, **full))
        engine.commit([(owner.claim, made[2])])
        expected = [
            CommitNote(1, 3, 0, 1.0, int.from_bytes(made[0].delta[-4:], "little"), form=FORM),
            CommitNote(2, 3, 1, 2.0, 0, condemned="why", form=FORM),
            CommitNote(
                3, 4, 2, 3.0, int.from_bytes(made[2].delta[-4:], "little"), 1, 1, 1, form=FORM
            ),
        ]
        view = self.again(engine).view(0)
        assert view.commits(0, 10) == expected
        assert view.commits(2, 10) == expected[1:]
        assert view.commits(2, 1) == expected[1:2]
        assert view.commits(4, 10) == []

    def test_a_commit_that_was_repeated_has_one_note(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        prepared = owner.prepare([record("d-1", "one")])
        engine.commit([(owner.claim, prepared)])
        engine.commit([(owner.claim, prepared)])
        assert [note.number for note in engine.view(0).commits(0, 10)] == [1]

    def test_many_notes_are_read_in_pages(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        for number in range(100):
            owner.commit([record("d-1", "x", number + 1)])
        view = engine.view(0)
        for first, most in [(0, 200), (1, 7), (31, 3), (32, 1), (33, 64), (64, 40), (99, 5)]:
            wanted = list(range(max(first, 1), 101))[:most]
            assert [note.number for note in view.commits(first, most)] == wanted

    def test_clearing_what_was_relayed_leaves_no_note(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        owner.commit(outgoing=[Outgoing(0, 1, 1, framed("out"))], sent_next={0: 2})
        clearing = owner.prepare(relayed={0: 1})
        clearing.head = clearing.before
        engine.commit([(owner.claim, clearing)])
        owner.commit([record("d-1", "one")])
        assert [note.number for note in engine.view(0).commits(0, 10)] == [1, 2]

    @promise("They are kept as long as the journal")
    def test_notes_stay_as_long_as_the_journal(self) -> None:
        clock = HandClock(time.time())
        engine = self.engine(limits=Limits(retain_seconds=1_000.0), clock=clock)
        owner = Owner.of(engine)
        for number in range(4):
            journalled = Journalled(number, 1, framed(f"timer {number}"))
            head = {"journal_next": number + 1, "now": clock.wall}
            owner.commit([record("d-1", "x", number + 1)], journalled=journalled, head=head)
            clock.pass_time(300.0)
        for _ in range(4):
            engine.maintain()
        view = engine.view(0)
        notes, journal = view.commits(0, 10), view.journal(0, 10)
        numbers = [note.number for note in notes]
        assert numbers[-3:] == [2, 3, 4], "a young one is gone"
        assert {fired.first + 1 for fired in journal} <= set(numbers), "the journal has outlived it"
