"""Goal: data written by older classes reads under newer ones, or is refused with the way out."""

import json
from enum import Enum
from typing import Any

import msgspec
import pytest

from holdfast.errors import DamagedData, SchemaError, UsageError
from holdfast.model.agent import Agent
from holdfast.model.event import Action, Event
from holdfast.model.schema import Field, RowReader, Schema, UntypedReader, check_successor


class Mode(Enum):
    UP = "up"
    DOWN = "down"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Point(Event):
    x: float
    y: float = 0.0


class Flown(Event):
    mode: Mode
    at: Point
    track: list[Point] = []
    by: dict[int, Point] = {}
    level: Level | None = None
    alt: float = 5.0


FLOWN = Flown.__holdfast__.schema


def schema(*fields: tuple[str, Any, bool]) -> Schema:
    return Schema("event", "Wind", tuple(Field(*each) for each in fields))


def through_json(stored: Schema) -> Schema:
    return Schema.from_json(json.loads(json.dumps(stored.to_json())))


# ---------------------------------------------------------------- the schema itself


def test_a_schema_survives_json() -> None:
    again = through_json(FLOWN)
    assert again == FLOWN
    assert again.options == FLOWN.options
    assert again.fingerprint == FLOWN.fingerprint
    assert hash(again) == hash(FLOWN)


def test_the_fingerprint_is_golden() -> None:
    """Stored data carries fingerprints: if this changes, every reader takes the slow way."""
    assert schema(("speed", "float", True)).fingerprint == "97fc7f8aca5bfd5f"


def test_the_fingerprint_depends_on_kind_name_and_fields_only() -> None:
    base = schema(("a", "int", True), ("b", "int", True))
    others = [
        schema(("b", "int", True), ("a", "int", True)),
        schema(("a", "int", True)),
        schema(("a", "int", True), ("b", "float", True)),
        schema(("a", "int", True), ("b", "int", False)),
        Schema("action", base.name, base.fields),
        Schema("event", "Other", base.fields),
    ]
    assert len({each.fingerprint for each in [base, *others]}) == 7
    with_options = Schema(base.kind, base.name, base.fields, {"expires": 5.0})
    assert with_options.fingerprint == base.fingerprint


def test_options_carry_defaults_and_declarations() -> None:
    class Order(Action, expires=5.0, priority="urgent"):
        mode: Mode = Mode.UP
        point: Point = Point(1.0)
        nan: float = float("nan")
        deep: Point = Point(float("inf"))

    class Drone(Agent, unhandled="defer"):
        tags: set[str] = set()
        made: list[int] = msgspec.field(default_factory=lambda: [1])

    options = Order.__holdfast__.schema.options
    # NaN has no JSON, and what a factory makes is its own business.
    assert options["defaults"] == {"mode": "up", "point": [1.0, 0.0]}
    assert (options["expires"], options["priority"]) == (5.0, "urgent")
    assert Drone.__holdfast__.schema.options["defaults"] == {"tags": []}
    assert Drone.__holdfast__.schema.options["unhandled"] == "defer"


def test_a_damaged_schema_is_named() -> None:
    with pytest.raises(DamagedData, match="a stored schema cannot be read"):
        Schema.from_json({"kind": "event"})


# ---------------------------------------------------------------- which class may follow which

ONE = schema(("speed", "float", True))


@pytest.mark.parametrize(
    "new",
    [
        ONE,
        schema(("speed", "float", False)),
        schema(("speed", "float", True), ("gusts", "float", False)),
        schema(("gusts", "float", False), ("speed", "float", True)),
        schema(("speed", {"union": ["float", "null"]}, True)),
    ],
)
def test_additions_just_work(new: Schema) -> None:
    check_successor(new, ONE, has_upcast=False)


