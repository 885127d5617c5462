"""A partition in memory: its inbox with the dedupe rows, its committed state, and its view."""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from holdfast.engine import inheritance
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.memory.ledger import MemoryLedger
from holdfast.engine.port import Change, Images
from holdfast.engine.stamping import NEVER, Instant
from holdfast.model.keys import slot_of
from holdfast.stepping.blocks import BUCKETS, Block, records_in
from holdfast.stepping.commit import (
    Answer,
    Call,
    Commit,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.fates import Fates
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import in_lane

R = TypeVar("R", StoredFrame, Journalled, Issued)


@dataclass
class MemoryPartition:
    """One partition, and the committed view of it."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    inbox: list[StoredFrame] = field(default_factory=list)
    next: int = 0
    lane: list[StoredFrame] = field(default_factory=list)
    urgent: int = 0  # so many have come to the lane
    stamp: Instant = NEVER
    closed: bool = False  # to everything but messages
    epoch: int = 0
    generation: int = 0
    committed: Head = field(default_factory=Head)
    states: dict[tuple[str, str], Record] = field(default_factory=dict)
    columns: dict[str, list[Block]] = field(default_factory=dict)  # over the states, by class
    fresh: list[Record | Block] = field(default_factory=list)  # over both, from old to new
    outbox: dict[tuple[int, int], tuple[int, bytes]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    issued: list[Issued] = field(default_factory=list)
    journalled: list[Journalled] = field(default_factory=list)
    notes: list[CommitNote] = field(default_factory=list)
    dead: dict[int, tuple[Letter, bool]] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    decided: Fates = field(default_factory=Fates)  # what became of actions
    opened: dict[str, Call] = field(default_factory=dict)  # calls by id, in order of their numbers
    born: str = field(default_factory=lambda: uuid.uuid4().hex)
    whole: threading.RLock = field(default_factory=threading.RLock)  # nothing in it is half done

    def head(self) -> Head:
        with self.whole:
            return self.committed

    def inbox_next(self) -> int:
        with self.whole:
            return self.next

    def urgent_next(self) -> int:
        with self.whole:
            return self.urgent

    def position_of(self, following: int) -> int:
        return following

    def inbox_first(self) -> int:
        with self.whole:
            return self.inbox[0].first if self.inbox else self.next

    def record(self, agent: str, key: str) -> Record | None:
        with self.whole:
            return self.settled().get((agent, key))

    def records(self, agent: str | None = None) -> Iterator[Record]:
        with self.whole:
            return iter([r for r in self.settled().values() if agent in (None, r.agent)])

    def changes(self, since: int) -> Iterator[Change]:
        """All of them: they are at hand, and nobody has noted what changed when."""
        with self.whole:
            below = [Change(record=record) for record in self.states.values()]
            above = [
                Change(block=each.encoded) if isinstance(each, Block) else Change(record=each)
                for each in self.layers()
            ]
            return iter([Change(head=self.committed, whole=True), *below, *above])

    def settled(self) -> dict[tuple[str, str], Record]:
        """All states, for whoever looks at agents: until then blocks lie as they came."""
        for each in self.layers():
            self._put(records_in(each) if isinstance(each, Block) else [each])
        self.columns.clear()
        self.fresh.clear()
        return self.states

    def layers(self) -> list[Record | Block]:
        """What lies over the states, from old to new."""
        return [*(block for blocks in self.columns.values() for block in blocks), *self.fresh]

    def _put(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.gone:
                self.states.pop((record.agent, record.key), None)
            else:
                self.states[record.agent, record.key] = record

    def put(self, commit: Commit) -> None:
        if self.columns or self.fresh or commit.blocks:
            self.fresh += [*commit.blocks, *commit.records]
        else:
            self._put(commit.records)

    def compact(self, images: Images) -> None:
        """A block for each bucket of a class, in the place of one for each commit."""
        agents = {each.agent for each in self.fresh if isinstance(each, Block)}
        columns: dict[str, list[Block]] = {}
        for agent in agents | self.columns.keys():
            made = images(agent, set(range(BUCKETS)))
            if made is None:
                self.settled()
                return
            columns[agent] = [block for _, block in made if block is not None]
        # An agent that was a record lies under the blocks: there it has another form, or is not.
        self._put(each for each in self.fresh if isinstance(each, Record))
        self.columns = columns
        self.fresh.clear()

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        with self.whole:
            stored = self.lane if in_lane(first) else self.inbox
            start = stop = _holding(stored, first)
            events = 0
            while stop < len(stored) and events < most:
                events += stored[stop].count
                stop += 1
            return stored[start:stop]

    def journal(self, first: int, most: int) -> list[Journalled]:
        with self.whole:
            start = _holding(self.journalled, first)
            return self.journalled[start : start + most]

    def commits(self, first: int, most: int) -> list[CommitNote]:
        with self.whole:
            start = bisect_left(self.notes, first, key=lambda note: note.number)
            return self.notes[start : start + most]

    def actions(self, first: int, most: int) -> list[Issued]:
        with self.whole:
            start = _holding(self.issued, first)
            return self.issued[start : start + most]

    def letters(self) -> list[tuple[Letter, bool]]:
        with self.whole:
            return list(self.dead.values())

    def letter(self, letter_id: int) -> Letter | None:
        with self.whole:
            letter, redriven = self.dead.get(letter_id, (None, False))
            return None if redriven else letter

    def answer(self, position: int) -> Answer | None:
        with self.whole:
            return self.answers.get(position)

    def calls(self, after: int, most: int) -> list[Call]:
        with self.whole:
            later = (call for call in self.opened.values() if call.number > after)
            return list(islice(later, most))

    def fates(self) -> list[Fate]:
        with self.whole:
            return self.decided.all()

    def fates_of(self, ids: Sequence[str]) -> list[Fate]:
        with self.whole:
            return self.decided.of(ids)

    def sent_next(self) -> dict[int, int]:
        with self.whole:
            return dict(self.numbers)

    def marks(self) -> dict[str, int]:
        with self.whole:
            return dict(self.ledger.marks)

    def incarnation(self) -> str:
        return self.born

    def owner(self) -> str:
        return "this process" if self.epoch else ""


def child_of(parents: Collection[MemoryPartition], slots: range, dedupe: Dedupe) -> MemoryPartition:
    """`dedupe` is what the parents know of sources together."""
    letters = inheritance.letters_of(slots, [part.letters() for part in parents])
    calls = inheritance.calls_of(slots, [list(part.opened.values()) for part in parents])
    child = MemoryPartition(
        ledger=MemoryLedger(dedupe.of(slots)),
        stamp=inheritance.latest(part.stamp for part in parents),
        generation=max(part.generation for part in parents),
        committed=inheritance.first_head((part.committed for part in parents), letters, calls),
        dead={letter.id: (letter, False) for letter in letters},
        decided=Fates(inheritance.fates_of(slots, [part.fates() for part in parents])),
        opened={call.id: call for call in calls},
    )
    for part in parents:
        for name, record in part.settled().items():
            if slot_of(record.key) in slots:
                child.states[name] = inheritance.moved(record)
    return child


def _holding(runs: list[R], first: int) -> int:
    """Where the run is that holds `first`, or comes next. They are long: searched, not walked."""
    start = max(0, bisect_right(runs, first, key=lambda run: run.first) - 1)
    if start < len(runs) and runs[start].first + runs[start].count <= first:
        start += 1
    return start
