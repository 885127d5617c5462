"""Columns of frames as numpy arrays, and arrays as columns, without an object per row.

What the arrays are is told in `arrays`, what the bytes of the columns are in `fields`. Functions
import numpy, this module does not.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.errors import DamagedData
from holdfast.model.layout import NoLayout, Slot
from holdfast.stepping import fields
from holdfast.stepping.arrays import array_of, arrays_of, check_code_points, inside
from holdfast.stepping.frame import UNREADABLE, Column, Frame, const
from holdfast.stepping.names import names_column
from holdfast.stepping.rows import (
    distinct_schemas,
    field_names,
    in_columns,
    packed_rows,
    schema_ids,
)

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays

_pack = msgspec.msgpack.Encoder().encode
__all__ = [
    "columns_of",
    "field_columns",
    "integers_column",
    "key_codes",
    "names_column",
    "payload_columns",
    "read_fields",
    "rising_column",
    "schema_codes",
]

_unpack_rows = msgspec.msgpack.Decoder(list[list[object]]).decode


# ---------------------------------------------------------------- from frames to arrays


def key_codes(frame: Frame) -> tuple[list[bytes], Array]:
    """The distinct keys, and for every row the place of its own."""
    import numpy

    column = frame.column("key")
    if column.kind != "names":
        keys = cast("list[str]", frame.values("key"))
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        codes = numpy.fromiter((places[key] for key in keys), "u4", len(keys))
        return [key.encode() for key in places], codes
    try:
        table, stored = fields.names_in(column.data)
        codes = numpy.asarray(stored).astype("u4")
        _check_codes(codes, frame.count, len(table))
        for name in () if b"".join(table).isascii() else table:
            name.decode()
    except UNREADABLE as error:
        raise DamagedData(f"column 'key' cannot be read: {error}") from error
    return table, codes


def schema_codes(frame: Frame) -> tuple[list[int], Array | None]:
    """The schema ids that occur, and which one each row has; None where there is only one."""
    import numpy

    if frame.column("schema").kind == "const":
        return distinct_schemas(frame), None
    ids = schema_ids(frame)
    places = {schema_id: place for place, schema_id in enumerate(dict.fromkeys(ids))}
    width = f"u{fields.code_width(len(places))}"
    return list(places), numpy.fromiter((places[each] for each in ids), width, len(ids))


def columns_of(frame: Frame, schema_id: int, slots: Sequence[Slot]) -> list[Arrays]:
    """The rows of one class, one entry per slot. The slots are those of the stored schema.

    NoLayout for rows whose values do not fit: an int of 64 bits and no sign.
    """
    codes, each = schema_codes(frame)
    count = frame.count if each is None else int((each == codes.index(schema_id)).sum())
    if not in_columns(frame, schema_id):
        return arrays_of(slots, _columns_in_rows(frame, schema_id, slots, count))
    if field_names(frame, schema_id) != [slot.name for slot in slots]:
        raise DamagedData(f"a frame has other columns of schema {schema_id} than its fields")
    return read_fields(frame, f"cols.{schema_id}.", slots, count)


def _columns_in_rows(
    frame: Frame, schema_id: int, slots: Sequence[Slot], count: int
) -> list[Sequence[object]]:
    try:
        rows = _unpack_rows(packed_rows(frame, schema_id, count))
        if len(rows) != count or any(len(row) != len(slots) for row in rows):
            raise ValueError(f"not {count} rows of {len(slots)} values")
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedData(f"rows of schema {schema_id} cannot be read: {error}") from error
    return list(zip(*rows, strict=True)) if rows else [() for _ in slots]


def read_fields(frame: Frame, prefix: str, slots: Sequence[Slot], count: int) -> list[Arrays]:
    """The columns `<prefix><field>`, of `count` values each."""
    found = []
    for slot in slots:
        column = frame.column(prefix + slot.name)
        try:
            found.append(_read(slot, column, count))
        except (*UNREADABLE, NoLayout) as error:
            raise DamagedData(f"column {prefix + slot.name!r} cannot be read: {error}") from error
    return found


def _read(slot: Slot, column: Column, count: int) -> Arrays:
    import numpy

    if column.kind == "const":
        value = cast(object, msgspec.msgpack.decode(column.data))
        one = array_of(slot, [value])
        if isinstance(one, tuple):
            return numpy.repeat(one[0], count), numpy.repeat(one[1], count, axis=0)
        return numpy.repeat(one, count)
    if slot.kind == "text":
        return _read_texts(slot, column, count)
    if slot.kind == "list":
        if not column.kind.startswith(fields.LIST):
            raise ValueError(f"it is of kind {column.kind!r}")
        lengths, total, items = fields.parts_of_list(column.data, count)
        flat = Column(column.kind[len(fields.LIST) :], items)
        return _spread(slot, lengths, _read_flat(slot.item, slot.values, flat, total))
    return _read_flat(slot.kind, slot.values, column, count)


def _read_flat(kind: str, values: tuple[str | int, ...], column: Column, count: int) -> Array:
    """Scalars: of a field, or of all items of a list."""
    import numpy

    data = column.data
    found: Array
    if kind == "float" and column.kind == "f64":
        found = numpy.frombuffer(data, "<f8")
    elif kind == "int" and column.kind == "i64":
        found = numpy.frombuffer(data, "<i8")
    elif kind == "int" and column.kind == "ints":
        base, _, offsets = fields.parts_of_ints(data)
        found = numpy.asarray(offsets).astype("i8")
        if base:
            if len(found) and base + int(found.max()) >= 1 << 63:
                raise ValueError("an integer has more than 64 bits")
            found += base
    elif kind == "bool" and column.kind == "bool":
        found = numpy.frombuffer(data, "u1").astype("i8")
        _check_codes(found, count, 2)
    elif kind == "enum" and column.kind == "enum":
        table, codes = fields.parts_of_enum(data)
        found = numpy.asarray(codes).astype("i8")
        _check_codes(found, count, len(table))
        if tuple(table) != values:
            raise ValueError("the members of the enum are others")
    else:
        raise ValueError(f"it is of kind {column.kind!r}")
    if len(found) != count:
        raise ValueError(f"{len(found)} values for {count} rows")
    return found


def _read_texts(slot: Slot, column: Column, count: int) -> Arrays:
    import numpy

    if column.kind != "text":
        raise ValueError(f"it is of kind {column.kind!r}")
    lengths, width, content = fields.parts_of_text(column.data, count)
    points = numpy.frombuffer(content, f"<u{width}").astype("u4")
    if width > 1:
        check_code_points(points)
    return _spread(slot, lengths, points)


def _spread(slot: Slot, stored: memoryview, flat: Array) -> tuple[Array, Array]:
    """Values that follow each other, as rows of equal width."""
    import numpy

    lengths = numpy.asarray(stored).astype("i8")
    if len(lengths) and lengths.max() > slot.most:
        raise ValueError(f"a {slot.kind} is longer than {slot.most}")
    whole = numpy.zeros((len(lengths), slot.most), flat.dtype)
    whole[inside(slot, lengths)] = flat
    return lengths, whole


def _check_codes(codes: Array, count: int, members: int) -> None:
    if len(codes) != count:
        raise ValueError(f"{len(codes)} codes for {count} rows")
    if count and codes.max() >= members:
        raise ValueError(f"a code is not below {members}")


# ---------------------------------------------------------------- from arrays to columns


def payload_columns(
    schema_id: int, slots: Sequence[Slot], arrays: Sequence[Arrays]
) -> dict[str, Column]:
    """The payload of one class as columns of a frame."""
    prefix = f"cols.{schema_id}"
    names = Column("opaque", _names_of(tuple(slots)))
    return {prefix: names, **field_columns(f"{prefix}.", slots, arrays)}


def field_columns(
    prefix: str, slots: Sequence[Slot], arrays: Sequence[Arrays]
) -> dict[str, Column]:
    """One column `<prefix><field>` per slot."""
    return {
        prefix + slot.name: _column(slot, array) for slot, array in zip(slots, arrays, strict=True)
    }


@functools.lru_cache(maxsize=256)
def _names_of(slots: tuple[Slot, ...]) -> bytes:
    return _pack([slot.name for slot in slots])


@functools.lru_cache(maxsize=256)
def _table_of(values: tuple[str | int, ...]) -> bytes:
    return fields.pack_table(values)


def _column(slot: Slot, array: Arrays) -> Column:
    if isinstance(array, tuple):
        lengths, whole = array
        if len(lengths) and lengths.strides[0] == 0 and whole.strides[0] == 0:
            return const(_value(slot, array))
        content = whole[inside(slot, lengths)]
        counts = _narrow(lengths)
        head = bytes([counts.itemsize])
        if slot.kind == "text":
            points = _narrow(content)
            sizes = head + bytes([points.itemsize])
            return Column("text", b"".join((sizes, counts.tobytes(), points.tobytes())))
        items = _flat_column(slot.item, slot.values, content)
        return Column(fields.LIST + items.kind, b"".join((head, counts.tobytes(), items.data)))
    if len(array) and array.strides[0] == 0:  # broadcast from one value
        return const(_value(slot, array))
    return _flat_column(slot.kind, slot.values, array)


def _flat_column(kind: str, values: tuple[str | int, ...], array: Array) -> Column:
    if kind == "float":
        return Column("f64", array.tobytes())
    if kind == "bool":
        return Column("bool", array.astype("u1").tobytes())
    if kind == "enum":
        codes = array.astype(f"u{fields.code_width(len(values))}")
        return Column("enum", _table_of(values) + codes.tobytes())
    return integers_column(array)


def integers_column(array: Array) -> Column:
    """Any integers, as narrow as they can be."""
    if not len(array):
        return Column("i64", b"")
    low, high = int(array.min()), int(array.max())
    for width in (1, 2, 4):
        if high - low < 1 << 8 * width:
            base = 0 if low >= 0 and high < 1 << 8 * width else low
            return _based(base, array - base if base else array, width)
    return Column("i64", array.astype("i8").tobytes())


def rising_column(first: int, offsets: Array) -> Column:
    """`first` plus offsets that rise from 0 or more, below 2**32."""
    high = int(offsets[-1]) if len(offsets) else 0
    return _based(first, offsets, 1 if high < 1 << 8 else 2 if high < 1 << 16 else 4)


def _based(base: int, offsets: Array, width: int) -> Column:
    return Column("ints", fields.pack_base(base, width) + offsets.astype(f"u{width}").tobytes())


def _narrow(array: Array) -> Array:
    """Unsigned numbers in as few bytes as the highest takes."""
    high = int(array.max()) if len(array) else 0
    return array.astype("u1" if high < 1 << 8 else "u2" if high < 1 << 16 else "u4")


def _value(slot: Slot, array: Arrays) -> object:
    """What the first row has, as it is stored in rows."""
    if isinstance(array, tuple):
        items = array[1][0][: int(array[0][0])]
        if slot.kind == "text":
            return items.astype("<u4").tobytes().decode("utf-32-le")
        return [_scalar(slot.item, slot.values, item) for item in items.tolist()]
    return _scalar(slot.kind, slot.values, array[0].item())


def _scalar(kind: str, values: tuple[str | int, ...], item: int | float) -> object:
    if kind == "enum":
        return values[cast(int, item)]
    return bool(item) if kind == "bool" else item
