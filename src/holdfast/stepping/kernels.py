"""The loops over many rows, twice: compiled by numba where it is installed, and for numpy alone.

Both give the same arrays. The compiled ones are kept on disk by numba, beside this file or in its
own folder for the user.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array


class Kernels(NamedTuple):
    order: Callable[[Array, Array, int], tuple[Array, Array]]
    occurring: Callable[[Array, int], tuple[Array, Array]]


@functools.cache
def kernels() -> Kernels:
    try:
        return compiled()
    except ImportError:
        return PLAIN


def prepare_kernels() -> None:
    """Compile now what the first send would wait for."""
    import numpy

    codes, routes = numpy.zeros(1, "u4"), numpy.zeros(1, "u2")
    kernels().order(codes, routes, 1)
    kernels().occurring(codes, 1)


# ---------------------------------------------------------------- numpy


def _order(codes: Array, routes: Array, parts: int) -> tuple[Array, Array]:
    """Rows sorted by the part of their key, in order within a part, and where each part ends."""
    import numpy

    found = routes[codes]
    ends = numpy.cumsum(numpy.bincount(found, minlength=parts))
    return numpy.argsort(found, kind="stable"), ends


def _occurring(codes: Array, size: int) -> tuple[Array, Array]:
    """The codes that occur, rising, and for every row the place of its own among them."""
    import numpy

    seen = numpy.zeros(size, bool)
    seen[codes] = True
    used = numpy.flatnonzero(seen)
    place = numpy.empty(size, "i8")
    place[used] = numpy.arange(len(used))
    return used, place[codes]


PLAIN = Kernels(_order, _occurring)


# ---------------------------------------------------------------- numba


@functools.cache
def compiled() -> Kernels:
    """ImportError where numba is not installed."""
    import numba
    import numpy

    def order(codes: Array, routes: Array, parts: int) -> tuple[Array, Array]:
        ends = numpy.zeros(parts, numpy.int64)
        for code in codes:
            ends[routes[code]] += 1
        following = numpy.zeros(parts, numpy.int64)
        total = 0
        for part in range(parts):
            following[part] = total
            total += ends[part]
            ends[part] = total
        rows = numpy.empty(len(codes), numpy.int64)
        for row in range(len(codes)):
            part = routes[codes[row]]
            rows[following[part]] = row
            following[part] += 1
        return rows, ends

    def occurring(codes: Array, size: int) -> tuple[Array, Array]:
        place = numpy.full(size, -1, numpy.int64)
        count = 0
        for code in codes:
            if place[code] < 0:
                place[code] = 0
                count += 1
        used = numpy.empty(count, numpy.int64)
        count = 0
        for code in range(size):
            if place[code] == 0:
                used[count] = code
                place[code] = count
                count += 1
        own = numpy.empty(len(codes), numpy.int64)
        for row in range(len(codes)):
            own[row] = place[codes[row]]
        return used, own

    def ready(function: Callable[..., object]) -> Callable[..., object]:
        try:
            return cast("Callable[..., object]", numba.njit(cache=True, nogil=True)(function))
        except RuntimeError:  # no folder to keep it in
            return cast("Callable[..., object]", numba.njit(nogil=True)(function))

    return Kernels(*map(ready, (order, occurring)))  # type: ignore[arg-type]
