"""Arrays of fixed-width fields, and how values become such arrays. Only who uses these needs numpy.

An array has one value per row: int64 for int, bool (0 or 1) and enum (the ordinal in
`slot.values`), float64 for float. A text or a list has two: lengths (int64), and code points
(uint32) or items of shape (rows, slot.most), where those behind the length are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from holdfast.model.layout import NoLayout, Slot

if TYPE_CHECKING:
    import numpy.typing

    Array: TypeAlias = numpy.typing.NDArray[Any]
    Arrays: TypeAlias = Array | tuple[Array, Array]

_CODE_POINTS = 0x110000
DTYPES = {"int": "i8", "float": "f8", "bool": "i8", "enum": "i8", "text": "u4"}


def arrays_of(slots: Sequence[Slot], columns: Sequence[Sequence[object]]) -> list[Arrays]:
    """Arrays from one sequence of wire values per slot; NoLayout says what does not fit."""
    found = []
    for slot, values in zip(slots, columns, strict=True):
        try:
            found.append(array_of(slot, values))
        except (TypeError, ValueError, OverflowError) as error:
            raise NoLayout(f"{slot.name}: {error}") from None
    return found


def array_of(slot: Slot, values: Sequence[object]) -> Arrays:
    """ValueError, TypeError or OverflowError for what does not fit."""
    import numpy

    if slot.kind == "text":
        return _array_of_texts(slot, cast("Sequence[str]", values))
    if slot.kind != "list":
        return _flat_array_of(slot.kind, slot.values, values)
    lists = cast("Sequence[Sequence[object]]", values)
    if not all(isinstance(each, (list, tuple)) for each in lists):
        raise TypeError("not every value is a list")
    lengths = numpy.fromiter(map(len, lists), "i8", len(lists))
    flat = _flat_array_of(slot.item, slot.values, [item for each in lists for item in each])
    if len(lengths) and lengths.max() > slot.most:
        raise ValueError(f"a list of {lengths.max()} items is longer than {slot.most}")
    whole = numpy.zeros((len(lists), slot.most), DTYPES[slot.item])
    whole[inside(slot, lengths)] = flat
    return lengths, whole


_TYPES: dict[str, tuple[set[type], str]] = {
    "int": ({int}, "int"),
    "float": ({int, float}, "float"),
    "bool": ({bool}, "bool"),
    "text": ({str}, "str"),
}


def _check_types(kind: str, values: Sequence[object]) -> None:
    types, shown = _TYPES[kind]
    if not set(map(type, values)) <= types:
        wrong = next(value for value in values if type(value) not in types)
        raise TypeError(f"expected {shown}, got {type(wrong).__name__}")


def _flat_array_of(kind: str, members: tuple[str | int, ...], values: Sequence[object]) -> Array:
    import numpy

    if kind == "enum":
        return ordinals(members, values)
    _check_types(kind, values)
    if kind in ("int", "float"):
        top = 1 << 63 if kind == "int" else 1 << 64  # as far as msgpack goes
        if any(type(value) is int and not -(1 << 63) <= value < top for value in values):
            raise ValueError("an integer has at most 64 bits, with its sign")
    return numpy.array(values, DTYPES[kind])


def _array_of_texts(slot: Slot, values: Sequence[str]) -> Arrays:
    import numpy

    _check_types("text", values)
    lengths = numpy.fromiter(map(len, values), "i8", len(values))
    if len(lengths) and lengths.max() > slot.most:
        raise ValueError(f"a text of {lengths.max()} characters is longer than {slot.most}")
    padded = "".join([value.ljust(slot.most, "\0") for value in values])
    points = numpy.frombuffer(bytearray(padded.encode("utf-32-le")), "<u4")
    return lengths, points.reshape(len(values), slot.most)


def check_code_points(points: Array) -> None:
    """ValueError for surrogates and whatever else UTF-8 has no bytes for."""
    if (points >= _CODE_POINTS).any() or ((points >= 0xD800) & (points < 0xE000)).any():
        raise ValueError("a code point is none of Unicode's")


def inside(slot: Slot, lengths: Array) -> Array:
    import numpy

    return cast("Array", numpy.arange(slot.most) < lengths[:, None])


def ordinals(values: tuple[str | int, ...], found: Sequence[object]) -> Array:
    import numpy

    places = {value: place for place, value in enumerate(values)}
    try:
        if not set(map(type, found)) <= {str, int}:  # True and 1.0 would be found as 1
            raise TypeError
        return numpy.array([places[cast(str, value)] for value in found], "i8")
    except (KeyError, TypeError):
        raise ValueError(f"not every value is one of {', '.join(map(repr, values))}") from None
