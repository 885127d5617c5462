"""Goal: a type survives the way to JSON and back, and reads the same bytes afterwards."""

import datetime
import decimal
import json
import uuid
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import msgspec
import pytest

from holdfast.errors import DefinitionError
from holdfast.model.event import Event
from holdfast.model.types import accepts, describe, rebuild


class Mode(Enum):
    UP = "up"
    DOWN = "down"


class MoreModes(Enum):
    DOWN = "down"
    UP = "up"
    SIDE = "side"


class Level(IntEnum):
    LOW = 0
    HIGH = 9


class Point(Event):
    x: float
    y: float = 0.0


class Home(msgspec.Struct, omit_defaults=True):
    at: Point
    name: str = ""


@dataclass
class Route:
    points: list[Point]


class Pair(NamedTuple):
    left: int
    right: int = 3


class Tagged(msgspec.Struct, tag="t", array_like=True):
    x: int


class TaggedToo(msgspec.Struct, tag="u", array_like=True):
    y: int


class Loose(TypedDict, total=False):
    z: int


Meters = NewType("Meters", float)
POINT = {
    "struct": "Point",
    "form": "array",
    "fields": [["x", "float", True], ["y", "float", False]],
}

TYPES: list[tuple[object, object, list[object]]] = [
    (bool, "bool", [True, False]),
    (int, "int", [0, -(2**63), 2**64 - 1]),
    (float, "float", [0.0, -1.5, 1e300]),
    (str, "str", ["", "é\0"]),
    (bytes, "bytes", [b"", b"\xff\0"]),
    (None, "null", [None]),
    (
        datetime.datetime,
        "datetime",
        [datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.datetime.now(datetime.UTC)],
    ),
    (datetime.date, "date", [datetime.date(2026, 1, 2)]),
    (datetime.time, "time", [datetime.time(1, 2, 3)]),
    (datetime.timedelta, "timedelta", [datetime.timedelta(days=2, microseconds=5)]),
    (uuid.UUID, "uuid", [uuid.UUID(int=7)]),
    (decimal.Decimal, "decimal", [decimal.Decimal("1.50")]),
    (Meters, "float", [1.0]),
    (list[float], {"list": "float"}, [[], [1.0]]),
    (set[int], {"set": "int"}, [{1}]),
    (frozenset[str], {"frozenset": "str"}, [frozenset("a")]),
    (tuple[int, str], {"tuple": ["int", "str"]}, [(1, "a")]),
    (tuple[int, ...], {"tuple_of": "int"}, [(), (1, 2)]),
    (dict[str, list[int]], {"dict": ["str", {"list": "int"}]}, [{"a": [1]}]),
    (dict[int, float], {"dict": ["int", "float"]}, [{7: 1.0}]),
    (int | None, {"union": ["int", "null"]}, [None, 3]),
    (Optional[str], {"union": ["null", "str"]}, [None, "a"]),  # noqa: UP045
    (Union[str, int, None], {"union": ["int", "null", "str"]}, [None, 1, "a"]),  # noqa: UP007
    (Literal["b", "a"], {"literal": ["a", "b"]}, ["a"]),
    (Mode, {"enum": "Mode", "values": ["up", "down"], "names": ["UP", "DOWN"]}, list(Mode)),
    (Level, {"enum": "Level", "values": [0, 9], "names": ["LOW", "HIGH"]}, list(Level)),
    (Annotated[int, msgspec.Meta(ge=0, le=9)], {"limited": "int", "by": {"ge": 0, "le": 9}}, [5]),
    (Annotated[str, "a note"], "str", ["a"]),
    (Point, POINT, [Point(1.0), Point(1.0, 2.0)]),
    (
        Home,
        {"struct": "Home", "form": "map", "fields": [["at", POINT, True], ["name", "str", False]]},
        [Home(Point(1.0)), Home(Point(1.0), "base")],
    ),
    (
        Route,
        {"struct": "Route", "form": "map", "fields": [["points", {"list": POINT}, True]]},
        [Route([Point(1.0)])],
    ),
    (
        Pair,
        {
            "struct": "Pair",
            "form": "array",
            "fields": [["left", "int", True], ["right", "int", False]],
        },
        [Pair(1), Pair(1, 2)],
    ),
    (
        Loose,
        {"struct": "Loose", "form": "map", "fields": [["z", "int", False]]},
        [{}, {"z": 1}],
    ),
    (
        Tagged,
        {
            "struct": "Tagged",
            "form": "array",
            "fields": [["x", "int", True]],
            "tag": "t",
            "tag_field": "type",
        },
        [Tagged(1)],
    ),
]


