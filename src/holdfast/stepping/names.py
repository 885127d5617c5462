"""Columns of names: made from tables of which some occur, and searched for one of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, overload

from holdfast.errors import DamagedData
from holdfast.stepping import fields
from holdfast.stepping.frame import UNREADABLE, Column
from holdfast.stepping.kernels import kernels

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array

_SPARSE = 64  # a table of so many times the rows is not looked through: the codes are sorted


class Names(Sequence[bytes]):
    """Many names, prepared once for any number of frames. None contains a zero byte."""

    def __init__(self, table: Sequence[bytes]) -> None:
        import numpy

        self._padded = numpy.array(table, "S")  # with zeros, all to the same width
        self._lengths = numpy.fromiter(map(len, table), "u1", len(table))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return cast("bytes | Sequence[bytes]", self._padded[index].tolist())

    def __len__(self) -> int:
        return len(self._padded)

    def beginning(self, used: Array) -> bytes:
        """Of a column with these names: how many there are, how long each is, their bytes."""
        names = self._padded.take(used).tobytes().replace(b"\0", b"")
        return fields.pack_lengths(self._lengths.take(used).tobytes()) + names


def names_column(table: Sequence[bytes], codes: Array) -> Column:
    """The name of every row, by its place in the table; the frame keeps those that occur."""
    import numpy

    names = table if isinstance(table, Names) else Names(table)
    codes = numpy.ascontiguousarray(codes, "u4")  # one type, so that kernels are compiled once
    if len(names) > _SPARSE * len(codes):
        used, own = numpy.unique(codes, return_inverse=True)
    else:
        used, own = kernels().occurring(codes, len(names))
    width = fields.name_width(len(used))
    return Column("names", names.beginning(used) + own.astype(f"u{width}").tobytes())


def row_of(column: Column, name: str) -> int | None:
    """Where a name stands in a column of names, of which each row has another one.

    It is searched in the bytes: a column of many names is not taken apart for one.
    """
    try:
        ends, blob, codes = fields.parts_of_names(column.data)
        code = _place(ends, blob, name.encode())
        return None if code is None else array(codes.format, codes.tobytes()).index(code)
    except UNREADABLE as error:
        raise DamagedData(f"the names of a block cannot be read: {error}") from error


def _place(ends: Sequence[int], blob: bytes, name: bytes) -> int | None:
    at = blob.find(name)
    while at >= 0:
        place = bisect_left(ends, at + len(name))
        if ends[place] == at + len(name) and at == (ends[place - 1] if place else 0):
            return place
        at = blob.find(name, at + 1)
    return None
