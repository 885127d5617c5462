"""The commit: everything that becomes true at once when a partition moves forward.

A commit carries the position reached, the states that changed, the outputs, the timers (inside
the states) and the order of the inputs it took. All of it is encoded before an engine begins its
transaction, so that nothing slow happens inside.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.effects import LogLine, Traced
from holdfast.stepping.blocks import Block, records_in
from holdfast.stepping.record import Record as Record  # noqa: PLC0414 (everybody finds it here)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages for one partition, numbered from `first` without a gap."""

    destination: int
    first: int
    count: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Issued:
    """Actions, numbered from `first` without a gap."""

    first: int
    count: int
    now: float
    frame: bytes


class Answer(NamedTuple):
    """What became of an asked event. `status` is "reply", "silent" or "failed"."""

    position: int
    now: float
    status: str
    text: str
    schema: int
    row: bytes


class Letter(NamedTuple):
    """A dead letter: an event that failed, with all that is needed to send it again."""

    id: int
    position: int
    now: float
    agent: str
    key: str
    schema: int
    row: bytes
    error: str
    trace: str
    event_time: float
    sender: tuple[str, str] | None
    hops: int
    ask: int


@dataclass(frozen=True, slots=True)
class Journalled:
    """Inputs that came from no inbox: timers and expiries, each before an inbox position."""

    first: int
    count: int
    frame: bytes


class Call(NamedTuple):
    """An open call: what runs it needs. `number` grows with every call of a partition."""

    number: int
    id: str
    agent: str
    key: str
    function: str
    arguments: bytes
    reply: str
    timeout: float
    retries: int
    backoff: float
    now: float
    trace: str = ""  # the context that it carries on


class Head(NamedTuple):
    """Where a partition stands: what a commit replaces as a whole."""

    position: int = 0
    now: float = 0.0
    actions_next: int = 0
    letters_next: int = 1
    journal_next: int = 0
    commits: int = 0
    calls_next: int = 1
    ground_stop: str = ""  # the one in force: see grounding.py
    urgent: int = 0  # so many events of the lane are folded: see lane.py


class Fate(NamedTuple):
    """One thing that became of an action; of each kind there is one at most."""

    id: str
    key: str  # of the agent that issued it
    now: float
    why: str
    kind: str = "compensated"
    by: str = ""
    action: str = ""  # the name of its class, where the fold knows it


# Records stand class by class, timers by name, and nothing is there of timers that are not set; a
# field that is the same in all of a block stands there once. (1: timers in other orders.)
FORM = 2


class CommitNote(NamedTuple):
    """What is kept of every commit, so that a replay can make the same ones and compare them."""

    number: int
    position: int  # reached
    fired: int  # so many timers and expiries were journalled by then
    now: float
    sum: int  # of the states that changed, as stored; 0 if none did
    issued: int = 0  # so many actions, messages and dead letters it made
    sent: int = 0
    letters: int = 0
    condemned: str = ""  # why its one input was not run: it had ended its worker
    in_blocks: int = 0  # so many of the agents that changed stood in blocks
    form: int = 0  # of the sum: in another one the same states have another


@dataclass(slots=True)
class Commit:
    before: Head
    head: Head
    records: list[Record] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # of other agents than `records`
    delta: bytes = b""  # both, encoded
    outgoing: list[Outgoing] = field(default_factory=list)
    sent_next: dict[int, int] = field(default_factory=dict)
    issued: Issued | None = None
    answers: list[Answer] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    redriven: list[int] = field(default_factory=list)
    journalled: Journalled | None = None
    relayed: dict[int, int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)  # that were made
    closed: list[str] = field(default_factory=list)  # ids of those answered, also of new ones
    fates: list[Fate] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    traced: list[Traced] = field(default_factory=list)  # told, not stored
    condemned: str = ""

    @property
    def changed(self) -> list[Record]:
        """Every agent that changed. Blocks are taken apart for it: look once."""
        return [*self.records, *(record for block in self.blocks for record in records_in(block))]

    @property
    def note(self) -> CommitNote | None:
        """None for one that moves nothing and only clears what was relayed."""
        head = self.head
        if head.commits == self.before.commits:
            return None
        return CommitNote(
            number=head.commits,
            position=head.position,
            fired=head.journal_next,
            now=head.now,
            sum=self._sum_of_states,
            issued=0 if self.issued is None else self.issued.count,
            sent=sum([out.count for out in self.outgoing]),
            letters=len(self.letters),
            condemned=self.condemned,
            in_blocks=sum(block.count for block in self.blocks),
            form=FORM,
        )

    @property
    def _sum_of_states(self) -> int:
        """A frame ends with its own sum. That of a frame in which another one stands does not
        depend on what the inner one holds, because that ends with its sum too: so add these."""
        sum_of_delta = int.from_bytes(self.delta[-4:], "little")
        inner = b"".join(block.encoded[-4:] for block in self.blocks)
        return zlib.crc32(inner, sum_of_delta)

    @property
    def size_bytes(self) -> int:
        """About how much an engine has to write."""
        issued = len(self.issued.frame) if self.issued else 0
        called = sum(len(call.arguments) for call in self.calls)
        return len(self.delta) + issued + called + sum(len(out.frame) for out in self.outgoing)

    @property
    def empty(self) -> bool:
        """Nothing to write: no input was taken and nothing needs clearing."""
        return self.head == self.before and not (self.records or self.blocks or self.relayed)
