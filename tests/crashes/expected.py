"""What a reader of the engine must see: a second, plain account of every append and commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holdfast.engine.port import Granted, Parcel
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.stepping.commit import Answer, Commit, Head, Issued, Journalled, Letter, Record
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance.workbench import Owner, inbox, states_in, tags_of


@dataclass(frozen=True)
class Part:
    """All that can be seen of one partition. `first`: events before it may be forgotten."""

    incarnation: str
    epoch: int = 0
    first: int = 0
    tags: tuple[str, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    head: Head = field(default_factory=Head)
    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    outbox: tuple[tuple[int, int, int, bytes], ...] = ()
    sent_next: dict[int, int] = field(default_factory=dict)
    actions: tuple[Issued, ...] = ()
    journal: tuple[Journalled, ...] = ()
    letters: tuple[tuple[Letter, bool], ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class World:
    schemas: tuple[str, ...]  # fingerprints in the order of their ids
    parts: tuple[Part, ...]

    def changed(self, number: int, part: Part) -> World:
        parts = list(self.parts)
        parts[number] = part
        return replace(self, parts=tuple(parts))


def tags_in(parcel: Parcel) -> list[str]:
    return tags_of(StoredFrame(0, parcel.frame.count, 0.0, parcel.encoded))


def appended(part: Part, parcels: Sequence[Parcel]) -> Part:
    """Tags name source and number, so what is known already is a repeat."""
    tags, marks = list(part.tags), dict(part.marks)
    for parcel in parcels:
        tags += [tag for tag in tags_in(parcel) if tag not in tags]
        if parcel.mark is not None:
            last = parcel.mark.first + parcel.frame.count - 1
            marks[parcel.mark.source] = max(marks.get(parcel.mark.source, 0), last)
    return replace(part, tags=tuple(tags), marks=marks)


def committed(part: Part, commit: Commit) -> Part:
    records = dict(part.records)
    for record in commit.changed:
        records[record.agent, record.key] = record
        if record.gone:
            del records[record.agent, record.key]
    outbox = [*part.outbox, *((o.destination, o.first, o.count, o.frame) for o in commit.outgoing)]
    letters = [*part.letters, *((letter, False) for letter in commit.letters)]
    return replace(
        part,
        head=commit.head,
        records=records,
        outbox=tuple(o for o in outbox if o[1] > commit.relayed.get(o[0], 0)),
        sent_next=part.sent_next | commit.sent_next,
        actions=(*part.actions, *([commit.issued] if commit.issued else [])),
        journal=(*part.journal, *([commit.journalled] if commit.journalled else [])),
        letters=tuple((one, again or one.id in commit.redriven) for one, again in letters),
        answers=(*part.answers, *commit.answers),
    )


def shown(engine: SqliteEngine, number: int, like: Part) -> Part:
    """What the engine shows of a partition to a reader, who cannot see the epoch."""
    view = engine.view(number)
    first = view.inbox_first()
    records = {(one.agent, one.key): one for one in view.records()}
    assert all(view.record(*name) == one for name, one in records.items())
    return Part(
        incarnation=view.incarnation(),
        epoch=like.epoch,
        first=first,
        tags=tuple(inbox(engine, number, first)),
        marks=view.marks(),
        head=view.head(),
        records=records,
        outbox=tuple(view.outbox()),
        sent_next=view.sent_next(),
        actions=tuple(view.actions(0, 1000)),
        journal=tuple(view.journal(0, 1000)),
        letters=tuple(view.letters()),
        answers=tuple(a for one in like.answers if (a := view.answer(one.position)) is not None),
    )


def claimed(engine: SqliteEngine, number: int, like: Part) -> tuple[Part, Owner]:
    """The same to an owner, who must be given no other."""
    part = shown(engine, number, like)
    (grant,) = engine.assignments([number], 1)
    assert isinstance(grant, Granted)
    loaded = engine.load(grant.claim)
    assert loaded.head == part.head
    assert tuple(loaded.outbox) == part.outbox
    assert loaded.sent_next == part.sent_next
    assert {(one.agent, one.key): one for one in states_in(loaded)} == part.records
    return replace(part, epoch=grant.claim.epoch - 1), Owner(engine, grant.claim, loaded.head)


def schemas_of(engine: SqliteEngine) -> tuple[str, ...]:
    found = engine.catalog.schemas()
    assert sorted(found) == list(range(1, len(found) + 1))
    return tuple(found[number].fingerprint for number in sorted(found))
