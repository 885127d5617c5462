"""Between the rows of a table and the objects that the interpreter works with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, cast

import msgspec
import numpy as np

from holdfast.model.agent import Agent
from holdfast.model.compiling.program import Program
from holdfast.model.effects import Timer
from holdfast.model.event import Event
from holdfast.model.layout import Slot
from holdfast.stepping.codebook import Codebook

_pack = msgspec.msgpack.Encoder().encode
_INT_LEAST, _INT_MOST = -(2**63), 2**63 - 1


class DoesNotFit(Exception):
    """A value that only the interpreter can hold."""


def wire_values(slots: Iterable[Slot], record: Any, prefix: str) -> list[object]:
    """The fields of one record, as they stand in a packed row."""
    return [_wire(slot, record, f"{prefix}{slot.name}") for slot in slots]


def _wire(slot: Slot, record: Any, name: str) -> object:
    if slot.kind == "text":
        points = record[name][: record[f"{name}__n"]]
        return points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    if slot.kind == "list":
        items = record[name][: record[f"{name}__n"]].tolist()
        return [_scalar(slot.item, slot, item) for item in items]
    return _scalar(slot.kind, slot, record[name].item())


def _scalar(kind: str, slot: Slot, value: object) -> object:
    if kind == "enum":
        return slot.values[cast(int, value)]
    return bool(value) if kind == "bool" else value


def fill(slots: Iterable[Slot], record: Any, prefix: str, values: Sequence[object]) -> None:
    """Put the fields of an object into one record. DoesNotFit leaves it half-filled."""
    for slot, value in zip(slots, values, strict=True):
        name = f"{prefix}{slot.name}"
        if slot.kind == "text":
            points = np.frombuffer(cast(str, value).encode("utf-32-le", "surrogatepass"), np.uint32)
            record[f"{name}__n"] = len(points)
            record[name][: len(points)] = points
        elif slot.kind == "list":
            items = [word_of(slot.item, slot, item) for item in cast("list[object]", value)]
            record[f"{name}__n"] = len(items)
            record[name][: len(items)] = items
        else:
            record[name] = word_of(slot.kind, slot, value)


def word_of(kind: str, slot: Slot, value: object) -> float | int:
    """A value as one word of a record."""
    if kind == "enum":
        return slot.values.index(value.value if isinstance(value, Enum) else value)
    if kind == "int" and not _INT_LEAST <= cast(int, value) <= _INT_MOST:
        raise DoesNotFit
    return cast(float, value)


def values_of(instance: object) -> list[object]:
    return [getattr(instance, name) for name in type(instance).__struct_fields__]  # type: ignore[attr-defined]


class Codec:
    """One class of agents: its state, and its timers with constant names."""

    def __init__(self, program: Program, codebook: Codebook) -> None:
        self._program = program
        self._codebook = codebook
        self._state = tuple(program.state.values())
        self.timer_numbers = {each.name: number for number, each in enumerate(program.timers)}

    def agent(self, record: Any) -> Agent:
        return cast(Agent, self._object(self._program.agent, self._state, record, "f_"))

    def _object(self, cls: type, slots: Sequence[Slot], record: Any, prefix: str) -> object:
        row = _pack(wire_values(slots, record, prefix))
        return self._codebook.reader_of(self._codebook.id_of(cls)).row(row)

    def put_agent(self, record: Any, agent: Agent) -> None:
        fill(self._state, record, "f_", values_of(agent))

    def timers(self, record: Any) -> dict[str, Timer]:
        """Those that are set."""
        found = {}
        for number, each in enumerate(self._program.timers):
            due = record[f"t{number}_due"].item()
            if due:
                which = int(record[f"t{number}_event"])
                cls = each.classes[which]
                slots = self._program.slots(cls)
                event = cast(Event, self._object(cls, slots, record, f"t{number}_{which}_"))
                found[each.name] = Timer(each.name, due, event, record[f"t{number}_period"].item())
        return found

    def put_timers(self, record: Any, timers: dict[str, Timer]) -> dict[str, Timer]:
        """Into their slots; gives back those that have none."""
        rest = {}
        for number in range(len(self._program.timers)):
            record[f"t{number}_due"] = 0.0
        for name, timer in timers.items():
            if not self._put_timer(record, timer):
                rest[name] = timer
        return rest

    def _put_timer(self, record: Any, timer: Timer) -> bool:
        number = self.timer_numbers.get(timer.name)
        if number is None or timer.due == 0.0:
            return False
        classes = self._program.timers[number].classes
        cls = type(timer.event)
        if cls not in classes:
            return False
        which = classes.index(cls)
        try:
            prefix = f"t{number}_{which}_"
            fill(self._program.slots(cls), record, prefix, values_of(timer.event))
        except DoesNotFit:
            return False
        record[f"t{number}_due"] = timer.due
        record[f"t{number}_period"] = timer.period
        record[f"t{number}_event"] = which
        return True

    def event_of(self, cls: type, slots: Sequence[Slot], record: Any) -> object:
        """An output as the object that the interpreter would have made."""
        return self._object(cls, slots, record, "f_")
