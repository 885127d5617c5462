"""A bench for kernels without a stepper: one agent, folded by its kernel and by its handlers.

Whatever the kernel completes has to equal what the handlers do, bit for bit; what it gives up is
folded by the handlers for both, as the stepper does it.
"""

from __future__ import annotations

import functools
import struct
from enum import Enum
from typing import Any, cast

import msgspec
import numpy as np

from holdfast import Agent, Event
from holdfast.model.compiling.program import CONTROLS, QUEUE_DESCR, Program
from holdfast.model.context import Context
from holdfast.model.effects import OpenCall, Timer
from holdfast.model.layout import Slot
from holdfast.model.snapshot import snapshot
from holdfast.runtime.compiling import Fold, compiled_fold
from holdfast.stepping.compiled.kernels import Unusual

FLEET, KEY = "tests", "k-1"
NOW, EVENT_TIME = 1000.5, 999.25


class Subject:
    """What the context has to know of an agent."""

    def __init__(self, agent_name: str) -> None:
        self.agent_name = agent_name
        self.key = KEY
        self.version = 0
        self.open_timers: dict[str, Timer] = {}

    def timers(self) -> dict[str, Timer]:
        return self.open_timers

    def calls(self) -> dict[str, OpenCall]:
        return {}


class Interpreted:
    def __init__(self, cls: type[Agent]) -> None:
        self.cls = cls
        self.agent: Any = cls()
        self.subject = Subject(cls.__name__)
        self.outputs: list[object] = []

    def fold(self, event: Event) -> bool:
        """False if the event failed or nobody takes it; then nothing has changed."""
        before = self.packed(), self.subject.version, dict(self.subject.open_timers)
        context = Context(FLEET, frozenset([self.cls.__name__]))
        context._subject = self.subject
        context.now, context.event_time, context._hops = NOW, EVENT_TIME, 3
        try:
            event = snapshot(event)
            handler = self.cls.__holdfast__.routes[type(event)].choose(self.agent, event)
            if handler is None:
                return False
            self.subject.version += 1
            handler(self.agent, event, context)
            self.checked()
            effects = context._effects
            self.outputs += [(e.version, e.now, as_read(e.action)) for e in effects.actions]
            self.outputs += [
                (self.subject.version, s.now, s.agent, s.key, s.hops, as_read(s.event))
                for s in effects.messages
            ]
        except Exception:
            self.agent = msgspec.msgpack.decode(before[0], type=self.cls)
            self.subject.version, self.subject.open_timers = before[1:]
            return False
        return True

    def packed(self) -> bytes:
        return msgspec.msgpack.encode(self.agent)

    def checked(self) -> Any:
        """The agent as it will be read back; raises if a field has a wrong type."""
        for timer in self.subject.open_timers.values():
            as_read(timer.event)
        return msgspec.msgpack.decode(self.packed(), type=self.cls)

    @property
    def timers(self) -> dict[str, object]:
        return {
            name: (timer.due, timer.period, as_read(timer.event))
            for name, timer in self.subject.open_timers.items()
        }


@functools.cache
def kernel_of(cls: type[Agent]) -> tuple[Program, Fold]:
    program = Program(cls, agents=[cls.__name__])
    return program, compiled_fold(program)


