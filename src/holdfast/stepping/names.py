"""Tables of names as arrays, from which a frame takes those that occur in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from holdfast.stepping import fields
from holdfast.stepping.frame import Column

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array

_DENSE = 16  # a table up to so many times the rows is marked; a larger one sorts the codes


class Names(Sequence[bytes]):
    """Many names in one buffer, prepared once for any number of frames."""

    def __init__(self, table: Sequence[bytes]) -> None:
        import numpy

        self._table = table
        self._blob = numpy.frombuffer(b"".join(table), "u1")
        self._lengths = numpy.fromiter(map(len, table), "i8", len(table))
        self._starts = numpy.cumsum(self._lengths) - self._lengths

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return self._table[index]

    def __len__(self) -> int:
        return len(self._table)

    def gather(self, codes: Array) -> bytes:
        """Some of the names as the beginning of a column: their count, ends and bytes."""
        import numpy

        lengths = self._lengths[codes]
        ends = numpy.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = numpy.repeat(self._starts[codes] - ends + lengths, lengths)
        places += numpy.arange(total)
        blob: bytes = self._blob[places].tobytes()
        return fields.pack_ends(ends.astype("u4").tobytes()) + blob


def names_column(table: Sequence[bytes], codes: Array) -> Column:
    """The name of every row, by its place in the table; the frame keeps those that occur."""
    import numpy

    names = table if isinstance(table, Names) else Names(table)
    if len(names) <= _DENSE * len(codes):
        seen = numpy.zeros(len(names), bool)
        seen[codes] = True
        used = numpy.flatnonzero(seen)
        place = numpy.empty(len(names), "u4")
        place[used] = numpy.arange(len(used), dtype="u4")
        own = place[codes]
    else:
        used, own = numpy.unique(codes, return_inverse=True)
    width = fields.name_width(len(used))
    return Column("names", names.gather(used) + own.astype(f"u{width}").tobytes())