def test_order_and_widening() -> None:
    old = schema(("a", "int", True), ("b", "str", True))
    check_successor(schema(("b", "str", True), ("a", "float", True)), old, has_upcast=False)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (
            schema(("speed", "float", True), ("gusts", "float", True)),
            ["Wind.gusts is new and has no default", "give it a default", "`upcast`"],
        ),
        (schema(), ["Wind.speed is stored", "no such field:", "Keep the field", "`upcast`"]),
        (
            schema(("velocity", "float", False)),
            ["Wind.speed is stored", "(renamed to velocity?)", "`upcast`"],
        ),
        (
            schema(("speed", "str", True)),
            ['Wind.speed was stored as "float" and is "str" now', "default", "`upcast`"],
        ),
    ],
)
def test_what_would_lose_or_misread_is_refused(new: Schema, says: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        check_successor(new, ONE, has_upcast=False)
    for part in says:
        assert part in str(caught.value)
    check_successor(new, ONE, has_upcast=True)


def test_an_event_cannot_become_an_action() -> None:
    with pytest.raises(SchemaError, match="give the new class another name"):
        check_successor(Schema("action", "Wind", ONE.fields), ONE, has_upcast=True)


# ---------------------------------------------------------------- reading rows into classes


def test_the_same_schema_is_read_by_the_plain_decoder() -> None:
    """The fast way: no Python per row. `__self__` is msgspec's own decoder."""
    reader = RowReader(Flown, through_json(FLOWN))
    assert isinstance(reader._decode_rows.__self__, msgspec.msgpack.Decoder)  # type: ignore[attr-defined]
    flown = Flown(Mode.UP, Point(1.0), [Point(2.0)], {7: Point(3.0)}, Level.HIGH)
    assert reader.rows(msgspec.msgpack.encode([flown, flown])) == [flown, flown]
    assert reader.row(msgspec.msgpack.encode(flown)) == flown


def test_fields_added_at_the_end_are_read_by_the_plain_decoder_too() -> None:
    class Wind(Event):
        speed: float
        gusts: list[float] = []

    reader = RowReader(Wind, schema(("speed", "int", True)))
    assert isinstance(reader._decode_rows.__self__, msgspec.msgpack.Decoder)  # type: ignore[attr-defined]
    one, other = reader.rows(msgspec.msgpack.encode([[3], [4]]))
    assert (one, other) == (Wind(3.0), Wind(4.0))
    assert one.gusts is not other.gusts
    assert type(one.speed) is float


def test_fields_in_another_order_and_in_between() -> None:
    class Wind(Event):
        new: str = "n"
        b: Mode = Mode.UP
        at: Point = Point(0.0)
        a: float = 0.0

    point = Point.__holdfast__.schema
    tree = {
        "struct": "Point",
        "form": "array",
        "fields": [[each.name, each.type, each.required] for each in point.fields],
    }
    mode = {"enum": "Mode", "values": ["down"], "names": ["DOWN"]}
    reader = RowReader(Wind, schema(("a", "int", True), ("b", mode, True), ("at", tree, True)))
    rows = msgspec.msgpack.encode([[7, "down", [1.0, 2.0]]])
    assert reader.rows(rows) == [Wind("n", Mode.DOWN, Point(1.0, 2.0), 7.0)]
    assert reader.row(msgspec.msgpack.encode([7, "down", [1.0, 2.0]])).a == 7.0


def test_an_upcast_gets_names_and_builtins_and_says_where_they_go() -> None:
    given: list[dict[str, object]] = []

    class Flown(Event):
        place: Point
        mode: Mode
        height_m: float

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            given.append(dict(old))
            return {"place": old["at"], "mode": old["mode"], "height_m": old["alt"]}

    written = msgspec.msgpack.encode([FLOWN_ROW])
    assert RowReader(Flown, through_json(FLOWN)).rows(written) == [
        Flown(Point(1.0, 2.0), Mode.DOWN, 5.0)
    ]
    assert given == [
        {
            "mode": "down",
            "at": {"x": 1.0, "y": 2.0},
            "track": [{"x": 3.0, "y": 4.0}],
            "by": {7: {"x": 5.0, "y": 6.0}},
            "level": 2,
            "alt": 5.0,
        }
    ]


FLOWN_ROW = ["down", [1.0, 2.0], [[3.0, 4.0]], {7: [5.0, 6.0]}, 2, 5.0]


def test_an_upcast_is_not_asked_for_rows_of_today() -> None:
    class Wind(Event):
        speed: float

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            raise AssertionError

    reader = RowReader(Wind, Wind.__holdfast__.schema)
    assert reader.rows(msgspec.msgpack.encode([[3.0]])) == [Wind(3.0)]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ({"speed": "fast"}, "Wind.upcast returned 'fast' for speed: Expected `float`"),
        ({"velocity": 1.0}, "Wind.upcast returned 'velocity', which Wind does not have"),
        ({}, "Wind.upcast left out a field"),
        (None, "Wind.upcast returned None: return a dict"),
        (ZeroDivisionError("x"), r"Wind.upcast failed on a row of \w{16}: ZeroDivisionError"),
    ],
)
def test_a_wrong_upcast_is_named(result: Any, says: str) -> None:
    class Wind(Event):
        speed: float

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            if isinstance(result, Exception):
                raise result
            return result

    reader = RowReader(Wind, schema(("old", "int", True)))
    with pytest.raises(SchemaError, match=says):
        reader.row(msgspec.msgpack.encode([3]))


def test_a_state_is_upcast_like_an_event() -> None:
    class Drone(Agent):
        battery_percent: float = 100.0
        mode: Mode = Mode.UP

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            return {"battery_percent": old["battery"]}

    stored = Schema("state", "Drone", (Field("battery", "float", False),))
    drone = RowReader(Drone, stored).row(msgspec.msgpack.encode([9.0]))
    assert drone == Drone(battery_percent=9.0, mode=Mode.UP)
    drone.battery_percent = 8.0


def test_a_reader_for_rows_that_do_not_fit_is_never_made() -> None:
    class Wind(Event):
        speed: float

    with pytest.raises(SchemaError, match=r"Wind\.old is stored"):
        RowReader(Wind, schema(("speed", "float", True), ("old", "int", True)))