@pytest.mark.parametrize(("kind", "tree", "values"), TYPES, ids=lambda each: str(each)[:40])
def test_there_and_back(kind: object, tree: object, values: list[object]) -> None:
    described = describe(kind)
    assert described == tree
    stored = json.loads(json.dumps(described))
    again = rebuild(stored)
    assert describe(again) == tree
    for value in values:
        written = msgspec.msgpack.encode(value)
        read = msgspec.msgpack.decode(written, type=again)
        assert msgspec.msgpack.encode(read) == written


def test_the_order_in_a_union_does_not_matter() -> None:
    assert describe(int | str | None) == describe(None | str | int)


def test_a_struct_in_itself_is_refused() -> None:
    with pytest.raises(DefinitionError, match="Node contains itself"):
        describe(Node)


class Node(msgspec.Struct):
    children: "list[Node]"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (float, int),
        (int | None, int),
        (float | None, int),
        (int | str | None, str | int),
        (list[float], list[int]),
        (dict[str, float | None], dict[str, int]),
        (tuple[float, str], tuple[int, str]),
        (MoreModes, Mode),
        (MoreModes | None, Mode | None),
        (Literal["a", "b"], Literal["a"]),
        (int, Annotated[int, msgspec.Meta(ge=0)]),
        (Annotated[int, msgspec.Meta(ge=-1)], Annotated[int, msgspec.Meta(ge=0)]),
        (Annotated[int, msgspec.Meta(le=9)], Annotated[int, msgspec.Meta(le=5, ge=0)]),
        (Annotated[float, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]),
        (Tagged | TaggedToo, Tagged),
    ],
    ids=str,
)
def test_what_may_follow(new: object, old: object) -> None:
    assert accepts(describe(new), describe(old))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (int, float),
        (int, bool),
        (int, str),
        (str, int),
        (int, int | None),
        (int | None, int | str),
        (list[int], list[float]),
        (list[int], set[int]),
        (tuple[int, int], tuple[int]),
        (dict[str, int], dict[int, int]),
        (Mode, MoreModes),
        (Literal["a"], Literal["a", "b"]),
        (str, Mode),
        (Annotated[int, msgspec.Meta(ge=0)], int),
        (Annotated[int, msgspec.Meta(ge=1)], Annotated[int, msgspec.Meta(ge=0)]),
        (Annotated[int, msgspec.Meta(le=1)], Annotated[int, msgspec.Meta(le=5)]),
        (Annotated[int, msgspec.Meta(ge=0)], list[int]),
        (Annotated[str, msgspec.Meta(pattern="a")], Annotated[str, msgspec.Meta(pattern="b")]),
        (Point, int),
        (TaggedToo, Tagged),
    ],
    ids=str,
)
def test_what_may_not_follow(new: object, old: object) -> None:
    assert not accepts(describe(new), describe(old))


def record(form: str, *fields: tuple[str, object, bool]) -> dict[str, object]:
    return {"struct": "S", "form": form, "fields": [list(each) for each in fields]}


@pytest.mark.parametrize("form", ["array", "map"])
def test_nested_records_may_grow_at_the_end(form: str) -> None:
    x, y = ("x", "int", True), ("y", "int", False)
    assert accepts(record(form, x, y), record(form, x))
    assert accepts(record(form, ("x", "float", True), y), record(form, x))
    assert not accepts(record(form, x), record(form, x, y))
    assert not accepts(record(form, x, ("y", "int", True)), record(form, x))
    assert accepts(record(form, y, x), record(form, x)) == (form == "map")
    assert not accepts(record("map", x), record("array", x))
