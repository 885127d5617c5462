"""Frames: many rows in one buffer, as named columns between a versioned header and a checksum.

    magic "HFRM" | version u8 | rows u32 | directory bytes u32 | directory | columns … | crc32 u32

The directory is msgpack: one [name, kind, length] per column. A reader carries columns it does not
know, so a newer producer may add some. What the columns mean is not decided here.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import le, lt
from typing import NamedTuple

import msgspec

from holdfast.errors import DamagedData, NewerFormat
from holdfast.stepping import fields

MAGIC = b"HFRM"
VERSION = 1
RUNS = "runs"  # the kind of a column in which most rows have what their neighbours have
_HEAD = struct.Struct("<4sBII")
_CRC = struct.Struct("<I")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.decode
# What reading a column raises when its bytes are not what they should be.
UNREADABLE = (
    msgspec.DecodeError,
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    struct.error,
)
_unpack_directory = msgspec.msgpack.Decoder(list[tuple[str, str, int]]).decode


# Rows that have the same value: from the first to the one before the second.
Run = tuple[int, int, object]
_unpack_runs = msgspec.msgpack.Decoder(tuple[list[int], list[int], list[object]]).decode


class Column(NamedTuple):
    """One encoded column. `kind` says how `data` expands to one value per row."""

    kind: str
    data: bytes


def const(value: object) -> Column:
    """The same value in every row."""
    return Column("const", _pack(value))


def rows(values: Sequence[object]) -> Column:
    """Any values, one per row."""
    return Column("rows", _pack(values))


def sequence(first: int) -> Column:
    """first, first + 1, first + 2, …"""
    return Column("sequence", _pack(first))


def integers(values: Iterable[int]) -> Column:
    return Column("i64", _little(array("q", values)))


def floats(values: Iterable[float]) -> Column:
    return Column("f64", _little(array("d", values)))


def codes(values: Sequence[Hashable]) -> Column:
    """Few distinct values: a table and one byte per row; a single value becomes a const."""
    table = list(dict.fromkeys(values))
    if len(table) == 1:
        return const(table[0])
    if len(table) > 255:
        return rows(values)
    code_of = {value: code for code, value in enumerate(table)}
    return coded(table, bytes([code_of[value] for value in values]))


def coded(table: Sequence[Hashable], places: bytes) -> Column:
    """The same from the place of every row's value in the table."""
    return Column("codes", _pack([table, places]))


def runs(values: Iterable[object]) -> Column:
    """Rows that follow each other and have the same value, mostly; None is no value."""
    found: list[Run] = []
    start = 0
    for value, group in groupby(values):
        stop = start + sum(1 for _ in group)
        if value is not None:
            found.append((start, stop, value))
        start = stop
    return Column(RUNS, _pack(list(zip(*found, strict=True)) or [(), (), ()]))


def run(value: object, count: int) -> Column:
    """The same of one value for all rows."""
    return Column(RUNS, _pack(([0], [count], [value])))


def opaque(data: bytes) -> Column:
    """Bytes that belong to the frame as a whole, with a meaning of their own."""
    return Column("opaque", data)


def _little(values: array[int] | array[float]) -> bytes:
    # Every supported target (x86-64, aarch64) is little-endian; the format is fixed to it.
    return values.tobytes()


