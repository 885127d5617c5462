"""Cells: agents in the memory of their worker, each beside its last committed image."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple, cast

import msgspec

from holdfast.errors import DamagedData, UsageError
from holdfast.model.agent import Agent
from holdfast.model.effects import OpenCall, Sender, Timer
from holdfast.model.event import Event
from holdfast.model.fates import SETTLING
from holdfast.model.handlers import Route
from holdfast.stepping.codebook import Codebook, first_misfit, type_error
from holdfast.stepping.commit import Record

HELD_PER_AGENT_MAX = 10_000
STATE_BYTES_MAX = 16 * 1024 * 1024

_pack = msgspec.msgpack.Encoder().encode
_unpack_each = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Held(NamedTuple):
    """An input an agent keeps for later: deferred by its mode, or waiting while it is paused."""

    event: Event
    position: int
    event_time: float
    sender: Sender | None
    hops: int
    ask: int
    trace: str = ""  # its context


@dataclass(slots=True)
class Extras:
    """What an agent has beside its state; most have none of it."""

    paused: str = ""
    held: list[Held] = field(default_factory=list)
    timers: dict[str, Timer] = field(default_factory=dict)
    calls: dict[str, OpenCall] = field(default_factory=dict)  # open ones, by id

    def __bool__(self) -> bool:
        return bool(self.paused or self.held or self.timers or self.calls)

    def copy(self) -> Extras:
        return Extras(self.paused, list(self.held), dict(self.timers), dict(self.calls))

    @classmethod
    def unpack(cls, data: bytes, codebook: Codebook) -> Extras:
        if not data:
            return cls()
        packed = unpack_extras(data)
        extras = cls(packed.paused)
        for schema, row, position, event_time, by, hops, ask, trace in packed.held:
            event = cast(Event, codebook.reader_of(schema).row(bytes(row)))
            sender = by and Sender(*by)
            extras.held.append(Held(event, position, event_time, sender, hops, ask, trace))
        for name, due, period, schema, row in packed.timers:
            event = cast(Event, codebook.reader_of(schema).row(bytes(row)))
            extras.timers[name] = Timer(name, due, event, period)
        for id, *call in packed.calls:
            extras.calls[id] = OpenCall(*call)
        return extras


class HeldRow(NamedTuple):
    schema: int
    row: msgspec.Raw
    position: int
    event_time: float
    sender: tuple[str, str] | None
    hops: int
    ask: int
    trace: str = ""  # left out where there is none


_TimerRow = tuple[str, float, float, int, msgspec.Raw]


class PackedExtras(msgspec.Struct, array_like=True):
    """Extras as stored, readable without the user's classes."""

    paused: str
    held: list[HeldRow]
    timers: list[_TimerRow]
    calls: list[tuple[str, str, str, str]] = []  # left out where there are none


unpack_extras = msgspec.msgpack.Decoder(PackedExtras).decode


def pack_extras(all_extras: Sequence[Extras | None], codebook: Codebook) -> list[bytes]:
    """What is stored of each; all at once, which takes half of the time."""
    there = list(map(bool, all_extras))
    some = cast("list[Extras]", list(compress(all_extras, there)))
    events: list[Event] = []
    for extras in some:
        events += [each.event for each in extras.held]
        events += [each.event for each in _in_order(extras.timers)]
    schemas = map(codebook.id_of, map(type, events))
    follow = zip(schemas, _unpack_each(_pack(events)), strict=True).__next__
    rows = []
    for extras in some:
        held = [_held(*follow(), *each[1:]) for each in extras.held] if extras.held else ()
        timers = [
            (name, due, period, *follow()) for name, due, _, period in _in_order(extras.timers)
        ]
        calls = [(id, *call) for id, call in extras.calls.items()] if extras.calls else ()
        rows.append(_row(extras.paused, held, timers, calls))
    packed = map(bytes, _unpack_each(_pack(rows)))
    return [next(packed) if each else b"" for each in there]


def _held(*row: object) -> tuple[object, ...]:
    return row if row[-1] else row[:-1]


def _in_order(timers: dict[str, Timer]) -> Collection[Timer]:
    """By name. Of a class in a table some have slots, so when they were set is not known there."""
    return sorted(timers.values()) if len(timers) > 1 else timers.values()


def _row(
    paused: str, held: Sequence[object], timers: Sequence[object], calls: Sequence[object]
) -> list[object]:
    return [paused, held, timers, calls] if calls else [paused, held, timers]


def without_asks(extras: bytes) -> bytes:
    """The same for another partition: whoever asked looks for the answer in this one."""
    if not extras:
        return extras
    packed = unpack_extras(extras)
    held = [_held(*row._replace(ask=-1)) for row in packed.held]
    return _pack(_row(packed.paused, held, packed.timers, packed.calls))


