"""Goal, as properties: any value written by an old class reads under every compatible new one, with
equal values in the fields that were kept; and rows go through names and back unchanged."""

import datetime
import json
import uuid
from enum import Enum
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.event import Event, EventMeta
from holdfast.model.schema import RowReader, Schema, UntypedReader


class Mode(Enum):
    UP = "up"
    DOWN = "down"


class MoreModes(Enum):
    SIDE = "side"
    DOWN = "down"
    UP = "up"


class Point(Event):
    x: int
    y: float = 0.0


class FinerPoint(Event):
    x: float
    y: float = 0.0
    z: float = 0.0


class Kind(NamedTuple):
    """A type, its values, and the types that may follow it."""

    now: Any
    values: st.SearchStrategy[Any]
    later: tuple[Any, ...] = ()


# Beyond 2**53 an int has no equal float; that is the price of `int -> float`.
INTS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False)
POINTS = st.builds(Point, INTS, FLOATS)
KINDS = [
    Kind(bool, st.booleans(), (bool | None,)),
    Kind(int, INTS, (float, int | None, float | str, int | str | None)),
    Kind(float, FLOATS, (float | None, float | str)),
    Kind(str, st.text(), (str | None, str | int)),
    Kind(bytes, st.binary(), (bytes | None,)),
    Kind(datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC)), ()),
    Kind(datetime.timedelta, st.timedeltas(min_value=datetime.timedelta(0)), ()),
    Kind(uuid.UUID, st.uuids(), (uuid.UUID | None,)),
    Kind(Mode, st.sampled_from(Mode), (MoreModes, MoreModes | None)),
    Kind(list[int], st.lists(INTS), (list[float], list[int | None], list[int] | None)),
    Kind(dict[str, int], st.dictionaries(st.text(), INTS), (dict[str, float],)),
    Kind(dict[int, Mode], st.dictionaries(INTS, st.sampled_from(Mode)), (dict[int, MoreModes],)),
    Kind(tuple[int, str], st.tuples(INTS, st.text()), (tuple[float, str | None],)),
    Kind(int | None, st.none() | INTS, (float | None, int | str | None)),
    Kind(Point, POINTS, (FinerPoint, FinerPoint | None)),
    Kind(list[Point], st.lists(POINTS, max_size=3), (list[FinerPoint],)),
]
NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5)


def event_class(fields: dict[str, Any], defaults: dict[str, Any] | None = None) -> type[Event]:
    names = {"__annotations__": fields, "__module__": __name__, **(defaults or {})}
    return EventMeta("Written", (Event,), names)  # type: ignore[return-value]


def stored(cls: type[Event]) -> Schema:
    """The schema as a later process finds it."""
    return Schema.from_json(json.loads(json.dumps(cls.__holdfast__.schema.to_json())))


def plain(value: object) -> object:
    """Values to compare: an enum by its value, a nested event by its fields."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Event):
        return [plain(getattr(value, name)) for name in value.__struct_fields__][:2]
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Kind], list[Event]]:
    """A class of random fields, and some instances of it."""
    kinds = {name: draw(st.sampled_from(KINDS)) for name in draw(NAMES)}
    cls = event_class({name: kind.now for name, kind in kinds.items()})
    rows = draw(st.lists(st.builds(cls, *(kind.values for kind in kinds.values())), max_size=3))
    return kinds, [cls(*([None] * len(kinds))), *rows]


@given(written(), st.data())
def test_kept_fields_read_equal_under_every_compatible_class(
    case: tuple[dict[str, Kind], list[Event]], data: st.DataObject
) -> None:
    kinds, (first, *rows) = case
    choices = {name: st.sampled_from((kind.now, *kind.later)) for name, kind in kinds.items()}
    fields = {name: data.draw(choices[name]) for name in data.draw(st.permutations([*kinds]))}
    added = data.draw(st.sets(st.sampled_from("uvw")))
    defaults: dict[str, Any] = dict.fromkeys(added, 7)
    fields |= dict.fromkeys(added, int)
    if data.draw(st.booleans(), label="new fields between old ones"):
        # Fields without a default come first, so a user who does this gives the old ones one too.
        names = data.draw(st.permutations([*fields]))
        fields = {name: fields[name] | None for name in names}
        defaults = dict.fromkeys(names, None) | defaults
    new = event_class(fields, defaults)
    reader = RowReader(new, stored(type(first)))
    for row, read in zip(rows, reader.rows(msgspec.msgpack.encode(rows)), strict=True):
        for name in kinds:
            assert plain(getattr(read, name)) == plain(getattr(row, name))
        assert all(getattr(read, name) == 7 for name in added)
        assert reader.row(msgspec.msgpack.encode(row)) == read


@given(written(), st.data())
def test_renamed_fields_read_equal_through_an_upcast(
    case: tuple[dict[str, Kind], list[Event]], data: st.DataObject
) -> None:
    kinds, (first, *rows) = case
    shuffled = data.draw(st.permutations([f"new_{name}" for name in kinds]))
    new_names = dict(zip(kinds, shuffled, strict=True))

    def upcast(cls: type[Event], old: dict[str, object]) -> dict[str, object]:
        return {new_names[name]: value for name, value in old.items()}

    fields = {new_names[name]: kind.now for name, kind in kinds.items()}
    new = event_class(fields, {"upcast": classmethod(upcast)})
    reader = RowReader(new, stored(type(first)))
    for row, read in zip(rows, reader.rows(msgspec.msgpack.encode(rows)), strict=True):
        for name in kinds:
            assert getattr(read, new_names[name]) == getattr(row, name)


@given(written())
def test_rows_go_through_names_and_back_unchanged(
    case: tuple[dict[str, Kind], list[Event]],
) -> None:
    _, (first, *rows) = case
    reader = UntypedReader(stored(type(first)))
    for row in rows:
        bytes_of_row = msgspec.msgpack.encode(row)
        values = reader.row(bytes_of_row)
        assert reader.pack(values) == bytes_of_row
        # As a command line does it: out as JSON, in as JSON, which has no word for infinity.
        if "inf" not in repr(row):
            assert reader.pack(json.loads(msgspec.json.encode(values))) == bytes_of_row