class Frame:
    """A decoded frame: its number of rows and its columns, expanded on demand."""

    __slots__ = ("columns", "count")

    def __init__(self, count: int, columns: Mapping[str, Column]) -> None:
        self.count = count
        self.columns = dict(columns)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def constant(self, name: str, default: object = None) -> object:
        """The value that every row has, or `default` where the column is absent or varies."""
        column = self.columns.get(name)
        if column is None or column.kind != "const":
            return default
        return self._expand(name, column, 1)[0]

    def expand(self, name: str, count: int) -> list[object]:
        """The values of a column that has not one per row, but `count` of them."""
        return self._expand(name, self.column(name), count)

    def values(self, name: str) -> list[object] | None:
        """One value per row, or None where the frame has no such column."""
        column = self.columns.get(name)
        return None if column is None else self._expand(name, column, self.count)

    def cut(self, name: str, count: int, chosen: Sequence[int]) -> Column:
        """Some values of a column that has `count` of them."""
        column = self.column(name)
        if column.kind in ("const", "opaque"):
            return column
        if column.kind == RUNS:
            values = self._expand(name, column, count)
            return runs([values[row] for row in chosen])
        if column.kind not in fields.KINDS:
            values = self._expand(name, column, count)
            return rows([values[row] for row in chosen])
        try:
            return Column(column.kind, fields.cut(*column, count, chosen))
        except UNREADABLE as error:
            raise DamagedData(f"column {name!r} cannot be read: {error}") from error

    def runs(self, name: str) -> list[Run]:
        """Rising; rows between them have no value."""
        column = self.column(name)
        try:
            found = _unpack_runs(column.data) if column.kind == RUNS else None
            if found is not None and _rising(found[0], found[1], self.count):
                return list(zip(*found, strict=True))
        except UNREADABLE as error:
            raise DamagedData(f"column {name!r} cannot be read: {error}") from error
        raise DamagedData(f"column {name!r} has no runs that fit {self.count} rows")

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise DamagedData(
                f"a frame lacks its column {name!r}: it has {', '.join(self.columns)}"
            )
        return self.columns[name]

    def opaque(self, name: str) -> bytes:
        return self.column(name).data

    def _expand(self, name: str, column: Column, count: int) -> list[object]:
        try:
            values = _values(column, count)
        except UNREADABLE as error:
            raise DamagedData(f"column {name!r} cannot be read: {error}") from error
        if values is None:
            raise DamagedData(
                f"column {name!r} is of kind {column.kind!r}, which has no values per row"
            )
        if len(values) != count:
            raise DamagedData(f"column {name!r} has {len(values)} values for {count} rows")
        return values

    def encode(self) -> bytes:
        directory = _pack([(name, c.kind, len(c.data)) for name, c in self.columns.items()])
        head = _HEAD.pack(MAGIC, VERSION, self.count, len(directory))
        parts = [head, directory, *(c.data for c in self.columns.values())]
        checksum = 0
        for part in parts:  # one by one: a large frame is copied once
            checksum = zlib.crc32(part, checksum)
        return b"".join((*parts, _CRC.pack(checksum)))

    @classmethod
    def decode(cls, buffer: bytes) -> Frame:
        """Check everything, then take it apart. Damage never yields a wrong row."""
        size = len(buffer)
        if size < _HEAD.size + _CRC.size or buffer[:4] != MAGIC:
            raise DamagedData(f"not a frame: {size} bytes that do not start with {MAGIC!r}")
        body = memoryview(buffer)[: size - _CRC.size]
        if zlib.crc32(body) != _CRC.unpack_from(buffer, size - _CRC.size)[0]:
            raise DamagedData(f"a frame of {size} bytes does not match its checksum")
        _, version, count, directory_bytes = _HEAD.unpack_from(buffer)
        if version > VERSION:
            raise NewerFormat(f"frame version {version}, this release reads up to {VERSION}")
        offset = _HEAD.size + directory_bytes
        columns: dict[str, Column] = {}
        try:
            directory = _unpack_directory(body[_HEAD.size : offset])
        except (msgspec.DecodeError, ValueError) as error:
            raise DamagedData(f"a frame's directory cannot be read: {error}") from error
        for name, kind, length in directory:
            columns[name] = Column(kind, bytes(body[offset : offset + length]))
            offset += length
        if offset != len(body):
            raise DamagedData(f"a frame's directory describes {offset} of {len(body)} bytes")
        return cls(count, columns)


def _rising(starts: Sequence[int], stops: Sequence[int], count: int) -> bool:
    if not starts:
        return True
    inside = starts[0] >= 0 and stops[-1] <= count
    return inside and all(map(lt, starts, stops)) and all(map(le, stops, starts[1:]))


def _values(column: Column, count: int) -> list[object] | None:
    """One value per row; None for a kind that has none, or that a newer release has made."""
    kind, data = column
    if kind == "const":
        return [_unpack(data)] * count
    if kind == "rows":
        return list(_unpack(data))
    if kind == "sequence":
        first = _unpack(data)
        return list(range(first, first + count))
    if kind == "codes":
        table, coded = _unpack(data)
        return [table[code] for code in coded]
    if kind == RUNS:
        starts, stops, found = _unpack_runs(data)
        if not _rising(starts, stops, count):  # before it is expanded: few bytes can say very much
            raise ValueError(f"runs that do not fit {count} rows")
        values: list[object] = [None] * count
        for start, stop, value in zip(starts, stops, found, strict=True):
            values[start:stop] = [value] * (stop - start)
        return values
    if kind in fields.KINDS:
        return fields.expand(kind, data, count)
    return None
