"""Splitting rows by where their keys live: one pass, without an object per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.stepping.kernels import kernels

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays


def split(codes: Array, routes: Array, parts: int) -> Iterator[tuple[int, Array | None]]:
    """(part, its rows in order) for every part that has any; None stands for all rows.

    `codes` has the key of each row, `routes` the part of each key.
    """
    order, ends = kernels().order(codes, routes, parts)
    start = 0
    for part, end in enumerate(ends.tolist()):
        if end > start:
            yield part, None if end - start == len(codes) else order[start:end]
        start = end


def take(array: Arrays, rows: Array) -> Arrays:
    """Some rows; what was broadcast from one value stays so."""
    if isinstance(array, tuple):
        lengths, whole = array
        if len(lengths) and lengths.strides[0] == 0 and whole.strides[0] == 0:
            return lengths[: len(rows)], whole[: len(rows)]
        return lengths[rows], whole[rows]
    return array[: len(rows)] if array.strides[0] == 0 else array[rows]
