"""Decoding: what frames and rows of the evidence say, by the classes of each release.

The product's own readers are not used, but for `RowReader`, which knows old forms of a class.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, cast

import msgspec

from holdfast.errors import DamagedData
from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import RowReader, Schema
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.simulation.arrays import values_in

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode
_HEAD = struct.Struct("<4sBII")  # magic, version, rows, bytes of the directory
_directory = msgspec.msgpack.Decoder(list[tuple[str, str, int]]).decode
_rows = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode

RawEvent = tuple[int, bytes]  # schema id and packed fields
_HeldRow = tuple[int, msgspec.Raw, int, float, tuple[str, str] | None, int, int]
_TimerRow = tuple[str, float, float, int, msgspec.Raw]


class _Extras(msgspec.Struct, array_like=True):
    paused: str
    held: list[_HeldRow]
    timers: list[_TimerRow]
    calls: list[tuple[str, str, str, str]] = []


_extras = msgspec.msgpack.Decoder(_Extras).decode


class Input(NamedTuple):
    """One position of an inbox."""

    position: int
    stamp: float
    origin: str  # external, message, reply or control
    agent: str
    key: str
    raw: RawEvent
    event_time: float
    sender: Sender | None
    hops: int
    asks: bool
    source: str | None
    seq: int
    command: list[object] | None
    answers: tuple[str, str, str] | None  # of a reply: call, function, digest of its arguments

    @property
    def who(self) -> str:
        return f"{self.agent}/{self.key}"


class Fired(NamedTuple):
    """A timer that fired or, without an event, an agent that expired."""

    position: int
    agent: str
    key: str
    name: str
    due: float
    now: float
    raw: RawEvent | None


class StoredAction(NamedTuple):
    agent: str
    key: str
    version: int
    serial: int
    now: float
    raw: RawEvent


class StoredMessage(NamedTuple):
    agent: str
    key: str
    from_agent: str
    from_key: str
    hops: int
    now: float
    raw: RawEvent


class StoredHeld(NamedTuple):
    raw: RawEvent
    position: int
    event_time: float
    sender: tuple[str, str] | None
    hops: int
    ask: int


class StoredTimer(NamedTuple):
    name: str
    due: float
    period: float
    raw: RawEvent


class StoredCall(NamedTuple):
    """A call that waits for its reply, as its agent knows it."""

    id: str
    function: str
    digest: str
    reply: str


class StoredExtras(NamedTuple):
    paused: str
    held: list[StoredHeld]
    timers: list[StoredTimer]
    calls: list[StoredCall]


class Unreadable(Exception):
    """A release folded what its classes cannot know."""


class Release:
    """One release of the user's classes, and how it reads rows."""

    def __init__(self, number: int, model: FleetModel, schemas: dict[int, Schema]) -> None:
        self.number = number
        self.model = model
        self.agents = model.agents
        self._schemas = schemas
        self._ids = {schema.fingerprint: each for each, schema in schemas.items()}
        self._readers: dict[int, RowReader[object]] = {}

    def read(self, raw: RawEvent) -> Event:
        reader = self._readers.get(raw[0])
        if reader is None:
            reader = self._readers[raw[0]] = self._reader(raw[0])
        return cast(Event, reader.row(raw[1]))

    def _reader(self, schema_id: int) -> RowReader[object]:
        stored = self._schemas.get(schema_id)
        if stored is None:
            raise Unreadable(f"schema {schema_id} is in no catalog")
        model = self.model
        classes: dict[str, type] = {**model.agents, **model.events, **model.actions}
        cls = classes.get(stored.name)
        own = None if cls is None else self._ids.get(schema_of(cls).fingerprint)
        if cls is None or own is None or schema_id > own:
            raise Unreadable(f"{stored.name} is newer than release {self.number}")
        return reader_of(cls, stored)


_readers: dict[tuple[type, str], RowReader[object]] = {}  # making one costs more than a run


def reader_of(cls: type, stored: Schema) -> RowReader[object]:
    found = _readers.get((cls, stored.fingerprint))
    if found is None:
        found = _readers[cls, stored.fingerprint] = RowReader(cls, stored)
    return found


def schema_of(cls: type) -> Schema:
    return cast(Schema, cls.__holdfast__.schema)  # type: ignore[attr-defined]


def is_row_of(schemas: dict[int, Schema], raw: RawEvent, value: object) -> bool:
    """Whether a stored row is this very value, class and all."""
    stored = schemas.get(raw[0])
    cls = type(value)
    if stored is None or stored.fingerprint != schema_of(cls).fingerprint:
        return False
    # Unequal bytes may mean the same: a 3 for 3.0, or a set in another order.
    return encode(value) == raw[1] or reader_of(cls, stored).row(raw[1]) == value


