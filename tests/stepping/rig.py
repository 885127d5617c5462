"""A bench for the stepping layer: steppers without an engine, and everything they committed.

Frames are encoded and decoded on the way, as they would be through an inbox. Nothing here replaces
a part of the product: the schema registry is a dictionary, the inbox a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from holdfast.model.agent import Agent
from holdfast.model.calls import digest_of
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.stepping.actionids import action_id
from holdfast.stepping.cell import Extras
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Answer, Call, Commit, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import (
    Inputs,
    StoredFrame,
    control_frame,
    event_frame,
    read_inputs,
    reply_frame,
)
from holdfast.stepping.rows import read_payload
from holdfast.stepping.stepper import Stepper

Row = tuple[type[Agent], str, Event]


def codebook_of(fleet: FleetModel) -> Codebook:
    """A codebook whose registry is a dictionary."""
    known: dict[str, int] = {}

    def register(schema: Schema) -> int:
        return known.setdefault(f"{schema.kind} {schema.fingerprint}", len(known) + 1)

    return Codebook(fleet, {register(schema): schema for schema in fleet.schemas()}, register)


@dataclass
class Inbox:
    """Frames as a producer would append them."""

    codebook: Codebook
    frames: list[StoredFrame] = field(default_factory=list)
    next: int = 0

    def put(
        self,
        rows: Sequence[Row],
        stamp: float,
        *,
        event_times: Sequence[float] | None = None,
        asks: bool = False,
    ) -> int:
        """Append one frame; the position of its first event."""
        agents, keys, events = zip(*rows, strict=True)
        frame = event_frame(
            [agent.__name__ for agent in agents],
            keys,
            events,
            self.codebook,
            source="test",
            seqs=range(self.next, self.next + len(rows)),
            event_times=event_times,
            asks=asks,
        )
        return self._append(frame, stamp)

    def command(self, agent: type[Agent], key: str, command: Sequence[object], at: float) -> int:
        return self._append(control_frame(agent.__name__, key, command), at)

    def reply(self, call: Call, event: Event, at: float) -> int:
        digest = digest_of(call.function, call.arguments)
        place = (call.agent, call.key, call.id, call.function)
        return self._append(reply_frame(*place, digest, event, self.codebook), at)

    def carry(self, outgoing: Iterable[bytes], stamp: float) -> None:
        """Messages that a commit sent here."""
        for encoded in outgoing:
            self._append(Frame.decode(encoded), stamp)

    def _append(self, frame: Frame, stamp: float) -> int:
        first = self.next
        self.frames.append(StoredFrame(first, frame.count, stamp, frame.encode()))
        self.next += frame.count
        return first

    def read(self, codebook: Codebook) -> list[Inputs]:
        return [read_inputs(stored, codebook) for stored in self.frames]


class Bench:
    """One stepper, stepped by hand; keeps every commit."""

    def __init__(self, fleet: FleetModel, codebook: Codebook | None = None) -> None:
        self.fleet = fleet
        self.codebook = codebook or codebook_of(fleet)
        self.inbox = Inbox(self.codebook)
        self.commits: list[Commit] = []
        self.redriven: set[int] = set()
        self.stepper = Stepper(fleet, Layout.even(1), self.codebook, self._letter)

    def _letter(self, letter_id: int) -> Letter | None:
        if letter_id in self.redriven:
            return None
        return next((letter for letter in self.letters if letter.id == letter_id), None)

    # Stepping.

    def send(self, rows: Sequence[Row], stamp: float = 1.0) -> Commit:
        """One frame, folded at once."""
        self.inbox.put(rows, stamp)
        return self.fold()

    def fold(self, clock: float | None = None) -> Commit:
        """All that waits, as one batch."""
        position = self.stepper.head.position
        waiting = [i for i in self.inbox.read(self.codebook) if i.first >= position]
        return self.step(waiting, clock)

    def step(self, batch: Sequence[Inputs], clock: float | None = None) -> Commit:
        commit = self.stepper.step(batch, clock)
        self.commits.append(commit)
        self.redriven.update(commit.redriven)
        return commit

    def reopened(self) -> Bench:
        """The same partition as a new process would load it."""
        other = Bench(self.fleet, self.codebook)
        other.inbox = self.inbox
        other.commits = list(self.commits)
        other.redriven = set(self.redriven)
        other.stepper.load(self.stepper.head, self.stepper.sent_next, list(self.records.values()))
        return other

    # What was committed.

    @property
    def records(self) -> dict[tuple[str, str], Record]:
        found: dict[tuple[str, str], Record] = {}
        for commit in self.commits:
            for record in commit.records:
                found[record.agent, record.key] = record
        return {at: record for at, record in found.items() if not record.gone}

    def state(self, agent: type[Agent], key: str) -> Agent | None:
        record = self.records.get((agent.__name__, key))
        if record is None:
            return None
        return cast(Agent, self.codebook.reader_of(record.schema).row(record.state))

    @property
    def letters(self) -> list[Letter]:
        return [letter for commit in self.commits for letter in commit.letters]

    @property
    def answers(self) -> list[Answer]:
        return [answer for commit in self.commits for answer in commit.answers]

    @property
    def actions(self) -> list[tuple[str, float, object]]:
        """(id, time, action) in the order of issue."""
        found: list[tuple[str, float, object]] = []
        for commit in self.commits:
            if commit.issued is not None:
                found += self._actions_of(Frame.decode(commit.issued.frame))
        return found

    def _actions_of(self, frame: Frame) -> list[tuple[str, float, object]]:
        names = ("agent", "key", "version", "index", "now")
        columns = [frame.values(name) or [] for name in names]
        found: list[tuple[str, float, object]] = []
        actions = read_payload(frame, self.codebook)
        for (agent, key, version, index, now), action in zip(
            zip(*columns, strict=True), actions, strict=True
        ):
            identity = action_id(
                self.fleet.name, str(agent), str(key), cast(int, version), cast(int, index)
            )
            found.append((identity, cast(float, now), action))
        return found

    @property
    def messages(self) -> list[tuple[object, ...]]:
        """(from agent, from key, to agent, to key, hops, time, event) in the order sent."""
        found: list[tuple[object, ...]] = []
        for commit in self.commits:
            for out in commit.outgoing:
                frame = Frame.decode(out.frame)
                names = ("from_agent", "from_key", "agent", "key", "hops", "event_time")
                columns = [frame.values(name) or [] for name in names]
                events = read_payload(frame, self.codebook)
                found += list(zip(*columns, events, strict=True))
        return found

    @property
    def journal(self) -> list[tuple[object, ...]]:
        """(position, agent, key, name, due, now) of every timer and expiry."""
        found: list[tuple[object, ...]] = []
        for commit in self.commits:
            if commit.journalled is not None:
                frame = Frame.decode(commit.journalled.frame)
                names = ("position", "agent", "key", "name", "due", "now")
                found += list(zip(*(frame.values(n) or [] for n in names), strict=True))
        return found

    @property
    def calls(self) -> list[Call]:
        """All that were made, in their order."""
        return [call for commit in self.commits for call in commit.calls]

    @property
    def closed(self) -> list[str]:
        return [call_id for commit in self.commits for call_id in commit.closed]

    def open_calls(self, agent: type[Agent], key: str) -> list[str]:
        """Those the agent knows, as it is stored."""
        record = self.records.get((agent.__name__, key))
        if record is None:
            return []
        return list(Extras.unpack(record.extras, self.codebook).calls)

    @property
    def logs(self) -> list[tuple[str, str, str, str]]:
        return [line[:4] for commit in self.commits for line in commit.logs]

    def everything(self) -> dict[str, object]:
        """All that must not depend on how inputs were cut into batches.

        `updated` of a record and tracebacks may: neither decides anything.
        """
        return {
            "head": (self.stepper.head.position, self.stepper.head.now),
            "calls": (self.calls, self.closed, self.stepper.head.calls_next),
            "states": {at: record[:6] for at, record in sorted(self.records.items())},
            "letters": [letter._replace(trace="") for letter in self.letters],
            "answers": self.answers,
            "actions": self.actions,
            "messages": self.messages,
            "journal": self.journal,
            "logs": self.logs,
        }
