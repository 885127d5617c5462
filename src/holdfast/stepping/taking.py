"""Rows of columns in their own kind, without numpy: for cutting blocks and looking into them."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from holdfast.errors import DamagedData
from holdfast.stepping import fields
from holdfast.stepping.frame import UNREADABLE, Column

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.decode
_COUNT = struct.Struct("<I")
_BASE_BYTES = 9  # of kind "ints": the base and the width of an offset
_UNSIGNED = {1: "B", 2: "H", 4: "I"}


def take(column: Column, count: int, rows: Sequence[int]) -> Column:
    """The column of a frame of `count` rows, with only these; what is one for all stays."""
    if column.kind in ("const", "opaque"):
        return column
    try:
        return Column(column.kind, _taken(column.kind, column.data, count, rows))
    except UNREADABLE as error:
        raise DamagedData(f"a column of kind {column.kind!r} cannot be read: {error}") from error


def _taken(kind: str, data: bytes, count: int, rows: Sequence[int]) -> bytes:
    if kind in ("i64", "f64"):
        return _picked(memoryview(data).cast("Q"), count, rows)
    if kind == "bool":
        return _picked(memoryview(data), count, rows)
    if kind == "rows":
        values = _unpack(data)
        return _pack([values[row] for row in rows])
    if kind == "codes":
        table, coded = _unpack(data)
        return _pack([table, _picked(memoryview(coded), count, rows)])
    if kind == "ints":
        _, _, offsets = fields.parts_of_ints(data)
        return data[:_BASE_BYTES] + _picked(offsets, count, rows)
    if kind == "enum":
        _, codes = fields.parts_of_enum(data)
        return data[: len(data) - codes.nbytes] + _picked(codes, count, rows)
    if kind == "text":
        lengths, width, content = fields.parts_of_text(data, count)
        return data[:2] + _picked(lengths, count, rows) + _pieces(lengths, content, width, rows)
    if kind == "names":
        return _names(data, count, rows)
    if kind.startswith(fields.LIST):
        return _lists(kind.removeprefix(fields.LIST), data, count, rows)
    raise ValueError("this release does not know it")


def _picked(values: memoryview, count: int, rows: Sequence[int]) -> bytes:
    if len(values) != count:
        raise ValueError(f"{len(values)} values for {count} rows")
    return array(values.format, map(values.__getitem__, rows)).tobytes()


def _pieces(lengths: memoryview, content: bytes, width: int, rows: Sequence[int]) -> bytes:
    starts = list(accumulate(lengths, initial=0))
    return b"".join([content[starts[r] * width : starts[r + 1] * width] for r in rows])


def _lists(item: str, data: bytes, count: int, rows: Sequence[int]) -> bytes:
    lengths, total, rest = fields.parts_of_list(data, count)
    starts = list(accumulate(lengths, initial=0))
    items = [at for row in rows for at in range(starts[row], starts[row + 1])]
    return data[:1] + _picked(lengths, count, rows) + _taken(item, rest, total, items)


def _names(data: bytes, count: int, rows: Sequence[int]) -> bytes:
    """Only the names that occur, in the order in which they do."""
    table, codes = fields.names_in(data)
    if len(codes) != count:
        raise ValueError(f"{len(codes)} codes for {count} rows")
    taken = [codes[row] for row in rows]
    place = {code: at for at, code in enumerate(dict.fromkeys(taken))}
    names = [table[code] for code in place]
    ends = array("I", accumulate(map(len, names)))
    width = _UNSIGNED[fields.name_width(len(names))]
    coded = array(width, [place[code] for code in taken])
    return b"".join((_COUNT.pack(len(names)), ends.tobytes(), *names, coded.tobytes()))


def row_of(column: Column | None, name: str) -> int | None:
    """Where a name stands in a column of names, of which each row has another one.

    It is searched in the bytes: a column of many names is not taken apart for one.
    """
    if column is None or column.kind != "names":
        raise DamagedData("a block lacks the names of its agents")
    try:
        ends, blob, codes = _parts(column.data)
        code = _place(ends, blob, name.encode())
        return None if code is None else array(codes.format, codes.tobytes()).index(code)
    except UNREADABLE as error:
        raise DamagedData(f"the names of a block cannot be read: {error}") from error


def _parts(data: bytes) -> tuple[memoryview, bytes, memoryview]:
    (count,) = _COUNT.unpack_from(data)
    start = _COUNT.size * (1 + count)
    ends = fields.numbers(data[_COUNT.size : start], 4)
    stop = start + (ends[-1] if count else 0)
    return ends, data[start:stop], fields.numbers(data[stop:], fields.name_width(count))


def _place(ends: memoryview, blob: bytes, name: bytes) -> int | None:
    at = blob.find(name)
    while at >= 0:
        place = bisect_left(ends, at + len(name))
        if ends[place] == at + len(name) and at == (ends[place - 1] if place else 0):
            return place
        at = blob.find(name, at + 1)
    return None