class Kind:
    """One class of agents and its cells. Paused agents stand apart, so the fast path skips them."""

    compiled = False

    def __init__(self, cls: type[Agent], codebook: Codebook) -> None:
        self.cls = cls
        self.definition = cls.__holdfast__
        self.name = self.definition.name
        self.routes: dict[type[Event], Route] = self.definition.routes
        self.defers = self.definition.unhandled == "defer"
        self.expire_after = self.definition.expire_after
        # The fast fold checks states once per batch; a kernel, and so its interpreter, per event.
        exact = self.definition.compiled
        self.simple = not (self.defers or exact) and self.expire_after is None
        self.awaits = not self.routes.keys().isdisjoint(SETTLING)
        self.codebook = codebook
        self.schema = codebook.id_of(cls)
        self.cells: dict[str, Cell] = {}
        self.paused: dict[str, Cell] = {}

    def find(self, key: str) -> Cell | None:
        return self.cells.get(key) or self.paused.get(key)

    def known_keys(self) -> Iterator[str]:
        """Of all agents."""
        return chain(self.cells, self.paused)

    def record(self, key: str) -> Record | None:
        """An agent as committed."""
        cell = self.find(key)
        return None if cell is None else cell.saved

    def records(self) -> Iterator[Record]:
        for cells in (self.cells, self.paused):
            yield from (cell.saved for cell in cells.values() if cell.saved is not None)

    def touch(self, cell: Cell, batch: int, touched: list[Cell]) -> None:
        """It has changed: the commit of this batch stores it."""
        if cell.batch != batch:
            cell.batch = batch
            touched.append(cell)

    def place(self, cell: Cell) -> None:
        """Put a cell where it belongs now; one that was never committed and is new, nowhere."""
        for where in (self.cells, self.paused):
            if where.get(cell.key) is cell:
                del where[cell.key]
        if cell.saved is None and cell.batch < 0:
            return
        paused = cell.extras is not None and bool(cell.extras.paused)
        (self.paused if paused else self.cells)[cell.key] = cell


class Cell:
    __slots__ = (
        "agent",
        "agent_name",
        "batch",
        "extras",
        "key",
        "kind",
        "row",
        "saved",
        "updated",
        "version",
    )

    def __init__(self, kind: Kind, key: str, saved: Record | None, born_version: int = 0) -> None:
        self.kind = kind
        self.agent_name = kind.name
        self.key = key
        self.saved = saved
        self.row = -1  # of a compiled agent: where it stands in its table
        self.batch = -1
        self.agent: Agent | None = None  # decoded when it is first needed
        self.restore(born_version)

    def restore(self, born_version: int = 0) -> None:
        """Back to what is committed. The state itself is decoded when it is next needed."""
        saved = self.saved
        self.agent = None
        if saved is None:
            self.version = born_version
            self.updated = 0.0
            self.extras: Extras | None = None
        else:
            self.version = saved.version
            self.updated = saved.updated
            self.extras = Extras.unpack(saved.extras, self.kind.codebook) if saved.extras else None

    def wake(self) -> Agent:
        """The agent itself, from its committed bytes or new with its defaults."""
        if self.agent is None:
            saved = self.saved
            if saved is None:
                self.agent = self.kind.cls()
            else:
                reader = self.kind.codebook.reader_of(saved.schema)
                self.agent = cast(Agent, reader.row(saved.state))
        return self.agent

    @property
    def known(self) -> bool:
        """Whether it is an agent: one that is stored, or will be with this commit."""
        return self.saved is not None or self.batch >= 0 or self.row >= 0

    def timers(self) -> dict[str, Timer]:
        if self.extras is None:
            self.extras = Extras()
        return self.extras.timers

    def calls(self) -> dict[str, OpenCall]:
        return self.beside().calls

    def beside(self) -> Extras:
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def image(self) -> tuple[bytes, int, float, Extras | None]:
        """Enough to undo one event."""
        extras = self.extras.copy() if self.extras is not None else None
        return _pack(self.wake()), self.version, self.updated, extras

    def revert(self, image: tuple[bytes, int, float, Extras | None]) -> None:
        state, self.version, self.updated, self.extras = image
        self.agent = cast(Agent, self.kind.codebook.reader_of(self.kind.schema).row(state))

    def packed(self) -> bytes:
        """The state as it will be stored; reading it back checks the types of its fields."""
        agent, kind = self.wake(), self.kind
        try:
            state = _pack(agent)
            kind.codebook.reader_of(kind.schema).row(state)
        except (*type_error, DamagedData) as error:
            misfit = first_misfit([agent], kind.cls, error)
            raise UsageError(f"{kind.name}: {misfit}") from None
        if len(state) > STATE_BYTES_MAX:
            raise UsageError(
                f"the state of {self.agent_name}/{self.key} has grown to {len(state):,} bytes, the "
                f"bound is {STATE_BYTES_MAX:,}: keep large data elsewhere and hold a reference"
            )
        return state
