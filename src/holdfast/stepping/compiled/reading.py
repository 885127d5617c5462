"""The events of a frame as the kernel takes them: columns, and for each event its agent's row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from holdfast.errors import DamagedData
from holdfast.model.event import Event
from holdfast.model.layout import NoLayout, Slot
from holdfast.stepping.arrays import arrays_of
from holdfast.stepping.columns import columns_of, key_codes, schema_codes
from holdfast.stepping.fields import name_width
from holdfast.stepping.frame import Column, Frame

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays
    from holdfast.stepping.compiled.kind import CompiledKind
    from holdfast.stepping.inputs import Inputs

_UNKNOWN = 255  # the code of a class that no handler takes
_NO_HOPS = np.zeros(1, np.int64)
_pack = msgspec.msgpack.Encoder().encode
_unpack_rows = msgspec.msgpack.Decoder(list[list[object]]).decode


class Events(NamedTuple):
    rows: Array  # of the table, one per event
    codes: Array  # the class of each; one for all where it is the same
    at: Array  # where each is in the columns of its class
    times: Array
    hops: Array
    columns: list[tuple[Array, ...]]  # of each class that the agent takes


class Reader:
    """Reads frames for one class of agents."""

    def __init__(self, kind: CompiledKind) -> None:
        self._kind = kind
        self._codebook = kind.codebook
        self._classes = kind.program.events
        self._code_by_schema: dict[int, int] = {}
        self._nothing = [self._flat(arrays_of(s, [()] * len(s))) for s in self._all_slots()]
        self._counting = np.arange(4096)

    def _all_slots(self) -> list[tuple[Slot, ...]]:
        return [self._kind.program.slots(cls) for cls in self._classes]

    def read(self, inputs: Inputs) -> Events:
        """NoLayout where a value has no place in a column: then the interpreter folds the frame."""
        frame = inputs.frame
        if frame is None:
            raise NoLayout("rows that never were a frame")
        schemas, schema_code = schema_codes(frame)
        first, last = inputs.start, inputs.start + len(inputs)
        part = slice(first, last)
        rows = self._rows_of(frame)[part]
        columns = list(self._nothing)
        numbers = [self._code_of(schema) for schema in schemas]
        for schema, number in zip(schemas, numbers, strict=True):
            if number != _UNKNOWN:
                alone = numbers.count(number) == 1
                columns[number] = self._columns(inputs, frame, schema, number, alone)
        if schema_code is None:
            codes, at = np.array(numbers, np.uint8), self._count_to(last)[part]
        else:
            codes = np.array(numbers, np.uint8)[schema_code]
            at = np.empty(len(codes), np.int64)
            for number in set(numbers):
                own = codes == number
                at[own] = np.arange(np.count_nonzero(own))
            codes, at = codes[part], at[part]
        return Events(rows, codes, at, *self._circumstances(inputs, frame), columns)

    def _rows_of(self, frame: Frame) -> Array:
        """The row of every event's agent."""
        column = frame.column("key")
        if column.kind == "names":
            names, bounds, codes = names_in(column, frame.count)
            return self._kind.table.place(names, bounds)[codes]
        table, codes = key_codes(frame)
        return self._kind.table.place_names(table)[codes]

    def _circumstances(self, inputs: Inputs, frame: Frame) -> tuple[Array, Array]:
        """When each event is said to have happened, and how many hops it has made."""
        part = slice(inputs.start, inputs.start + len(inputs))
        times, hops = np.array([inputs.stamp]), _NO_HOPS
        if "event_time" in frame:
            times = _numbers(frame, "event_time", "f64", np.float64)[part]
        if "hops" in frame:
            hops = _numbers(frame, "hops", "i64", np.int64)[part]
        return times, hops

    def _code_of(self, schema: int) -> int:
        if schema not in self._code_by_schema:
            name = self._codebook.schema_of(schema).name
            names = [cls.__name__ for cls in self._classes]
            if any(name == cls.__name__ for cls in self._kind.routes if cls not in self._classes):
                raise NoLayout(f"{name} is for the interpreter")
            self._code_by_schema[schema] = names.index(name) if name in names else _UNKNOWN
        return self._code_by_schema[schema]

    def _columns(
        self, inputs: Inputs, frame: Frame, schema: int, number: int, alone: bool
    ) -> tuple[Array, ...]:
        cls, slots = self._classes[number], self._kind.program.slots(self._classes[number])
        if alone and schema == self._codebook.id_of(cls):
            return self._flat(columns_of(frame, schema, slots))
        # An earlier form of the class, alone or beside the present one: what it has become is known
        # to the classes alone.
        return self._flat(_from_objects(slots, [e for e in inputs.all_events if type(e) is cls]))

    @staticmethod
    def _flat(arrays: Sequence[Arrays]) -> tuple[Array, ...]:
        found: list[Array] = []
        for each in arrays:
            found += each if isinstance(each, tuple) else (each,)
        return tuple(found)

    def _count_to(self, number: int) -> Array:
        if number > len(self._counting):
            self._counting = np.arange(2 * number)
        return self._counting


def _from_objects(slots: Sequence[Slot], events: Sequence[Event]) -> list[Arrays]:
    rows = _unpack_rows(_pack(events))
    columns: list[Sequence[object]] = list(zip(*rows, strict=True))
    return arrays_of(slots, columns or [()] * len(slots))


def _numbers(frame: Frame, name: str, kind: str, dtype: type) -> Array:
    column = frame.column(name)
    if column.kind == kind:
        found: Array = np.frombuffer(column.data, dtype)
        if len(found) != frame.count:
            raise DamagedData(f"column {name!r} has {len(found)} values for {frame.count} rows")
        return found
    return np.array(frame.values(name), dtype)


def names_in(column: Column, count: int) -> tuple[Array, Array, Array]:
    """Distinct names one behind the other, where each begins and ends, and which each row has."""
    data = np.frombuffer(column.data, np.uint8)
    try:
        known = int(data[:4].view("<u4")[0])
        start = 4 + known
        bounds = np.zeros(known + 1, np.uint32)
        np.cumsum(data[4:start], out=bounds[1:])
        end = start + int(bounds[-1])
        codes = data[end:].view(f"<u{name_width(known)}")
    except (ValueError, IndexError) as error:
        raise DamagedData(f"column 'key' cannot be read: {error}") from error
    if len(codes) != count or end > len(data) or (count and int(codes.max()) >= known):
        raise DamagedData("column 'key' cannot be read: its codes do not fit its names")
    return data[start:end], bounds, codes


__all__ = ["Events", "NoLayout", "Reader"]
