"""Tables of names, from which a frame takes those that occur in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, overload

from holdfast.stepping import fields
from holdfast.stepping.frame import Column
from holdfast.stepping.kernels import kernels

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array

_SPARSE = 64  # a table of so many times the rows is not looked through: the codes are sorted


class Names(Sequence[bytes]):
    """Many names, prepared once for any number of frames. None contains a zero byte."""

    def __init__(self, table: Sequence[bytes]) -> None:
        import numpy

        self._padded = numpy.array(table, "S")  # with zeros, all to the same width
        self._lengths = numpy.fromiter(map(len, table), "u4", len(table))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return cast("bytes | Sequence[bytes]", self._padded[index].tolist())

    def __len__(self) -> int:
        return len(self._padded)

    def beginning(self, used: Array) -> bytes:
        """Of a column with these names: how many there are, where each ends, their bytes."""
        import numpy

        ends = numpy.cumsum(self._lengths.take(used), dtype="u4")
        names = self._padded.take(used).tobytes().replace(b"\0", b"")
        return fields.pack_ends(ends.tobytes()) + names


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
