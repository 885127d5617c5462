"""Columns as a user gives them to `send_columns`, checked and made into arrays.

What is accepted is what rows would accept: an int may stand for a float, but no float for an int
and no int for a bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.errors import UsageError
from holdfast.model.event import Event
from holdfast.model.keys import shortened
from holdfast.model.layout import NoLayout, Slot, slots_of
from holdfast.stepping.arrays import array_of, check_code_points

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array, Arrays

EVENT_TIME_END = 1e300  # either way
_WANTED = {
    "int": "integers of 64 bits, as .astype(numpy.int64) makes them",
    "float": "numbers",
    "bool": "bools",
}


def need_numpy() -> None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise UsageError(
            "columns need numpy: pip install 'holdfast[compiled]', or use send_many"
        ) from None


def layout_of(event: type[Event]) -> tuple[Slot, ...]:
    try:
        return slots_of(event.__holdfast__.schema)
    except NoLayout as reason:
        raise UsageError(f"{reason}. Events with other fields go by send_many") from None


def arrays_from(
    event: type[Event], slots: Sequence[Slot], columns: Mapping[str, object], count: int
) -> list[Arrays]:
    """One entry per slot, each for `count` rows."""
    name = event.__name__
    known = [slot.name for slot in slots]
    for given in columns:
        if given not in known:
            has = ", ".join(known) or "no fields"
            raise UsageError(f"{name} has no field {given!r}: it has {has}")
    found = []
    for slot in slots:
        if slot.name in columns:
            found.append(_Given(name, slot, count).array(columns[slot.name]))
        else:
            found.append(_broadcast(_default(event, slot), count))
    return found


def times_from(event_time: object, count: int) -> Array | None:
    import numpy

    if event_time is None:
        return None
    given = _Given("send_columns", Slot("event_time", "float"), count)
    times = cast("Array", given.array(event_time))
    if not (fits := numpy.abs(times) < EVENT_TIME_END).all():
        wrong = times[~fits][0]
        raise UsageError(f"event_time cannot be {wrong}: give seconds as a number")
    return times


def _default(event: type[Event], slot: Slot) -> Arrays:
    fields: Sequence[msgspec.structs.FieldInfo] = msgspec.structs.fields(event)  # type: ignore[arg-type]
    field = next(each for each in fields if each.name == slot.name)
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = cast("Callable[[], object]", field.default_factory)()
    if value is msgspec.NODEFAULT:
        raise UsageError(
            f"{event.__name__} needs the column {slot.name!r}: give an array, or one value for "
            f"all rows"
        )
    try:
        return array_of(slot, [msgspec.to_builtins(value)])
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{event.__name__}: the default of {slot.name!r}: {error}") from None


def _broadcast(one: Arrays, count: int) -> Arrays:
    """One row for all of them: strides of 0 tell whoever stores it."""
    import numpy

    if isinstance(one, tuple):
        lengths, whole = one
        wide = numpy.broadcast_to(whole, (count, whole.shape[1]))
        return numpy.broadcast_to(lengths, count), wide
    return numpy.broadcast_to(one, count)


class _Given:
    """One column: what was given for it, and whether that will do."""

    def __init__(self, event: str, slot: Slot, count: int) -> None:
        self._event = event
        self._slot = slot
        self._count = count

    def array(self, value: object) -> Arrays:
        import numpy

        slot = self._slot
        if isinstance(value, numpy.ndarray) and value.dtype.names:
            raise self._refused("it is an array of records: give one field of it")
        if isinstance(value, numpy.ma.MaskedArray) and value.mask.any():
            raise self._refused("some of its values are masked: fill them")
        if not has_rows(value):
            if slot.kind == "list":
                raise self._refused(f"it is {shortened(value)}: give one list per row")
            return _broadcast(self._from_values([value]), self._count)
        rows = value if isinstance(value, (list, tuple)) else self._as_array(value)
        if len(rows) != self._count:
            told = f"it has {len(rows):,} values for {self._count:,} keys"
            raise self._refused(f"{told}: give one per key, or one for all")
        if isinstance(rows, numpy.ndarray) and rows.dtype.kind != "O":
            return self._from_array(rows)
        return self._from_values(list(rows))

    def _as_array(self, value: object) -> Array:
        import numpy

        try:
            found = numpy.asarray(value)
        except ValueError as error:
            raise self._refused(f"it is no array ({error})") from None
        if not found.ndim:
            raise self._refused(f"it is {shortened(value)}: give an array, a list or one value")
        return found

    def _from_array(self, rows: Array) -> Arrays:
        slot = self._slot
        wide = 2 if slot.kind == "list" else 1
        if rows.ndim != wide:
            raise self._refused(f"it has {rows.ndim} dimensions: give {wide}")
        if slot.kind == "list":
            return self._from_matrix(rows)
        if slot.kind == "text" and rows.dtype.kind == "U":
            return self._from_texts(rows)
        if slot.kind in ("enum", "text"):
            return self._from_values(rows.tolist())
        return self._numbers(slot.kind, rows)

    def _numbers(self, kind: str, rows: Array) -> Array:
        found = rows.dtype.kind
        if kind == "int" and found in "iu":
            if rows.dtype.itemsize == 8 and found == "u" and len(rows) and rows.max() >= 1 << 63:
                raise self._refused(f"{rows.max()} has more than 63 bits and a sign")
            return rows.astype("i8", copy=False)
        if kind == "float" and (found in "iu" or (found == "f" and rows.dtype.itemsize <= 8)):
            return rows.astype("f8", copy=False)
        if kind == "bool" and found == "b":
            return rows.astype("i8")
        raise self._refused(f"it is an array of {rows.dtype.name}: give {_WANTED[kind]}")

    def _from_matrix(self, rows: Array) -> Arrays:
        import numpy

        slot = self._slot
        count, most = rows.shape
        if most > slot.most:
            raise self._refused(f"its lists have {most} items: {slot.most} is the most")
        if slot.item == "enum":
            return self._from_values(rows.tolist())
        items = self._numbers(slot.item, rows.reshape(-1)).reshape(rows.shape)
        whole = numpy.zeros((count, slot.most), items.dtype)
        whole[:, :most] = items
        return numpy.full(count, most, "i8"), whole

    def _from_texts(self, rows: Array) -> Arrays:
        import numpy

        slot = self._slot
        count, width = len(rows), max(1, rows.dtype.itemsize // 4)
        points = numpy.ascontiguousarray(rows, f"<U{width}").view("<u4").reshape(count, width)
        lengths = numpy.where(points != 0, numpy.arange(1, width + 1), 0).max(1, initial=0)
        longest = int(lengths.max(initial=0))
        if longest > slot.most:
            row = int(lengths.argmax())
            raise self._refused(f"row {row} has {longest} characters: {slot.most} is the most")
        try:
            check_code_points(points)
        except ValueError as error:
            raise self._refused(str(error)) from None
        whole = numpy.zeros((count, slot.most), "u4")
        whole[:, :longest] = points[:, :longest]
        return lengths, whole

    def _from_values(self, values: Sequence[object]) -> Arrays:
        slot = self._slot
        plain: Sequence[object] = [_plain(value) for value in values]
        try:
            return array_of(slot, plain)
        except (TypeError, ValueError, OverflowError):
            pass
        for row, value in enumerate(plain):
            try:
                array_of(slot, [value])
            except (TypeError, ValueError, OverflowError) as error:
                where = f"row {row}: " if len(plain) > 1 else ""
                raise self._refused(f"{where}{shortened(values[row])}: {error}") from None
        raise AssertionError("each value will do alone, but not all together")

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"{self._event}: column {self._slot.name!r}: {why}")


def has_rows(value: object) -> bool:
    """An array, a list or the like, but no single value: no text, and none of numpy's."""
    single = isinstance(value, (str, bytes, Enum))
    return not single and hasattr(value, "__len__") and getattr(value, "shape", None) != ()


def _plain(value: object) -> object:
    """A member as its value, a scalar or an array of numpy as Python's; but no time, which would
    become a number of some unit."""
    import numpy

    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (numpy.generic, numpy.ndarray)) and value.dtype.kind not in "mM":
        return value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value