class Compiled:
    def __init__(self, cls: type[Agent], like: Interpreted) -> None:
        self.program, self.fold_kernel = kernel_of(cast("Any", cls))
        program = self.program
        self.S = np.zeros(1, np.dtype(cast("Any", program.state_descr())))
        self.outs = [np.zeros(64, np.dtype(cast("Any", each.descr()))) for each in program.outputs]
        self.ctl = np.zeros(CONTROLS, np.int64)
        self.outputs: list[object] = []
        self.unnamed: dict[str, object] = {}
        self.load(like)

    def load(self, like: Interpreted) -> None:
        row = self.S[0]
        row["version"] = like.subject.version
        row["timers"] = len(like.subject.open_timers)
        for slot in self.program.state.values():
            put(row, f"f_{slot.name}", slot, getattr(like.agent, slot.name))
        self.unnamed = {n: t for n, t in like.timers.items() if n.startswith("~")}
        for number, timer in enumerate(self.program.timers):
            found = like.subject.open_timers.get(timer.name)
            row[f"t{number}_due"] = found.due if found else 0.0
            if found:
                which = timer.classes.index(type(found.event))
                row[f"t{number}_period"], row[f"t{number}_event"] = found.period, which
                for slot in self.program.slots(type(found.event)):
                    value = getattr(found.event, slot.name)
                    put(row, f"t{number}_{which}_{slot.name}", slot, value)

    def fold(self, event: Event) -> bool:
        """False if the kernel gave the event up; then nothing has changed."""
        program = self.program
        code = program.events.index(type(event))
        columns = [
            column_set(program.slots(each), event if at == code else None)
            for at, each in enumerate(program.events)
        ]
        self.ctl[:] = 0
        undo, images = self.S.copy(), self.S.copy()
        scratch = np.zeros(4096, np.uint32)
        texts = "".join(program.texts)
        scratch[: len(texts)] = [ord(letter) for letter in texts]
        prefix = f"{FLEET}\0{program.agent.__name__}\0".encode()
        one = np.zeros(1, np.int64)
        try:
            self.fold_kernel(
                self.S, undo, images, np.zeros(1, np.int64), one, np.array([code], np.uint8),
                np.array([EVENT_TIME]), np.array([3]), one, 1,
                np.zeros(0, np.int64), self.ctl,
                np.array([NOW, 0.0, 1.0]), np.frombuffer(KEY.encode(), np.uint8),
                np.array([0, len(KEY)]), np.zeros(64, np.uint64),
                np.zeros(8, np.dtype(QUEUE_DESCR)), scratch, np.frombuffer(prefix, np.uint8),
                *columns, *self.outs,
            )  # fmt: skip
        except Unusual:
            assert self.ctl[5] == 0, "a buffer was too small for the test"
            self.S[0] = undo[0]
            return False
        self.S[0]["batch"] = 0
        assert self.ctl[0] == 1
        self.collect()
        return True

    def collect(self) -> None:
        """Outputs in the order they were made: actions first, as the interpreter has them."""
        found: dict[str, list[tuple[int, object]]] = {"emit": [], "send": [], "arm": []}
        for number, (output, room) in enumerate(zip(self.program.outputs, self.outs, strict=True)):
            for row in room[: self.ctl[16 + number]]:
                made = output.cls(*(take(row, f"f_{s.name}", s, output.cls) for s in output.slots))
                head: tuple[object, ...] = (int(row["version"]), float(row["now"]))
                if output.way == "send":
                    agent = self.program.destinations[row["to"]].__name__
                    key = bytes(row["key"][: row["key__n"]]).decode()
                    head += (agent, key, int(row["hops"]))
                if output.way == "arm":
                    name = f"~{row['version']}.{row['serial']}"
                    self.unnamed[name] = (float(row["due"]), float(row["period"]), made)
                found[output.way].append((int(row["order"]), (*head, made)))
        for way in ("emit", "send"):
            self.outputs += [made for _, made in sorted(found[way], key=lambda each: each[0])]

    @property
    def agent(self) -> Any:
        program = self.program
        slots = program.state.values()
        return program.agent(*(take(self.S[0], f"f_{s.name}", s, program.agent) for s in slots))

    @property
    def timers(self) -> dict[str, object]:
        found: dict[str, object] = dict(self.unnamed)
        row = self.S[0]
        for number, timer in enumerate(self.program.timers):
            if row[f"t{number}_due"] == 0.0:
                continue
            which = int(row[f"t{number}_event"])
            cls, prefix = timer.classes[which], f"t{number}_{which}_"
            event = cls(*(take(row, prefix + s.name, s, cls) for s in self.program.slots(cls)))
            found[timer.name] = (
                float(row[f"t{number}_due"]),
                float(row[f"t{number}_period"]),
                event,
            )
        assert len(found) == row["timers"]
        return found


