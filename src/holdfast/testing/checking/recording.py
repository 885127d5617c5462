"""Recordings: inboxes to fold again and again, read from stored data or made up from a seed.

What is made up is folded once while it is made, so that messages between agents are in the inbox as
they would be. Everything after works on the recording alone.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec

from holdfast.engine import inheritance
from holdfast.engine.port import View
from holdfast.engine.urls import open_engine
from holdfast.errors import DamagedData, UsageError
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout, slot_of
from holdfast.model.rng import Random
from holdfast.model.schema import Schema
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.bench import Bench
from holdfast.testing.checking.limiting import TimeLimit
from holdfast.testing.generating import generate_event, generate_stream

BEGINNING = 1_700_000_000.0  # of made-up time, in seconds since 1970
KEYS_PER_AGENT = 3
ROWS_PER_FRAME = 8
MESSAGES_PER_EVENT = 8  # on average; agents that answer each other more get fewer delivered
FRAMES_AT_ONCE = 4_096


class Inbox(msgspec.Struct):
    """What one partition was given: frames as stored, from position `first` on, and before them
    what it inherited if it came in a rescaling."""

    partition: int
    first: int
    frames: list[tuple[int, int, float, bytes]] = []  # first, count, stamp, frame
    records: list[Record] = []
    letters: list[Letter] = []

    @property
    def events(self) -> int:
        return sum(count for _, count, _, _ in self.frames)

    def stored(self) -> list[StoredFrame]:
        return [StoredFrame(*each) for each in self.frames]


class Recording(msgspec.Struct):
    slots: list[tuple[int, int]]  # of each partition that lives
    schemas: dict[int, dict[str, object]]
    inboxes: list[Inbox] = []
    first: int = 0  # number of a partition that lives

    @property
    def events(self) -> int:
        return sum(inbox.events for inbox in self.inboxes)

    @property
    def inherited(self) -> int:
        return sum(len(inbox.records) for inbox in self.inboxes)

    @property
    def cut(self) -> bool:
        """Whether retention has taken the beginning away."""
        return any(inbox.first for inbox in self.inboxes)

    @property
    def layout(self) -> Layout:
        return Layout(tuple(range(start, stop) for start, stop in self.slots), self.first)

    def codebook(self, fleet: FleetModel) -> Codebook:
        stored = {number: Schema.from_json(each) for number, each in self.schemas.items()}
        return codebook_of(fleet, stored)

    def bench(self, fleet: FleetModel, inbox: Inbox) -> Bench:
        """As the partition was before the first frame."""
        made = Bench(fleet, self.codebook(fleet), self.layout, inbox.first, inbox.letters)
        for record in inbox.records:
            made.place(record)
        return made

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.msgpack.encode(self))


def read_recording(path: Path) -> Recording:
    return msgspec.msgpack.decode(path.read_bytes(), type=Recording)


# ---------------------------------------------------------------- from stored data


def stored_recording(fleet: FleetModel, url: str, events: int | None) -> Recording:
    """The inboxes of all partitions as far as they are folded, retired ones first; of each at
    most `events`."""
    if url.startswith("memory:"):
        raise UsageError(f"{url} keeps nothing to check: give sqlite:PATH, or no engine at all")
    engine = open_engine(url, fleet.name)
    try:
        layout, schemas = engine.catalog.layout, engine.catalog.schemas()
        recording = Recording(
            slots=[(each.start, each.stop) for each in layout.partitions],
            schemas={number: schema.to_json() for number, schema in schemas.items()},
            first=layout.first,
        )
        before = {n: s for n, s in engine.catalog.retired.items() if n < layout.first}
        owners: dict[int, int] = {}  # slot -> partition; a rescaling replaces all of them
        for number, slots in sorted({**before, **layout.slots_by_number}.items()):
            inbox = _stored_inbox(number, engine.view(number), events)
            parents = sorted({owners[slot] for slot in slots if slot in owners})
            _inherit(inbox, slots, [engine.view(parent) for parent in parents])
            recording.inboxes.append(inbox)
            owners.update(dict.fromkeys(slots, number))
        return recording
    finally:
        engine.close()


def _inherit(inbox: Inbox, slots: range, parents: list[View]) -> None:
    """A retired partition keeps what it had when others took its place."""
    inbox.letters = inheritance.letters_of(slots, [parent.letters() for parent in parents])
    inbox.records = [
        inheritance.moved(record)
        for parent in parents
        for record in parent.records()
        if slot_of(record.key) in slots
    ]


def _stored_inbox(number: int, view: View, most: int | None) -> Inbox:
    end = view.head().position
    inbox = Inbox(number, view.inbox_first())
    position = inbox.first
    if most is not None:
        end = min(end, position + most)
    while position < end:
        frames = view.frames(position, FRAMES_AT_ONCE)
        if not frames or frames[0].first > position:
            if view.inbox_first() > position:
                return _stored_inbox(number, view, most)  # retention went past us: begin anew
            raise DamagedData(
                f"p{number:03d}: {end} events are to be folded, but the inbox ends at {position}: "
                "`holdfast doctor --salvage` lists what is intact"
            )
        for each in frames:
            if each.first < end:
                inbox.frames.append((each.first, each.count, each.stamp, each.frame))
            position = each.first + each.count
    if inbox.frames and inbox.frames[0][0] < inbox.first:
        inbox.first = inbox.frames[0][0]
    return inbox


# ---------------------------------------------------------------- made up


def generated_recording(fleet: FleetModel, seed: int, events: int, limit: TimeLimit) -> Recording:
    """`events` made-up events of one seed, and the messages and replies that follow from them. One
    whose handler does not end is the last."""
    random = Random(seed)
    writer = _Writer(fleet, random)
    stream = generate_stream(fleet, random, KEYS_PER_AGENT, events)
    stamp = BEGINNING
    with limit:
        while rows := list(islice(stream, random.randint(1, ROWS_PER_FRAME))):
            stamp += _gap(random)
            limit.rearm()
            writer.send(rows, stamp, asks=random.randint(1, 8) == 1)
            if limit.hits:
                break
    inbox = Inbox(0, 0, writer.frames)
    schemas = {number: schema.to_json() for number, schema in writer.bench.codebook.schemas()}
    return Recording([(0, 1024)], schemas, [inbox])


def _gap(random: Random) -> float:
    """Seconds between two frames: mostly few, at times enough for timers and expiries."""
    kind = random.randint(1, 20)
    if kind == 1:
        return random.uniform(600.0, 90_000.0)
    return random.uniform(0.0, 120.0 if kind <= 4 else 2.0)


class _Writer:
    """Appends frames and folds them at once, to see which messages and calls follow."""

    def __init__(self, fleet: FleetModel, random: Random) -> None:
        self.bench = Bench(fleet)
        self._random = random
        self.frames: list[tuple[int, int, float, bytes]] = []
        self._messages_left = 0
        self._fresh: dict[tuple[str, str], str] = {}

    def send(self, rows: list[tuple[type[Agent], str, Event]], stamp: float, *, asks: bool) -> None:
        self._messages_left += MESSAGES_PER_EVENT * len(rows)
        named = [(agent, self._awake(agent.__name__, key), event) for agent, key, event in rows]
        self._append(self.bench.frame(named, asks=asks).encode(), stamp)

    def _awake(self, agent: str, key: str) -> str:
        """The key, or another one in its place: a paused agent would only hold its events."""
        now = self._fresh.get((agent, key), key)
        if now in self.bench.stepper.kinds[agent].paused:
            stem, _, number = now.partition(":")
            now = self._fresh[agent, key] = f"{stem}:{int(number or 0) + 1}"
        return now

    def _append(self, frame: bytes, stamp: float) -> None:
        first, count = self.bench.position, Frame.decode(frame).count
        self.frames.append((first, count, stamp, frame))
        commits = list(self.bench.step_to_end([self.bench.read(frame, stamp)]))
        for out in (out for commit in commits for out in commit.outgoing):
            if self._messages_left >= out.count:
                self._messages_left -= out.count
                self._append(out.frame, stamp)
        for call in (call for commit in commits for call in commit.calls):
            if self._messages_left > 0:
                self._messages_left -= 1
                self._append(self.bench.reply(call, self._outcome(call)).encode(), stamp)

    def _outcome(self, call: Call) -> Event:
        if self._random.randint(1, 4) == 1:
            return CallFailed(call.id, call.function, "error", "ValueError: made up", 3)
        return generate_event(self.bench.fleet.events[call.reply], self._random)
