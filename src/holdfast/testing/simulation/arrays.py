"""Columns of fixed-width fields in the evidence, read by what `stepping.fields` says of them, and
not by its code."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator

import msgspec

_decode = msgspec.msgpack.decode
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


def values_in(kind: str, data: bytes, count: int) -> list[object]:
    """One value per row. KeyError for a kind that is none of these."""
    if kind.startswith("list."):
        lengths, items = _lengths(data[1:], data[0], count)
        found = iter(values_in(kind.removeprefix("list."), items, sum(lengths)))
        return [list(itertools.islice(found, length)) for length in lengths]
    return list(_READERS[kind](data, count))


def _numbers(data: bytes, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def _lengths(data: bytes, width: int, count: int) -> tuple[list[int], bytes]:
    return _numbers(data[: width * count], width), data[width * count :]


def _ints(data: bytes, count: int) -> Iterable[object]:
    base = int.from_bytes(data[:8], "little", signed=True)
    return [base + offset for offset in _numbers(data[9:], data[8])]


def _enums(data: bytes, count: int) -> Iterable[object]:
    start = 4 + int.from_bytes(data[:4], "little")
    table = _decode(data[4:start])
    return [table[code] for code in _numbers(data[start:], 1 if len(table) <= 255 else 2)]


def _texts(data: bytes, count: int) -> Iterator[object]:
    lengths, points = _lengths(data[2:], data[0], count)
    width, at = data[1], 0
    for length in lengths:
        yield points[at * width : (at + length) * width].decode(_ENCODINGS[width])
        at += length


def _names(data: bytes, count: int) -> Iterable[object]:
    known = int.from_bytes(data[:4], "little")
    lengths, rest = _lengths(data[4:], 1, known)
    ends = list(itertools.accumulate(lengths))
    names = [rest[a:b].decode() for a, b in itertools.pairwise([0, *ends])]
    width = 1 if known <= 256 else 2 if known <= 65_536 else 4
    return [names[code] for code in _numbers(rest[ends[-1] if ends else 0 :], width)]


_READERS = {
    "ints": _ints,
    "i64": lambda data, count: array("q", data),
    "f64": lambda data, count: array("d", data),
    "bool": lambda data, count: map(bool, data),
    "enum": _enums,
    "text": _texts,
    "names": _names,
}