class Columns:
    """A frame taken apart, cheaply: a run has hundreds of them."""

    __slots__ = ("_columns", "count")

    def __init__(self, buffer: bytes) -> None:
        magic, version, self.count, length = _HEAD.unpack_from(buffer)
        body, checksum = buffer[:-4], buffer[-4:]
        if (
            magic != b"HFRM"
            or version != 1
            or zlib.crc32(body) != int.from_bytes(checksum, "little")
        ):
            raise DamagedData("a frame of the evidence is damaged")
        end = _HEAD.size + length
        self._columns: dict[str, tuple[str, bytes]] = {}
        for name, kind, size in _directory(body[_HEAD.size : end]):
            self._columns[name] = kind, body[end : end + size]
            end += size

    def values(self, name: str, default: object = None, count: int | None = None) -> list[object]:
        """One value per row, of which there may be fewer than the frame has; `default` for each
        where there is no such column."""
        column = self._columns.get(name)
        if column is None:
            return [default] * self.count
        kind, data = column
        if kind == "rows":
            return cast("list[object]", _decode(data))
        if kind == "const":
            return [_decode(data)] * (self.count if count is None else count)
        if kind == "codes":
            table, coded = _decode(data)
            return [table[code] for code in coded]
        if kind == "sequence":
            first = _decode(data)
            return list(range(first, first + self.count))
        return values_in(kind, data, self.count if count is None else count)

    def only(self, name: str) -> object:
        """The value of a column that is the same in all rows, or None."""
        column = self._columns.get(name)
        return _decode(column[1]) if column is not None and column[0] == "const" else None

    def raws(self) -> list[RawEvent]:
        """Rows of one class stand together; the column `schema` tells their order."""
        ids = cast("list[int]", self.values("schema"))
        each = {i: iter(self._rows(i, ids.count(i))) for i in set(ids)}
        return [(i, next(each[i])) for i in ids]

    def _rows(self, schema: int, count: int) -> list[bytes]:
        """Those of one class: packed one by one, or field by field."""
        packed = self._columns.get(f"rows.{schema}")
        if packed is not None:
            return [bytes(row) for row in _rows(packed[1])]
        names = cast("list[str]", _decode(self._columns[f"cols.{schema}"][1]))
        fields = [self.values(f"cols.{schema}.{name}", count=count) for name in names]
        return [encode(row) for row in (zip(*fields, strict=True) if fields else [()] * count)]

    def table(self, *names: str) -> list[tuple[object, ...]]:
        return list(zip(*map(self.values, names), strict=True))


def inputs_of(stored: StoredFrame) -> list[Input]:
    frame = Columns(stored.frame)
    if frame.count != stored.count:
        raise DamagedData(f"a frame of {frame.count} rows is stored as one of {stored.count}")
    origin = frame.only("origin")
    count = frame.count
    senders: list[object] = [None] * count
    raws: list[RawEvent] = [(0, b"")] * count if origin == "control" else frame.raws()
    answered: list[object] = [None] * count
    if origin == "reply":
        answered = list(frame.table("call", "function", "arguments"))
    if origin == "message":
        senders = [Sender._make(each) for each in frame.table("from_agent", "from_key")]
    columns = zip(
        range(stored.first, stored.first + count),
        [stored.stamp] * count,
        [origin] * count,
        frame.values("agent"),
        frame.values("key"),
        raws,
        frame.values("event_time", stored.stamp),
        senders,
        frame.values("hops", 0),
        [bool(frame.only("asks"))] * count,
        [frame.only("source")] * count,
        frame.values("seq", -1),
        frame.values("command"),
        answered,
        strict=True,
    )
    return [Input._make(row) for row in columns]


def fired_of(commit: Commit) -> list[Fired]:
    if commit.journalled is None:
        return []
    frame = Columns(commit.journalled.frame)
    rows = frame.table("position", "agent", "key", "name", "due", "now", "event")
    return [Fired._make((*row[:6], _raw(row[6]))) for row in rows]


def _raw(pair: object) -> RawEvent | None:
    if pair is None:
        return None
    schema_id, row = cast("tuple[int, bytes]", pair)
    return schema_id, row


def actions_of(commit: Commit) -> list[StoredAction]:
    if commit.issued is None:
        return []
    frame = Columns(commit.issued.frame)
    rows = frame.table("agent", "key", "version", "index", "now")
    return [StoredAction._make((*row, raw)) for row, raw in zip(rows, frame.raws(), strict=True)]


def messages_of(encoded: bytes) -> list[StoredMessage]:
    frame = Columns(encoded)
    rows = frame.table("agent", "key", "from_agent", "from_key", "hops", "event_time")
    return [StoredMessage._make((*row, raw)) for row, raw in zip(rows, frame.raws(), strict=True)]


def extras_of(packed: bytes) -> StoredExtras:
    if not packed:
        return StoredExtras("", [], [], [])
    extras = _extras(packed)
    return StoredExtras(
        extras.paused,
        [StoredHeld((row[0], bytes(row[1])), *row[2:]) for row in extras.held],
        [StoredTimer(*row[:3], (row[3], bytes(row[4]))) for row in extras.timers],
        [StoredCall(*row) for row in extras.calls],
    )
