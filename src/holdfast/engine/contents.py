"""What a whole fleet is at one moment, in terms of no engine: `capture` gives it, `plant` takes it.

The moment is a consistent cut. It is taken while everybody works on, in these steps:

1. Take the append locks of all live partitions, so that nothing is appended anywhere.
2. Of each partition, fix the committed state (head, agents, outbox) and the end of its inbox.
3. Give the locks back, and read what was fixed at leisure.

Commits go on during step 2, so the states are not all of the same instant. It does not matter:

- A message in an inbox of the cut was appended before step 1, so its sender had committed it
  before, and the sender's state, fixed later, has sent it. No message is there without its cause,
  in no inbox and in no state that has folded one.
- A message that its sender's state has cleared from the outbox was appended before that commit,
  hence before step 1: it is in the inbox. Every other message is in the outbox. None is missing.
- One that is both in the outbox and in the inbox is a repeat, which the mark of the inbox knows.

States first and the locks after would not do: between the two a sender may commit a message, which
the other partition gets and folds. Its cause would be folded again after a restore, perhaps with a
timer in another place, and bring forth another message under the same number, which would be lost.

Where nobody can be locked a cut is found by following causes: engine/kafka/cutting.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from holdfast.engine.inheritance import Dedupe
from holdfast.engine.stamping import NEVER, Instant
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Call, Fate, Head, Letter, Record
from holdfast.stepping.inputs import StoredFrame

Outbox = list[tuple[int, int, int, bytes]]  # destination, first, count, frame


class Facts(NamedTuple):
    """The counters of one partition. Of a retired one there is no more than that."""

    number: int
    slots: range
    incarnation: str
    head: Head
    generation: int = 0
    next: int = 0  # where its inbox ends
    stamp: Instant = NEVER  # of the newest event in it
    sent_next: Mapping[int, int] = {}
    marks: Mapping[str, int] = {}
    urgent: int = 0  # so many events have come to its lane


class PartitionContents(Protocol):
    """One live partition, until its contents are closed."""

    facts: Facts

    def records(self) -> Iterator[Record]: ...
    def letters(self) -> list[tuple[Letter, bool]]: ...
    def calls(self) -> list[Call]: ...  # the open ones
    def fates(self) -> list[Fate]: ...  # the oldest first
    def outbox(self) -> Outbox: ...
    def frames(self) -> Iterator[StoredFrame]:
        """From the one that holds the position on; then those that wait in the lane."""

    def dedupe(self) -> Dedupe: ...


class Contents(Protocol):
    @property
    def fleet(self) -> str: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def retired(self) -> list[Facts]: ...
    @property
    def schemas(self) -> dict[int, Schema]: ...
    @property
    def partitions(self) -> list[PartitionContents]: ...  # in the order of the layout
    def close(self) -> None: ...


@dataclass
class HeldPartition:
    """A partition of which all is in memory."""

    facts: Facts
    held_records: list[Record] = field(default_factory=list)
    held_letters: list[tuple[Letter, bool]] = field(default_factory=list)
    held_outbox: Outbox = field(default_factory=list)
    held_frames: list[StoredFrame] = field(default_factory=list)
    held_dedupe: Dedupe = field(default_factory=lambda: Dedupe({}, {}, {}))
    held_calls: list[Call] = field(default_factory=list)
    held_fates: list[Fate] = field(default_factory=list)

    def records(self) -> Iterator[Record]:
        return iter(self.held_records)

    def letters(self) -> list[tuple[Letter, bool]]:
        return self.held_letters

    def calls(self) -> list[Call]:
        return self.held_calls

    def fates(self) -> list[Fate]:
        return self.held_fates

    def outbox(self) -> Outbox:
        return self.held_outbox

    def frames(self) -> Iterator[StoredFrame]:
        return iter(self.held_frames)

    def dedupe(self) -> Dedupe:
        return self.held_dedupe


@dataclass
class HeldContents:
    fleet: str
    layout: Layout
    retired: list[Facts]
    schemas: dict[int, Schema]
    partitions: list[PartitionContents]

    def close(self) -> None:
        """Nothing is open."""


def of_retired(number: int, slots: range, incarnation: str, head: Head) -> Facts:
    """Its dead letters went to its children, and its events are past retention after planting."""
    head = head._replace(letters_next=1)
    return Facts(number, slots, incarnation, head, next=head.position, urgent=head.urgent)
