"""The compiled form of an agent class: one module of text, and how its arrays are laid out.

The module has one entry, which folds events from `ctl[0]` on until all are folded or one raises:

    fold(S, undo, images, touched, rows, codes, times, hops, at, batch,
         ctl, clk, keys, offsets, rng, queue, scratch, prefix, E0, E1, …, out0, out1, …)

    S        records of `state_descr()`, one per agent in memory. `flags` with bit 1: the agent is not
             for compiled code (paused, lent …). `timers`: how many it has, of either form
    undo     one such record: the agent of the event at hand as it was before
    images, touched   for each agent that changed first in this batch: as it was, and its row
    rows     i8, per event: the row of its agent in S
    codes    u1, per event (or one for all): the index of its class in `events`
    times    f8, per event (or one for all): ctx.event_time
    hops     i8, per event (or one for all)
    at       i8, per event: where it is in the columns of its class
    batch    the number of this batch; S[i].batch is the last one that changed the agent
    ctl      i8, CONTROLS of them:
             0 the event at hand             1 how many in images and touched
             2 outputs so far: the `order` of the next      3 serials used in this event
             4 hops of this event            5 after Unusual: the number of the output buffer that is
             full, plus 1; -1 for the queue; else 0 (whoever calls sets it back to 0)
             6 not 0: ctx.reply is for the interpreter (an ask, or a message, whose sender answers)
             8 entries in queue              9 and 10 what 2 and 8 were before this event
             11 scratch in use               16 + k records in out k
             48 + k what 16 + k was before this event
    clk      f8: 0 ctx.now, 1 ctx.event_time (set by fold), 2 always 1.0
    keys, offsets     u1 and i8: the key of row i is keys[offsets[i] : offsets[i + 1]]
    rng      u8, 64 of them: work space
    queue    records (row i8, timer i8, due f8): named timers to be looked at then
    scratch  u4: begins with the code points of all `texts`; 2**16 is plenty
    prefix   u1: f"{fleet}\0{agent}\0", where identities begin
    E k      a tuple of the columns of class k: a text or list takes two, lengths and content
    out k    records of `outputs[k].descr()`

`fold` raises Unusual for an event that it cannot complete. Whoever called it puts undo[0] back into
S[rows[ctl[0]]], ctl[9] and ctl[10] into ctl[2] and ctl[8], ctl[48 + k] into ctl[16 + k], lets the
interpreter fold that event, and calls again with ctl[0] + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType

from holdfast.model.compiling.functions import Function
from holdfast.model.compiling.kinds import (
    FLOAT,
    INT,
    NOTHING,
    CannotCompile,
    Kind,
    Part,
    descr,
    parts_of,
)
from holdfast.model.compiling.values import Ctx, Given, Meaning, Self, Value
from holdfast.model.layout import Slot

BUFFERS = 8  # C[8] and on are the buffers of outputs
COUNTS = 16  # ctl[16] and on are how many records each of them holds
MARKS = 48  # ctl[48] and on are how many they held before this event
CONTROLS = 128

_HEAD = """\
import math

import numpy as np
from numba import njit

