"""Goal: a value of every type a field can have arrives as what it was, in events and in states;
what a target has no word for arrives in the way the documents say, and is never lost in silence."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.runtime.exporting.columns import columns_of, fitting, form_of, short_name, widened
from holdfast.runtime.exporting.payloads import json_text
from tests.runtime.exporting.sinks import Database, Parquet, export, sink_named
from tests.runtime.semantics import World, opened

UTC = datetime.UTC


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 0
    HIGH = 9


class Point(Event):
    x: float
    y: float = 0.0


class Home(msgspec.Struct):
    at: Point
    name: str = ""


@dataclass
class Route:
    points: list[Point]


class Pair(NamedTuple):
    left: int
    right: int = 0


class Loose(TypedDict, total=False):
    z: int


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Load(Event):
    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    text: str = ""
    raw: bytes = b""
    nothing: None = None
    aware: datetime.datetime = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    naive: datetime.datetime = datetime.datetime(2026, 1, 1)
    day: datetime.date = datetime.date(2026, 1, 1)
    clock: datetime.time = datetime.time(0)
    span: datetime.timedelta = datetime.timedelta(0)
    id: uuid.UUID = uuid.UUID(int=0)
    price: decimal.Decimal = decimal.Decimal(0)
    floats: list[float] = []
    numbers: set[int] = set()
    names: frozenset[str] = frozenset()
    both: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    table: dict[str, list[int]] = {}
    by_number: dict[int, float] = {}
    maybe: int | None = None
    either: str | int | None = None
    wide: int | float = 0
    choice: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    mixed: Literal["name", 1] = "name"
    small: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    point: Point = Point(x=0.0)
    home: Home | None = None
    route: Route | None = None
    pair: Pair = Pair(0)
    loose: Loose = {}
    pet: Cat | Dog | None = None
    # Names that a table may trip over.
    key: str = ""
    version: str = ""
    order: int = 0
    xmin: int = 0
    select: str = ""


class Crate(Agent):
    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    text: str = ""
    raw: bytes = b""
    nothing: None = None
    aware: datetime.datetime = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    naive: datetime.datetime = datetime.datetime(2026, 1, 1)
    day: datetime.date = datetime.date(2026, 1, 1)
    clock: datetime.time = datetime.time(0)
    span: datetime.timedelta = datetime.timedelta(0)
    id: uuid.UUID = uuid.UUID(int=0)
    price: decimal.Decimal = decimal.Decimal(0)
    floats: list[float] = []
    numbers: set[int] = set()
    names: frozenset[str] = frozenset()
    both: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    table: dict[str, list[int]] = {}
    by_number: dict[int, float] = {}
    maybe: int | None = None
    either: str | int | None = None
    wide: int | float = 0
    choice: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    mixed: Literal["name", 1] = "name"
    small: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    point: Point = Point(x=0.0)
    home: Home | None = None
    route: Route | None = None
    pair: Pair = Pair(0)
    loose: Loose = {}
    pet: Cat | Dog | None = None
    key: str = ""
    version: str = ""
    order: int = 0
    xmin: int = 0
    select: str = ""

    @on
    def loaded(self, event: Load, ctx: Context) -> None:
        for name in Load.__struct_fields__:
            setattr(self, name, getattr(event, name))


FLEET = Fleet("depot", agents=[Crate])
MOMENT = datetime.datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
FULL = Load(
    flag=True,
    count=-(2**63),
    ratio=-1.5e300,
    text='é 漢 😀 "\\ \n\t tab',
    raw=b"\xff\0\\x",
    aware=MOMENT,
    naive=datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    day=datetime.date(1, 1, 1),
    clock=datetime.time(1, 2, 3),
    span=datetime.timedelta(days=2, microseconds=5),
    id=uuid.UUID(int=7),
    price=decimal.Decimal("-12345678901234567890.50"),
    floats=[1.0, 2.5],
    numbers={3, 1, 2},
    names=frozenset({"b", "a"}),
    both=(1, "a"),
    many=(1, 2),
    table={"a": [1]},
    by_number={7: 1.5},
    maybe=3,
    either="a",
    wide=2,
    choice="b",
    colour=Colour.BLUE,
    level=Level.HIGH,
    mixed=1,
    small=9,
    point=Point(x=1.0, y=2.0),
    home=Home(Point(x=1.0), "base"),
    route=Route([Point(x=3.0)]),
    pair=Pair(1, 2),
    loose={"z": 1},
    pet=Dog("rex"),
    key="mine",
    version="own",
    order=5,
    xmin=6,
    select="from",
)
JSON: dict[str, object] = {
    "flag": True,
    "count": -(2**63),
    "ratio": -1.5e300,
    "text": 'é 漢 😀 "\\ \n\t tab',
    "raw": "/wBceA==",
    "nothing": None,
    "aware": "2026-05-06T07:08:09.123456Z",
    "naive": "2026-01-02T03:04:05.000006",
    "day": "0001-01-01",
    "clock": "01:02:03",
    "span": "P2DT0.000005S",
    "id": "00000000-0000-0000-0000-000000000007",
    "price": "-12345678901234567890.50",
    "floats": [1.0, 2.5],
    "numbers": [1, 2, 3],
    "names": ["a", "b"],
    "both": [1, "a"],
    "many": [1, 2],
    "table": {"a": [1]},
    "by_number": {"7": 1.5},
    "maybe": 3,
    "either": "a",
    "wide": 2,
    "choice": "b",
    "colour": "blue",
    "level": 9,
    "mixed": 1,
    "small": 9,
    "point": {"x": 1.0, "y": 2.0},
    "home": {"at": {"x": 1.0, "y": 0.0}, "name": "base"},
    "route": {"points": [{"x": 3.0, "y": 0.0}]},
    "pair": {"left": 1, "right": 2},
    "loose": {"z": 1},
    "pet": {"type": "dog", "name": "rex"},
    "key": "mine",
    "version": "own",
    "order": 5,
    "xmin": 6,
    "select": "from",
}
# In columns, where that differs from JSON. The others are the same value or JSON text.
COLUMNS: dict[str, object] = {
    "raw": b"\xff\0\\x",
    "aware": MOMENT,
    "day": datetime.date(1, 1, 1),
    "wide": 2.0,
}
TYPED = {
    *("flag", "count", "ratio", "text", "naive", "clock", "span", "maybe", "choice", "colour"),
    *("level", "small", "order", "select"),
}


def one_crate(world: World, event: Load) -> None:
    world.live.send(Crate, "c-1", event)
    world.run()
    assert world.live.state(Crate, "c-1") is not None


def expected(name: str, renamed: dict[str, str]) -> tuple[str, object]:
    column = renamed.get(name, name)
    if name in COLUMNS:
        return column, COLUMNS[name]
    if name in TYPED or name in ("key", "version", "xmin"):
        return column, JSON[name]
    return column, None if JSON[name] is None else JSON[name]


@pytest.mark.parametrize("name", ["file", "folder", "parquet"])
def test_events_of_every_type_in_files(name: str, tmp_path: Path) -> None:
    sink = sink_named(name, tmp_path, "")
    with opened(FLEET, "memory", tmp_path) as world:
        one_crate(world, FULL)
        export(world.engine, "events", sink)
    assert sink.rows("events")[0]["payload"] == JSON


def test_every_type_in_postgres(database: Database, tmp_path: Path) -> None:
    with opened(FLEET, "memory", tmp_path) as world:
        one_crate(world, FULL)
        export(world.engine, "events", database)
        export(world.engine, "states", database)
    assert database.query("SELECT payload FROM depot_events") == [(JSON,)]
    (row,) = database.states("depot").values()
    renamed = {"key": "key_", "version": "version_", "xmin": "xmin_"}
    for field in JSON:
        column, value = expected(field, renamed)
        found = row[column]
        if field == "id":
            found = str(found)
        if field == "price":
            found = str(found)
        assert found == value, field
    assert (row["key"], row["version"]) == ("c-1", 1)
    kinds = dict(
        database.query(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'depot_states_Crate'"
        )
    )
    assert kinds["count"] == kinds["maybe"] == kinds["level"] == kinds["small"] == "bigint"
    assert kinds["ratio"] == kinds["wide"] == "double precision"
    assert (kinds["raw"], kinds["flag"], kinds["day"]) == ("bytea", "boolean", "date")
    assert (kinds["id"], kinds["price"]) == ("uuid", "numeric")
    assert (kinds["aware"], kinds["naive"]) == ("timestamp with time zone", "text")
    assert kinds["pet"] == kinds["numbers"] == kinds["either"] == kinds["mixed"] == "json"


def test_every_type_in_parquet(tmp_path: Path) -> None:
    sink = Parquet(tmp_path)
    with opened(FLEET, "memory", tmp_path) as world:
        one_crate(world, FULL)
        export(world.engine, "states", sink)
    (path,) = (tmp_path / "parquet" / "states" / "Crate").glob("*.parquet")
    table = parquet.ParquetFile(path).read()
    (row,) = table.to_pylist()
    for field in JSON:
        column, value = expected(field, {"key": "key_", "version": "version_"})
        found = row[column]
        if isinstance(found, str) and not isinstance(value, str):
            found = json.loads(found)  # what has no column type of its own
        if field in ("either",):
            found = json.loads(found)
        assert found == value, field
    assert table.schema.field("count").type == arrow.int64()
    assert table.schema.field("ratio").type == arrow.float64()
    assert table.schema.field("aware").type == arrow.timestamp("us", tz="UTC")
    assert table.schema.field("raw").type == arrow.binary()


# ---------------------------------------------------------------- what a target has no word for


ODD = Load(
    count=2**64 - 1,
    ratio=math.inf,
    text="zero \0 byte",
    floats=[math.nan, -math.inf, 1.0],
    price=decimal.Decimal("1E+99999"),
    wide=2**63 + 1,
    maybe=2**63,
)


def test_odd_values_widen_columns_of_postgres(database: Database, tmp_path: Path) -> None:
    with opened(FLEET, "memory", tmp_path) as world:
        one_crate(world, Load(count=5, text="plain", price=decimal.Decimal("1.5"), wide=1))
        export(world.engine, "states", database)
        world.live.send(Crate, "c-2", ODD)
        world.run()
        export(world.engine, "events", database)
        assert export(world.engine, "states", database) == 1
        plain, odd = (database.states("depot")[f"Crate/c-{i}"] for i in (1, 2))
        assert (plain["count"], odd["count"]) == (5, 2**64 - 1)
        assert (plain["maybe"], odd["maybe"]) == (None, 2**63)
        assert (plain["text"], odd["text"]) == ("plain", "zero \0 byte")
        assert (plain["price"], odd["price"]) == (1.5, "1E+99999")
        assert (plain["wide"], odd["wide"]) == (1, 2**63 + 1)
        assert odd["ratio"] == math.inf
        assert odd["floats"] == ["NaN", "-Infinity", 1.0]
        payloads = [row[0] for row in database.query("SELECT payload FROM depot_events")]
        assert payloads[1]["ratio"] == "Infinity"
        assert payloads[1]["text"] == "zero \0 byte"
        assert payloads[1]["count"] == 2**64 - 1
        # And it stays so for values that would have fitted.
        world.live.send(Crate, "c-2", Load(count=1, text="fits"))
        world.run()
        export(world.engine, "states", database)
        after = database.states("depot")["Crate/c-2"]
        assert (after["count"], after["text"]) == (1, "fits")


def test_odd_values_in_parquet(tmp_path: Path) -> None:
    sink = Parquet(tmp_path)
    with opened(FLEET, "memory", tmp_path) as world:
        one_crate(world, ODD)
        export(world.engine, "states", sink)
    (path,) = (tmp_path / "parquet" / "states" / "Crate").glob("*.parquet")
    (row,) = parquet.ParquetFile(path).read().to_pylist()
    assert row["count"] == decimal.Decimal(2**64 - 1)
    assert row["ratio"] == math.inf
    assert json.loads(row["floats"]) == ["NaN", "-Infinity", 1.0]
    assert json.loads(row["text"]) == "zero \0 byte"
    assert row["price"] == "1E+99999"


def test_numbers_that_json_has_no_word_for() -> None:
    assert json_text({"a": math.nan, "b": [math.inf], "c": None}) == (
        b'{"a":"NaN","b":["Infinity"],"c":null}'
    )
    assert json_text({"text": "null"}) == b'{"text":"null"}'


# ---------------------------------------------------------------- which columns


def test_forms() -> None:
    assert form_of({"union": ["int", "null"]}) == "int"
    assert form_of({"union": ["int", "str"]}) == "json"
    assert form_of({"union": ["float", "int"]}) == "float"
    assert form_of({"literal": [1, "a"]}) == "json"
    assert form_of({"list": "int"}) == "json"
    assert form_of("null") == "json"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "float", "float"),
        ("int", "number", "number"),
        ("number", "float", "json"),
        ("int", "decimal", "decimal"),
        ("uuid", "text", "text"),
        ("moment", "date", "text"),
        ("bool", "int", "json"),
        ("json", "text", "json"),
    ],
)
def test_widening(one: Any, other: Any, both: str) -> None:
    assert widened(one, other) == widened(other, one) == both


def test_what_fits() -> None:
    assert fitting("int", [1, None, 2**63 - 1]) == "int"
    assert fitting("int", [2**63]) == "number"
    assert fitting("decimal", ["1.5", "NaN", "Infinity", 3]) == "decimal"
    assert fitting("decimal", ["sNaN"]) == "text"
    assert fitting("moment", ["2026-01-01T00:00:00Z"]) == "moment"
    assert fitting("moment", ["2026-01-01T00:00:00"]) == "text"
    assert fitting("moment", ["2026-01-01T00:00:00", "\0"]) == "json"


def test_long_names_keep_their_beginning_and_differ() -> None:
    one, other = (short_name("ü" * 60 + end, 63) for end in "ab")
    assert one != other
    assert max(len(each.encode()) for each in (one, other)) <= 63
    assert one.startswith("üüüü")
    assert short_name("x" * 63, 63) == "x" * 63


def test_a_taken_name_gets_a_mark() -> None:
    class Shelf(Agent):
        key: str = ""
        key_: str = ""
        gone: int = 0

    columns = columns_of([Shelf.__holdfast__.schema], ("key", "gone"))
    assert [(each.name, each.field) for each in columns] == [
        ("key__", "key"),
        ("key_", "key_"),
        ("gone_", "gone"),
    ]