@pytest.mark.parametrize("rows", [b"\x91\x91\xa1x", b"\x91", b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_rows_that_are_not_what_the_schema_says_are_damage(rows: bytes) -> None:
    class Wind(Event):
        gusts: float = 0.0
        speed: float = 0.0

    for stored in (Wind.__holdfast__.schema, schema(("speed", "float", True))):
        with pytest.raises(DamagedData, match="event Wind"):
            RowReader(Wind, stored).rows(rows)
        with pytest.raises(DamagedData, match="event Wind"):
            RowReader(Wind, stored).row(rows)
        with pytest.raises(DamagedData, match="event Wind"):
            UntypedReader(stored).rows(rows + b"\0")


def test_bytes_that_are_no_text_are_damage() -> None:
    class Note(Event):
        text: str

    stored = Note.__holdfast__.schema
    rows = b"\x91\x91\xa2\xff\xfe"
    for reader in (RowReader(Note, stored), UntypedReader(stored)):
        with pytest.raises(DamagedData, match="event Note"):
            reader.rows(rows)
        with pytest.raises(DamagedData, match="event Note"):
            reader.row(rows[1:])


# ---------------------------------------------------------------- reading without classes


def test_rows_without_classes_have_names_everywhere() -> None:
    reader = UntypedReader(through_json(FLOWN))
    row = {
        "mode": "down",
        "at": {"x": 1.0, "y": 2.0},
        "track": [{"x": 3.0, "y": 4.0}],
        "by": {7: {"x": 5.0, "y": 6.0}},
        "level": 2,
        "alt": 5.0,
    }
    assert reader.rows(msgspec.msgpack.encode([FLOWN_ROW])) == [row]
    assert reader.row(msgspec.msgpack.encode(FLOWN_ROW)) == row
    assert reader.pack(row) == msgspec.msgpack.encode(FLOWN_ROW)


def test_packing_fills_in_defaults_and_knows_enums_by_name() -> None:
    packed = UntypedReader(through_json(FLOWN)).pack(
        {"mode": "DOWN", "at": {"x": 1, "y": 2}, "by": {"7": {"x": 1, "y": 2}}, "level": "HIGH"}
    )
    expected = Flown(Mode.DOWN, Point(1.0, 2.0), by={7: Point(1.0, 2.0)}, level=Level.HIGH)
    assert msgspec.msgpack.decode(packed, type=Flown) == expected


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"mode": "up"}, "Flown needs the field 'at'"),
        ({"speed": 1}, "Flown has no field 'speed': it has mode, at, track, by, level, alt"),
        ({"mode": "up", "at": {"x": "1", "y": 2}}, "Flown.at cannot be .* Expected `float`"),
        ({"mode": "up", "at": {"x": 1}}, "Flown.at cannot be .* Point needs the field 'y'"),
        ({"mode": "up", "at": {"x": 1, "y": 1, "z": 1}}, "Point has no field 'z': it has x, y"),
        ({"mode": "sideways", "at": [1, 2]}, "Flown.mode cannot be 'sideways': Invalid enum value"),
        ({"mode": "up", "at": [1, 2], "alt": "5"}, "Flown.alt cannot be '5': Expected `float`"),
        ({"mode": "up", "at": [1, 2], "alt": True}, "Flown.alt cannot be True"),
        ({"mode": "up", "at": [1, 2], "level": 3}, "Flown.level cannot be 3"),
        ({"mode": 1, "at": [1, 2]}, "Flown.mode cannot be 1"),
    ],
)
def test_wrong_values_are_named(values: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        UntypedReader(through_json(FLOWN)).pack(values)
    assert "\n" not in str(caught.value)


def test_a_class_without_fields() -> None:
    class Ping(Event):
        pass

    reader = UntypedReader(through_json(Ping.__holdfast__.schema))
    assert reader.pack({}) == msgspec.msgpack.encode(Ping()) == b"\x90"
    assert reader.rows(b"\x92\x90\x90") == [{}, {}]
    with pytest.raises(UsageError, match="it has no fields"):
        reader.pack({"x": 1})


def test_sets_are_read_in_one_order_whatever_the_order_on_disk() -> None:
    class Tagged(Event):
        tags: set[str | int | float]
        nested: dict[str, frozenset[str]]

    reader = UntypedReader(Tagged.__holdfast__.schema)
    orders = [["b", "a", 3, -1, 2.5], [2.5, -1, "a", 3, "b"]]
    rows = [reader.row(msgspec.msgpack.encode([tags, {"x": tags[:1]}])) for tags in orders]
    assert [row["tags"] for row in rows] == [["a", "b", -1, 3, 2.5]] * 2
    row = reader.row(msgspec.msgpack.encode([[], {"x": ["q", "p"]}]))
    assert row["nested"] == {"x": ["p", "q"]}