from holdfast.stepping.compiled.kernels.runtime import *
"""


@dataclass(frozen=True)
class Output:
    """A buffer of records: `way` is "emit", "send" or "arm"."""

    way: str
    cls: type
    slots: tuple[Slot, ...]

    def descr(self) -> list[tuple[object, ...]]:
        fixed: list[tuple[object, ...]] = [
            ("row", "<i8"), ("version", "<i8"), ("order", "<i8"), ("now", "<f8"),
        ]  # fmt: skip
        if self.way == "send":
            fixed += [("to", "<i8"), ("hops", "<i8"), ("key__n", "<i8"), ("key", "<u1", (128,))]
        if self.way == "arm":
            fixed += [("serial", "<i8"), ("due", "<f8"), ("period", "<f8")]
        return fixed + descr(self.slots, "f_")


@dataclass
class TimerSlots:
    """A timer with a constant name lives in the record of its agent."""

    name: str
    classes: list[type] = field(default_factory=list)


class Program:
    def __init__(self, agent: type, *, final: bool = True) -> None:
        self.agent = agent
        self.final = final
        self.definition = agent.__holdfast__  # type: ignore[attr-defined]
        self._parts: dict[type, tuple[Part, ...]] = {}
        self.parts_of_state = {part.name: part for part in self.parts(agent)}
        self.state = {name: part.slot for name, part in self.parts_of_state.items()}
        self.events: list[type] = list(self.definition.routes)
        self.outputs: list[Output] = []
        self.timers: list[TimerSlots] = []
        self.destinations: list[type] = []
        self.uses_identity = False
        self._texts: dict[str, str] = {}
        self._enums: dict[type[Enum], tuple[str, Kind]] = {}
        self._helpers: dict[object, tuple[str, Kind | None]] = {}
        self._functions: list[list[str]] = []
        self._armings: dict[tuple[str, type], str] = {}
        self.module = self._lower()

    # What functions ask for while they are lowered.

    def parts(self, cls: type) -> tuple[Part, ...]:
        if cls not in self._parts:
            self._parts[cls] = parts_of(cls)
        return self._parts[cls]

    def slots(self, cls: type) -> tuple[Slot, ...]:
        return tuple(part.slot for part in self.parts(cls))

    def text(self, value: str) -> str:
        """A text is where it begins in the scratch memory, and its length; constants go first."""
        first = sum(map(len, self.texts))
        return self._texts.setdefault(value, str(first << 32 | len(value)))

    @property
    def texts(self) -> list[str]:
        return list(self._texts)

    def enum_value(self, value: Value, enum: type[Enum]) -> Value:
        if enum not in self._enums:
            values = [member.value for member in enum]
            if all(type(each) is int and abs(each) < 2**63 for each in values):
                kind = INT
            elif all(type(each) is float for each in values):
                kind = FLOAT
            else:
                raise CannotCompile(f"values of {enum.__name__} are not all int or all float")
            self._enums[enum] = (f"V{len(self._enums)}", kind)
        name, kind = self._enums[enum]
        return Value(f"{name}[{value.code}]", kind)

    def helper(
        self, function: FunctionType, arguments: Sequence[Meaning], line: int
    ) -> tuple[str, Kind]:
        key = (function, tuple(map(repr, arguments)))
        if key not in self._helpers:
            name = f"f{len(self._helpers)}"
            self._helpers[key] = (name, None)
            try:
                lowered = Function(self, function, name, arguments)
                self._functions.append(lowered.lower())
            except CannotCompile as error:
                raise located(error, function) from None
            assert lowered.returns is not None
            self._helpers[key] = (name, lowered.returns)
        name, kind = self._helpers[key]
        if kind is None:
            raise CannotCompile(f"{function.__name__} calls itself: write a loop", line)
        return name, kind

    def output(self, way: str, cls: type) -> str:
        for number, each in enumerate(self.outputs):
            if (each.way, each.cls) == (way, cls):
                return f"{way}_{number}"
        self.outputs.append(Output(way, cls, self.slots(cls)))
        return f"{way}_{len(self.outputs) - 1}"

    def destination(self, agent: type) -> int:
        if agent not in self.destinations:
            self.destinations.append(agent)
        return self.destinations.index(agent)

    def timer(self, name: str | None) -> int:
        for number, each in enumerate(self.timers):
            if each.name == name:
                return number
        assert name is not None
        self.timers.append(TimerSlots(name))
        return len(self.timers) - 1

    def arming(self, name: str, cls: type) -> str:
        number = self.timer(name)
        classes = self.timers[number].classes
        if cls not in classes:
            classes.append(cls)
        return f"timer_{number}_{classes.index(cls)}"

    # The module.

    def _lower(self) -> str:
        routes = [self._route(number, event) for number, event in enumerate(self.events)]
        parts = [_HEAD]
        for enum, (name, _) in self._enums.items():
            parts.append(f"{name} = np.array({[member.value for member in enum]})\n")
        for number, output in enumerate(self.outputs):
            parts.append(_njit(self._writer(number, output)))
        for number, timer in enumerate(self.timers):
            parts.append(_njit(_canceller(number)))
            for which, cls in enumerate(timer.classes):
                parts.append(_njit(self._armer(number, which, cls)))
        parts += [_njit(lines) for lines in self._functions]
        parts += [_njit(lines) for lines in routes]
        parts.append("\n".join(["@njit(nogil=True, cache=True, _nrt=False)", *self._fold()]))
        return "\n\n".join(parts) + "\n"

    def state_descr(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = [
            ("version", "<i8"), ("updated", "<f8"), ("flags", "<i8"), ("batch", "<i8"),
            ("timers", "<i8"),
        ]  # fmt: skip
        found += descr(self.state.values(), "f_")
        for number, timer in enumerate(self.timers):
            found += [
                (f"t{number}_due", "<f8"), (f"t{number}_queued", "<f8"),
                (f"t{number}_period", "<f8"), (f"t{number}_event", "<i8"),
            ]  # fmt: skip
            for which, cls in enumerate(timer.classes):
                found += descr(self.slots(cls), f"t{number}_{which}_")
        return found

    def _writer(self, number: int, output: Output) -> list[str]:
        way = output.way
        names = [f"a{k}" for k in range(len(output.slots))]
        extra = {"emit": [], "send": ["to", "key"], "arm": ["way", "when"]}[way]
        lines = [
            f"def {way}_{number}({', '.join(['S', 'i', 'C', *extra, *names])}):",
            f"    n = C[0][{COUNTS + number}]",
            f"    if n >= len(C[{BUFFERS + number}]):",
            f"        C[0][5] = {number + 1}",
            "        raise Unusual",
            f"    r = C[{BUFFERS + number}][n]",
            "    r.row = i",
            "    r.version = S[i].version",
            "    r.order = C[0][2]",
            "    r.now = C[1][0]",
        ]
        if way == "send":
            lines += [
                "    if C[0][4] >= 64:",
                "        raise Unusual",
                "    r.hops = C[0][4] + 1",
                "    r.to = to",
                "    r.key__n = put_key(r.key, C, key)",
            ]
        if way == "arm":
            lines += [
                "    if S[i].timers >= 256:",
                "        raise Unusual",
                "    S[i].timers += 1",
                "    C[0][3] += 1",
                "    r.serial = C[0][3]",
                "    r.due = due_at(C[1][0], way, when)",
                "    r.period = when if way == 2 else 0.0",
            ]
        lines += self._copies("r", "f_", output.slots)
        lines += ["    C[0][2] += 1", f"    C[0][{COUNTS + number}] = n + 1"]
        return lines

    def _copies(self, record: str, prefix: str, slots: Sequence[Slot]) -> list[str]:
        lines = []
        for k, slot in enumerate(slots):
            name = f"{record}.{prefix}{slot.name}"
            if slot.kind == "text":
                lines.append(f"    {name}__n = put_text({name}, {slot.most}, C, a{k})")
            elif slot.kind == "list":
                lines.append(f"    {name}__n = put_list({name}, {slot.most}, a{k}, len(a{k}))")
            else:
                lines.append(f"    {name} = a{k}")
        return lines

    def _armer(self, number: int, which: int, cls: type) -> list[str]:
        slots = self.slots(cls)
        names = [f"a{k}" for k in range(len(slots))]
        t = f"S[i].t{number}"
        return [
            f"def timer_{number}_{which}({', '.join(['S', 'i', 'C', 'way', 'when', *names])}):",
            "    due = due_at(C[1][0], way, when)",
            f"    if {t}_due == 0.0:",
            "        if S[i].timers >= 256:",
            "            raise Unusual",
            "        S[i].timers += 1",
            f"    {t}_due = due",
            f"    {t}_period = when if way == 2 else 0.0",
            f"    {t}_event = {which}",
            *self._copies("S[i]", f"t{number}_{which}_", slots),
            f"    if {t}_queued == 0.0 or {t}_queued > due:",
            "        n = C[0][8]",
            "        if n >= len(C[5]):",
            "            C[0][5] = -1",
            "            raise Unusual",
            "        C[5][n].row = i",
            f"        C[5][n].timer = {number}",
            "        C[5][n].due = due",
            "        C[0][8] = n + 1",
            f"        {t}_queued = due",
        ]

    def _route(self, number: int, event: type) -> list[str]:
        route = self.definition.routes[event]
        lines = [f"def route_{number}(S, i, E, j, C):"]
        modes = dict.fromkeys(mode for each in route.handlers for mode in each.modes)
        anyhow = [each for each in route.handlers if not each.modes]
        for mode in modes:
            ordinal = list(type(mode)).index(mode)
            lines.append(f"    if S[i].f_{self.definition.mode_field} == {ordinal}:")
            own = [each for each in route.handlers if mode in each.modes]
            lines += self._candidates([*own, *anyhow], event, "        ")
            lines.append("        return False")
        lines += self._candidates(anyhow, event, "    ")
        return [*lines, "    return False"]

    def _candidates(self, handlers: Sequence[object], event: type, indent: str) -> list[str]:
        lines = []
        for each in handlers:
            given = [Self(self.agent), Given(event), Ctx()]
            place = each.place.line  # type: ignore[attr-defined]
            name, kind = self.helper(each.function, given, place)  # type: ignore[attr-defined]
            if kind != NOTHING:
                raise CannotCompile(f"a handler returns nothing, this one {kind}", place)
            inner = indent
            if each.when is not None:  # type: ignore[attr-defined]
                guard, kind = self.helper(each.when, given[:2], place)  # type: ignore[attr-defined]
                lines.append(f"{indent}if {guard}(S, i, E, j, C):")
                inner = indent + "    "
            lines += [
                f"{inner}S[i].version += 1",
                f"{inner}{name}(S, i, E, j, C)",
                f"{inner}return True",
            ]
        return lines

    def _fold(self) -> list[str]:
        buffers = [f"out{k}" for k in range(len(self.outputs))]
        events = [f"E{k}" for k in range(len(self.events))]
        fixed = ["S", "undo", "images", "touched", "rows", "codes", "times", "hops", "at", "batch"]
        shared = ["ctl", "clk", "keys", "offsets", "rng", "queue", "scratch", "prefix"]
        lines = [
            f"def fold({', '.join([*fixed, *shared, *events, *buffers])}):",
            f"    C = ({', '.join([*shared, *buffers])},)",
            "    for j in range(ctl[0], len(rows)):",
            "        i = rows[j]",
            "        ctl[0] = j",
            "        undo[0] = S[i]",
            "        ctl[9] = ctl[2]",
            "        ctl[10] = ctl[8]",
        ]
        for k in range(len(self.outputs)):
            lines.append(f"        ctl[{MARKS + k}] = ctl[{COUNTS + k}]")
        lines += [
            "        if S[i].flags & 1:",
            "            raise Unusual",
            "        ctl[3] = 0",
            f"        ctl[11] = {sum(map(len, self.texts))}",
            "        rng[1] = 0",
            "        clk[1] = times[j] if len(times) > 1 else times[0]",
            "        ctl[4] = hops[j] if len(hops) > 1 else hops[0]",
            "        code = codes[j] if len(codes) > 1 else codes[0]",
            "        k = at[j]",
            "        taken = False",
        ]
        for number in range(len(self.events)):
            word = "if" if number == 0 else "elif"
            lines.append(f"        {word} code == {number}:")
            lines.append(f"            taken = route_{number}(S, i, E{number}, k, C)")
        if self.definition.unhandled != "ignore":
            lines += ["        if not taken:", "            raise Unusual"]
        lines += [
            "        if taken and S[i].batch != batch:",
            "            images[ctl[1]] = undo[0]",
            "            touched[ctl[1]] = i",
            "            ctl[1] += 1",
            "            S[i].batch = batch",
            "    ctl[0] = len(rows)",
        ]
        return lines


def _njit(lines: Sequence[str]) -> str:
    return "\n".join(["@njit(_nrt=False)", *lines])


def _canceller(number: int) -> list[str]:
    return [
        f"def cancel_{number}(S, i):",
        f"    if S[i].t{number}_due == 0.0:",
        "        return False",
        f"    S[i].t{number}_due = 0.0",
        "    S[i].timers -= 1",
        "    return True",
    ]


def located(error: CannotCompile, function: FunctionType) -> CannotCompile:
    if not getattr(error, "file", ""):
        error.file = function.__code__.co_filename  # type: ignore[attr-defined]
    return error
