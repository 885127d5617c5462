"""What one partition of the demo has stored, as plain values: inputs, states, actions, messages.

Reads through the engine's views and the schemas stored beside the data. What it should be is not
known here; a frame or row that does not match its checksum is an error before it gets this far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from holdfast.engine.sqlite.view import SqliteView
from holdfast.errors import DamagedData
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.rows import packed_rows, schema_ids

_EVENTS_AT_ONCE = 65_536
_FRAMES_AT_ONCE = 256
_read_rows = msgspec.msgpack.Decoder(list[tuple]).decode  # type: ignore[type-arg]
_read_row = msgspec.msgpack.Decoder(tuple).decode

Values = tuple[float, ...]


class Row(NamedTuple):
    """One event of the inbox. `source` and `seq` are set for those from outside."""

    position: int
    stamp: float
    agent: str
    key: str
    name: str
    values: Values
    source: str | None
    seq: int
    sender: str  # key of the agent that sent this message
    sender_agent: str


class Fired(NamedTuple):
    """A timer that fired, before the inbox position."""

    position: int
    agent: str
    key: str
    timer: str
    due: float
    now: float
    name: str
    values: Values


class StoredAction(NamedTuple):
    agent: str
    key: str
    version: int
    number: int
    now: float
    name: str
    values: Values


class StoredState(NamedTuple):
    agent: str
    key: str
    version: int
    values: dict[str, object]
    timers: dict[str, tuple[float, str, Values]]
    paused: str
    held: int


class StoredMessage(NamedTuple):
    agent: str
    key: str
    values: Values
    sender: str
    sender_agent: str


class Evidence:
    def __init__(self, number: int, view: SqliteView, schemas: dict[int, Schema]) -> None:
        self.number = number
        self.view = view
        self.head = view.head()
        self.inbox_next = view.inbox_next()
        self._schemas = schemas
        self._names = {schema_id: schema.name for schema_id, schema in schemas.items()}
        self.hole_positions = 0  # how many positions of the inbox have no event

    # The inbox, and the timers that fired between its events.

    def inputs(self) -> Iterator[Row | Fired]:
        """Everything in the order in which it was folded; then what is not folded yet."""
        fired = self._fired()
        waiting = next(fired, None)
        for row in self._rows():
            while waiting is not None and waiting.position <= row.position:
                yield waiting
                waiting = next(fired, None)
            yield row
        while waiting is not None:
            yield waiting
            waiting = next(fired, None)

    def _rows(self) -> Iterator[Row]:
        position = 0
        while batch := self.view.frames(position, _EVENTS_AT_ONCE):
            for stored in batch:
                self.hole_positions += stored.first - position
                position = stored.first + stored.count
                yield from self._rows_of(stored)
        self.hole_positions += self.inbox_next - position

    def _rows_of(self, stored: StoredFrame) -> Iterator[Row]:
        frame = Frame.decode(stored.frame)
        if frame.count != stored.count:
            raise DamagedData(f"the frame at {stored.first} has {frame.count} rows")
        if "schema" not in frame:
            return  # an operator's command, none of which the demo gives
        nobody = [""] * frame.count
        source = cast("str | None", frame.constant("source"))
        seqs = cast("list[int]", frame.values("seq") or [-1] * frame.count)
        senders = cast("list[str]", frame.values("from_key") or nobody)
        sender_agents = cast("list[str]", frame.values("from_agent") or nobody)
        agents = cast("list[str]", frame.values("agent"))
        keys = cast("list[str]", frame.values("key"))
        for i, (name, values) in enumerate(self._payload(frame)):
            yield Row(
                stored.first + i,
                stored.stamp,
                agents[i],
                keys[i],
                name,
                values,
                source,
                seqs[i],
                senders[i],
                sender_agents[i],
            )

    def _payload(self, frame: Frame) -> list[tuple[str, Values]]:
        ids = schema_ids(frame)
        each = {i: iter(_read_rows(packed_rows(frame, i, n))) for i, n in Counter(ids).items()}
        try:
            return [(self._names[i], next(each[i])) for i in ids]
        except (StopIteration, KeyError):
            raise DamagedData("a frame lacks a payload or names an unknown schema") from None

    def _fired(self) -> Iterator[Fired]:
        first = 0
        while batch := self.view.journal(first, _FRAMES_AT_ONCE):
            for journalled in batch:
                first = journalled.first + journalled.count
                frame = Frame.decode(journalled.frame)
                names = ("position", "agent", "key", "name", "due", "now", "event")
                columns = [cast(list[object], frame.values(name)) for name in names]
                for *start, event in zip(*columns, strict=True):
                    schema_id, row = cast("tuple[int, bytes]", event)
                    yield Fired._make((*start, self._names[schema_id], _read_row(row)))

    # Outputs.

    def actions(self) -> Iterator[StoredAction]:
        first = 0
        while batch := self.view.actions(first, _FRAMES_AT_ONCE):
            for issued in batch:
                first = issued.first + issued.count
                frame = Frame.decode(issued.frame)
                names = ("agent", "key", "version", "index", "now")
                columns = [cast(list[object], frame.values(name)) for name in names]
                rows = zip(zip(*columns, strict=True), self._payload(frame), strict=True)
                for start, (name, values) in rows:
                    yield StoredAction._make((*start, name, values))

    def undelivered(self, marks: list[dict[str, int]]) -> Iterator[StoredMessage]:
        """Messages that are committed here and not appended to their inbox yet."""
        incarnation = self.view.incarnation()
        for destination, first, _, encoded in self.view.outbox():
            if first > marks[destination].get(incarnation, 0):
                frame = Frame.decode(encoded)
                names = ("agent", "key", "from_key", "from_agent")
                columns = [cast(list[str], frame.values(name)) for name in names]
                rows = zip(zip(*columns, strict=True), self._payload(frame), strict=True)
                for (agent, key, sender, sender_agent), (_, values) in rows:
                    yield StoredMessage(agent, key, values, sender, sender_agent)

    def messages_sent(self) -> int:
        return sum(following - 1 for following in self.view.sent_next().values())

    def dead_letters(self) -> list[str]:
        letters = [letter for letter, redriven in self.view.letters() if not redriven]
        return [f"{letter.agent}/{letter.key}: {letter.error}" for letter in letters]

    # States.

    def states(self) -> Iterator[StoredState]:
        return map(self._state, self.view.records())

    def _state(self, record: Record) -> StoredState:
        fields = [each.name for each in self._schemas[record.schema].fields]
        values = dict(zip(fields, _read_row(record.state), strict=True))
        paused, held, timers, *_ = _read_row(record.extras) if record.extras else ("", (), ())
        armed = {
            name: (due, self._names[schema_id], tuple(row))
            for name, due, _, schema_id, row in timers
        }
        return StoredState(
            record.agent, record.key, record.version, values, armed, paused, len(held)
        )