class Pair:
    """The two side by side."""

    def __init__(self, cls: type[Agent]) -> None:
        self.interpreted = Interpreted(cls)
        self.compiled = Compiled(cls, self.interpreted)
        self.lent = False  # holds a whole number of 64 bits without sign: not for kernels

    def fold(self, event: Event) -> bool:
        """True if the kernel completed it, and then both agree."""
        taken = self.interpreted.fold(event)
        if self.lent or not self.compiled.fold(event):
            self.interpreted.agent = self.interpreted.checked()
            try:
                self.compiled.load(self.interpreted)
                self.lent = False
            except OverflowError:
                self.lent = True
            self.compiled.outputs = list(self.interpreted.outputs)
            return False
        assert taken, f"the kernel completed what Python refuses: {event}"
        assert exact(self.compiled.agent) == exact(self.interpreted.checked()), event
        assert self.compiled.S[0]["version"] == self.interpreted.subject.version
        same(self.compiled.outputs, self.interpreted.outputs)
        same(self.compiled.timers, self.interpreted.timers)
        return True


def same(one: object, other: object) -> None:
    assert exact(one) == exact(other)


def exact(value: object) -> object:
    """A form in which 0.0 and -0.0 differ, 1 and 1.0 too, and NaN is NaN."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack(">d", value)
    if isinstance(value, Enum | str | int | None):
        return type(value), value
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    return type(value), [exact(getattr(value, name)) for name in value.__struct_fields__]  # type: ignore[attr-defined]


def as_read(value: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


# Values in records and columns.

CODES = {"float": np.float64, "text": np.uint32}


def encoded(kind: str, slot: Slot, value: Any) -> Any:
    if kind == "enum":
        return slot.values.index(value.value)
    return [ord(letter) for letter in value] if kind == "text" else value


def put(row: Any, name: str, slot: Slot, value: Any) -> None:
    if slot.kind == "list":
        value = [encoded(slot.item, slot, each) for each in value]
    else:
        value = encoded(slot.kind, slot, value)
    if slot.wide:
        row[f"{name}__n"] = len(value)
        row[name][: len(value)] = value
    else:
        row[name] = value


def column_set(slots: tuple[Slot, ...], event: Event | None) -> tuple[np.ndarray, ...]:
    """Columns with one event. Read-only, as those of a frame are."""
    found = []
    for slot in slots:
        code = CODES.get(slot.item or slot.kind, np.int64)
        room = np.zeros((1, slot.most) if slot.wide else 1, code)
        if event is not None and slot.wide:
            kind = slot.item or slot.kind
            value = getattr(event, slot.name)
            items = (
                [encoded(kind, slot, v) for v in value] if slot.item else encoded(kind, slot, value)
            )
            room[0, : len(items)] = items
            found.append(np.array([len(items)]))
        elif slot.wide:
            found.append(np.zeros(1, np.int64))
        elif event is not None:
            room[0] = encoded(slot.kind, slot, getattr(event, slot.name))
        room.flags.writeable = False
        found.append(room)
    return tuple(found)


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(cls)}


def take(row: Any, name: str, slot: Slot, cls: type) -> Any:
    annotation = annotations_of(cls)[slot.name]

    def one(kind: str, word: Any) -> Any:
        plain = {"float": float, "bool": bool}.get(kind, int)(word)
        return slot.values[int(word)] if kind == "enum" else plain

    if slot.kind == "text":
        return "".join(chr(each) for each in row[name][: row[f"{name}__n"]])
    if slot.kind == "list":
        wire: Any = [one(slot.item, each) for each in row[name][: row[f"{name}__n"]]]
    else:
        wire = one(slot.kind, row[name])
    return msgspec.convert(wire, annotation)
