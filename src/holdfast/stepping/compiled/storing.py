"""Rows of a table as blocks, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from holdfast.errors import DamagedData
from holdfast.model.layout import Slot
from holdfast.stepping.blocks import (
    BUCKETS,
    SLOTS_PER_BUCKET,
    Block,
    TimerColumns,
    make_block,
    records_in,
    timer_frame,
    timers_of,
)
from holdfast.stepping.cell import Cell
from holdfast.stepping.columns import columns_of, payload_columns
from holdfast.stepping.compiled.reading import names_in
from holdfast.stepping.fields import name_width, pack_lengths
from holdfast.stepping.frame import Column, Frame
from holdfast.stepping.record import Record
from holdfast.stepping.records import records_of

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays
    from holdfast.stepping.compiled.kind import CompiledKind
    from holdfast.stepping.compiled.table import Table

_BYTES_AT_ONCE = 384 * 1024  # rows that are still in the cache when their fields are taken out
_BITS = np.uint64(1) << np.arange(BUCKETS, dtype=np.uint64)


def arrays_from(
    slots: Sequence[Slot], records: Array | Mapping[str, Array], prefix: str
) -> list[Arrays]:
    """The fields of records, each as an array of its own."""
    found: list[Arrays] = []
    for slot in slots:
        name = f"{prefix}{slot.name}"
        values = np.ascontiguousarray(records[name])
        if not slot.wide:
            one = _the_one(values)
            found.append(values if one is None else _repeated(one, len(values)))
            continue
        lengths = np.ascontiguousarray(records[f"{name}__n"])
        found.append((lengths, np.ascontiguousarray(values[:, : slot.most])))
    return found


def _the_one(values: Array) -> Array | None:
    """The first, if all are the same, to the bit: a field that hardly an agent uses, a period."""
    bits = values.view(f"u{values.itemsize}")
    same = len(bits) and bits[0] == bits[-1] and (bits == bits[0]).all()
    return values[:1] if same else None


def _repeated(one: Array, count: int) -> Array:
    """What `broadcast_to` gives, for a tenth of the time."""
    return np.ndarray(count, one.dtype, one, strides=(0,))


def _numbers_of(values: Array) -> Array | float:
    """Of every record, or one for all."""
    one = _the_one(values)
    return values if one is None else float(one[0])


def fields_from(
    slots: Sequence[Slot], arrays: Sequence[Arrays], prefix: str
) -> Iterator[tuple[str, Array]]:
    """Arrays under the names that the fields of records have."""
    for slot, array in zip(slots, arrays, strict=True):
        name = f"{prefix}{slot.name}"
        if isinstance(array, tuple):
            yield f"{name}__n", array[0]
            yield name, array[1]
        else:
            yield name, array


def names_of(table: Table, rows: Array, *, distinct: bool = False) -> Column:
    """The keys of rows, which may occur several times unless they are distinct."""
    used, codes = (rows, np.arange(len(rows))) if distinct else np.unique(rows, return_inverse=True)
    names, bounds = table.names_of(used)
    own = codes.astype(f"<u{name_width(len(used))}")
    lengths = np.diff(bounds).astype("u1").tobytes()
    return Column("names", pack_lengths(lengths) + names.tobytes() + own.tobytes())


def block_of(kind: CompiledKind, rows: Array, updated: float | None = None) -> Block:
    """In the order of `rows`: a replay makes the same bytes, wherever its agents stand."""
    fields = _stored_fields(kind, rows, updated)
    program, id_of = kind.program, kind.codebook.id_of
    state = tuple(program.state.values())
    timers = []
    for number, timer in enumerate(program.timers):
        payloads = {}
        for which, cls in enumerate(timer.classes):
            slots = program.slots(cls)
            arrays = arrays_from(slots, fields, f"t{number}_{which}_")
            payloads[id_of(cls)] = payload_columns(id_of(cls), slots, arrays)
        timers.append(
            TimerColumns(
                timer.name,
                [id_of(cls) for cls in timer.classes],
                _numbers_of(fields[f"t{number}_due"]),
                _numbers_of(fields[f"t{number}_period"]),
                fields[f"t{number}_event"].astype(np.uint8) if len(timer.classes) > 1 else None,
                payloads,
            )
        )
    buckets = _BITS.take(kind.table.slots.take(rows) // SLOTS_PER_BUCKET)
    return make_block(
        kind.name,
        kind.schema,
        names_of(kind.table, rows, distinct=True),
        fields["version"],
        _numbers_of(fields["updated"]),
        payload_columns(kind.schema, state, arrays_from(state, fields, "f_")),
        timers,
        buckets=int(np.bitwise_or.reduce(buckets)),
    )


def _stored_fields(kind: CompiledKind, rows: Array, updated: float | None) -> dict[str, Array]:
    """What is stored of rows, each field as an array of its own; `updated` is noted before."""
    table = kind.table.rows
    empty = table[:0]
    unstored = {
        "flags",
        "batch",
        "timers",
        *(f"t{n}_queued" for n in range(len(kind.program.timers))),
    }
    fields = {
        name: np.empty((len(rows), *empty[name].shape[1:]), empty[name].dtype)
        for name in kind.table.dtype.names or ()
        if name not in unstored
    }
    for own in _parts(len(rows), table.itemsize):
        if updated is not None:
            table["updated"][rows[own]] = updated
        records = table.take(rows[own])  # twenty times as fast as an index
        for number, timer in enumerate(kind.program.timers):
            _clear_unset(records, number, len(timer.classes))
        for name, values in fields.items():
            values[own] = records[name]
    return fields


def _parts(count: int, row_bytes: int) -> Iterator[slice]:
    most = max(1, _BYTES_AT_ONCE // row_bytes)
    return (slice(first, min(count, first + most)) for first in range(0, count, most))


def _clear_unset(records: Array, number: int, classes: int) -> None:
    """What is left in a row of a timer that was cancelled or has fired, or of the event that it had
    before one of another class, is not stored."""
    _clear(records, f"t{number}_", records[f"t{number}_due"] == 0.0)
    for which in range(classes if classes > 1 else 0):
        _clear(records, f"t{number}_{which}_", records[f"t{number}_event"] != which)


def _clear(records: Array, prefix: str, where: Array) -> None:
    if where.any():
        for name in records.dtype.names or ():
            if name.startswith(prefix):
                records[name][where] = 0


def committed(kind: CompiledKind, now: float) -> tuple[list[Cell], Block | None]:
    """What has changed: agents that only a Record can hold, and the others."""
    rows = kind.changed_rows
    aside = [row for row in rows.tolist() if row in kind.aside] if kind.aside else []
    if aside:
        kind.table.rows["updated"][aside] = now
        rows = rows[~np.isin(rows, aside)]
    return [kind.lend(row) for row in aside], block_of(kind, rows, now) if len(rows) else None


def images(kind: CompiledKind, buckets: Iterable[int]) -> Iterator[tuple[int, Block | None]]:
    """All that blocks can hold of some buckets, as committed."""
    order, begins = kind.table.by_bucket
    aside = np.fromiter(kind.aside, np.int64, len(kind.aside))
    for bucket in sorted(buckets):
        rows = order[begins[bucket] : begins[bucket + 1]]
        # An agent may be stored and have taken no event: one that was paused, and let go.
        rows = rows[kind.table.rows["updated"][rows] > 0.0]
        if len(aside):
            rows = rows[~np.isin(rows, aside)]
        yield bucket, block_of(kind, rows) if len(rows) else None


def records(kind: CompiledKind, rows: Array) -> list[Record]:
    """Those of these rows that are agents, as committed."""
    kind.settle()
    aside = [kind.lend(row) for row in rows.tolist() if row in kind.aside]
    found = [
        record._replace(updated=cell.updated)
        for cell, record in zip(aside, records_of(aside, 0.0)[0], strict=True)
    ]
    inside = rows[(kind.table.rows["updated"][rows] > 0.0) & ~np.isin(rows, list(kind.aside))]
    return found + (records_in(block_of(kind, inside)) if len(inside) else [])


# Loading: later ones win.


def load(kind: CompiledKind, item: Record | Block) -> None:
    if isinstance(item, Record):
        _load_record(kind, item)
        return
    frame = item.frame
    if item.schema == kind.schema and _same_timers(kind, frame):
        if kind.table.count == 0 and item.buckets.bit_count() == 1:
            # The first of a base: the blocks of the other buckets will be about as large.
            kind.table.expect(item.count * BUCKETS)
        _load_block(kind, frame)
    else:
        for record in records_in(item):
            _load_record(kind, record)


def _same_timers(kind: CompiledKind, frame: Frame) -> bool:
    id_of = kind.codebook.id_of
    own = [(each.name, [id_of(cls) for cls in each.classes]) for each in kind.program.timers]
    return timers_of(frame) == own


def _load_record(kind: CompiledKind, record: Record) -> None:
    row = kind.table.row_for(record.key)
    kind.put_aside(row, None)
    if record.gone:
        kind.table.rows[row] = kind.table.default[0]
        return
    cell = Cell(kind, record.key, record)
    cell.row = row
    kind.take(cell)


def _load_block(kind: CompiledKind, frame: Frame) -> None:
    """As records of their own at first, some at once: so each row of the table is met once."""
    table = kind.table
    fields = _fields_in(kind, frame)
    names, bounds, codes = names_in(frame.column("key"), frame.count)
    found = table.place(names, bounds)[codes]
    for row in kind.aside.keys() & set(found.tolist()) if kind.aside else ():
        kind.put_aside(row, None)
    parts = list(_parts(frame.count, table.default.itemsize))
    blank = np.repeat(table.default, parts[0].stop if parts else 0)
    for own in parts:
        records = blank[: own.stop - own.start]
        for name, values in fields.items():
            if isinstance(values, float):
                records[name] = values
            elif values.ndim == 1:
                records[name] = values[own]
            else:  # a text or list; a record may have more room than that
                records[name][:, : values.shape[1]] = values[own]
        table.put(found[own], records)


def _fields_in(kind: CompiledKind, frame: Frame) -> dict[str, Array | float]:
    state = tuple(kind.program.state.values())
    fields: dict[str, Array | float] = {
        "version": _numbers(frame, "version"),
        "updated": _numbers(frame, "updated"),
        **dict(fields_from(state, columns_of(frame, kind.schema, state), "f_")),
    }
    timers = np.zeros(frame.count, np.int64)
    for number, timer in enumerate(kind.program.timers):
        own = _timer_fields(kind, frame, number, timer.classes)
        timers += np.asarray(own[f"t{number}_due"]) != 0.0
        fields |= own
    return {**fields, "timers": timers}


def _timer_fields(
    kind: CompiledKind, frame: Frame, number: int, classes: Sequence[type]
) -> dict[str, Array | float]:
    id_of = kind.codebook.id_of
    fields: dict[str, Array | float] = {
        f"t{number}_due": _numbers(frame, f"t.{number}.due"),
        f"t{number}_period": _numbers(frame, f"t.{number}.period"),
    }
    if len(classes) > 1:
        order = {id_of(cls): which for which, cls in enumerate(classes)}
        events = frame.values(f"t.{number}.event") or []
        fields[f"t{number}_event"] = np.array([order[cast(int, event)] for event in events])
    for which, cls in enumerate(classes):
        slots = kind.program.slots(cls)
        arrays = columns_of(timer_frame(frame, number, id_of(cls)), id_of(cls), slots)
        fields |= fields_from(slots, arrays, f"t{number}_{which}_")
    return fields


def _numbers(frame: Frame, name: str) -> Array | float:
    """Of eight bytes each, or one for all."""
    column = frame.column(name)
    if column.kind == "const" and isinstance(one := frame.constant(name), float):
        return one
    if column.kind not in ("f64", "i64") or len(column.data) != 8 * frame.count:
        raise DamagedData(f"column {name!r} is not of {frame.count} numbers")
    return np.frombuffer(column.data, "<f8" if column.kind == "f64" else "<i8")
