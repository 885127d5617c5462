"""A send in columns: one batch of events of one class, from arrays to a frame per partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.admission import Picked
from holdfast.errors import UsageError
from holdfast.model.event import Event
from holdfast.model.keys import Layout, shortened
from holdfast.model.layout import Slot
from holdfast.runtime.columns import arrays_from, has_rows, layout_of, times_from
from holdfast.runtime.prepared import Keys
from holdfast.stepping.codebook import EVENT_BYTES_MAX
from holdfast.stepping.columns import (
    field_columns,
    names_column,
    payload_columns,
    rising_column,
)
from holdfast.stepping.frame import Column, Frame, const, sequence
from holdfast.stepping.lane import is_urgent, urgent_columns
from holdfast.stepping.rows import read_raw_payload
from holdfast.stepping.splitting import split, take

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays

_TIME = (Slot("event_time", "float"),)


class Target(NamedTuple):
    """For whom the events are, and what they look like."""

    agent: str
    event: type[Event]
    schema_id: int
    slots: tuple[Slot, ...]
    may_be_large: bool  # an event of it may exceed the bound


class Memory:
    """What a batch is recognised by: the objects that were given, and what was in them then."""

    def __init__(self, objects: tuple[object, ...], digest: bytes) -> None:
        self.objects = objects
        self.digest = digest


class ColumnBatch:
    def __init__(
        self, target: Target, keys: Keys, columns: Mapping[str, object], event_time: object
    ) -> None:
        self._target = target
        self._keys = keys
        self._arrays = arrays_from(target.event, target.slots, columns, len(keys))
        self._times = times_from(event_time, len(keys))
        # Prepared keys may be indexed anew for every send; without columns only they are left.
        self._objects = tuple(each for each in columns.values() if has_rows(each)) or (keys,)

    def __len__(self) -> int:
        return len(self._keys)

    # Being sent again.

    def keep(self) -> None:
        """It may have to be recognised: by what is in it now, not by what an array that was given
        holds once the send has failed."""
        self._arrays = [_copied(array) for array in self._arrays]
        if self._times is not None and self._times.strides != (0,):
            self._times = self._times.copy()

    def memory(self) -> object:
        return Memory(self._objects, self._digest)

    def is_remembered(self, memory: object) -> bool:
        """The same arrays with the same content: a producer may fill its arrays anew."""
        return (
            isinstance(memory, Memory)
            and len(memory.objects) == len(self._objects)
            and all(a is b for a, b in zip(memory.objects, self._objects, strict=True))
            and memory.digest == self._digest
        )

    @cached_property
    def _digest(self) -> bytes:
        target = self._target
        digest = hashlib.blake2b(f"{target.agent} {target.schema_id}".encode())
        digest.update(self._keys.table.digest)
        digest.update(self._keys.codes.tobytes())
        for array in (*self._arrays, self._times):
            for part in array if isinstance(array, tuple) else (array,):
                digest.update(b"" if part is None else part.tobytes())
        return digest.digest()

    # Frames.

    def frames(
        self, layout: Layout, source: str, first: int
    ) -> Iterator[tuple[int, Frame, range | Picked]]:
        """(partition, frame, sequence numbers) for every partition that gets any rows."""
        import numpy

        codes, table = self._keys.codes, self._keys.table
        for place, rows in split(codes, table.routes(layout), len(layout.partitions)):
            number = layout.first + place
            if rows is None:
                seqs = range(first, first + len(codes))
                frame = self._frame(codes, self._arrays, self._times, source, sequence(first))
                yield number, frame, seqs
                continue
            arrays = [take(array, rows) for array in self._arrays]
            times = None if self._times is None else take(self._times, rows)
            frame = self._frame(codes[rows], arrays, times, source, rising_column(first, rows))
            flags = numpy.zeros(len(codes), "u1")
            flags[rows] = 1
            yield number, frame, Picked(first, flags.tobytes())

    def _frame(
        self,
        codes: Array,
        arrays: Sequence[Arrays],
        times: Arrays | None,
        source: str,
        seq: Column,
    ) -> Frame:
        target = self._target
        columns = {
            "origin": const("external"),
            "agent": const(target.agent),
            "key": names_column(self._keys.table.names, codes),
            "source": const(source),
            "seq": seq,
            "schema": const(target.schema_id),
            **payload_columns(target.schema_id, target.slots, arrays),
            **urgent_columns([is_urgent(target.event)]),
        }
        if times is not None:
            columns |= field_columns("", _TIME, [times])
        frame = Frame(len(codes), columns)
        if target.may_be_large:
            _check_sizes(frame, target.event.__name__)
        return frame


def _copied(array: Arrays) -> Arrays:
    """What was no array of numbers is a copy already, and one value for all rows is nobody's."""
    return array if isinstance(array, tuple) or array.strides == (0,) else array.copy()


def target_of(agent: str, event: type[Event], schema_id: int) -> Target:
    slots = layout_of(event)
    total = 0
    for slot in slots:  # a number takes up to 9 bytes in msgpack, a character up to 4
        member = max((len(str(value).encode()) for value in slot.values), default=0)
        each = 4 if slot.kind == "text" else 9 + member
        total += 9 + each * max(1, slot.most)
    return Target(agent, event, schema_id, slots, total > EVENT_BYTES_MAX)


def _check_sizes(frame: Frame, event: str) -> None:
    size = max(len(row) for _, row in read_raw_payload(frame))
    if size > EVENT_BYTES_MAX:
        raise UsageError(
            f"{event} of {size:,} bytes exceeds the bound of {EVENT_BYTES_MAX:,}: "
            "store large data elsewhere and send a reference"
        )


def check_keys(keys: object, agent: type[object]) -> None:
    name = agent.__name__
    if not isinstance(keys, Keys):
        raise UsageError(
            f"{shortened(keys)} are no prepared keys: keys = live.keys({name}, names), once"
        )
    if keys.agent is not agent:
        raise UsageError(
            f"the keys were prepared for {keys.agent.__name__}: prepare some for {name}"
        )
