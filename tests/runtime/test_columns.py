"""Goal: events sent in columns are those that send_many would send: the same values are accepted,
stored, numbered, recognised and moved. What is wrong is said in one line, and nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy
import pytest

from holdfast import Agent, Context, Event, Fleet, Live, UsageError, on
from holdfast.model.marks import Length, Width
from holdfast.runtime.sending import EVENTS_PER_SEND_MAX
from tests.runtime.semantics import ENGINES, engine_url


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Gear(IntEnum):
    LOW = 0
    HIGH = 1


class Move(Event):
    x: float
    n: int = 7
    up: bool = False
    mode: Mode = Mode.LANDING
    gear: Gear = Gear.LOW
    label: Annotated[str, Width(5)] = "none"
    path: Annotated[list[int], Length(3)] = msgspec.field(default_factory=lambda: [1, 2])


class Tick(Event):
    pass


class Free(Event):
    text: str


class Named(Event):
    """Its fields are named like options."""

    source: float
    timeout: float


class Unused(Event):
    x: float


class Long(Event):
    text: Annotated[str, Width(5)] = msgspec.field(default_factory=lambda: "nine char")


class Cart(Agent):
    moves: int = 0
    ticks: int = 0
    seen: list[float] = []
    claimed: list[float] = []

    @on
    def move(self, event: Move, ctx: Context) -> None:
        self.moves += 1
        self.seen.append(event.x)
        self.claimed.append(ctx.event_time)

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1

    @on
    def free(self, event: Free, ctx: Context) -> None:
        self.moves += 1

    @on
    def long(self, event: Long, ctx: Context) -> None: ...

    @on
    def named(self, event: Named, ctx: Context) -> None:
        self.seen += [event.source, event.timeout]


class Wagon(Agent):
    @on
    def tick(self, event: Tick, ctx: Context) -> None: ...


class Stranger(Agent):
    @on
    def tick(self, event: Tick, ctx: Context) -> None: ...


fleet = Fleet("carts", agents=[Cart, Wagon])
KEYS = [f"c-{i}" for i in range(8)]
pack = msgspec.msgpack.Encoder().encode


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path), partitions=3) as made:
        yield made


def events(live: Live, key: str) -> list[object]:
    return [entry.event for entry in live.history(Cart, key)]


# ---------------------------------------------------------------- what is accepted


def test_columns_are_the_events_that_rows_are(live: Live) -> None:
    keys = live.keys(Cart, KEYS)
    chosen = numpy.array([0, 1, 0, 5, 5, 0])
    x = numpy.arange(6) / 8
    live.send_columns(
        Cart,
        Move,
        keys[chosen],
        x=x,
        n=[1, -1, 2**63 - 1, -(2**63), 0, 5],
        up=numpy.array([True, False] * 3),
        mode=[Mode.FLYING, "landing"] * 3,
        gear=Gear.HIGH,
        label=numpy.array(["", "ä", "abc", "😀", "fives", "x"]),
        path=[[], (1,), numpy.array([1, 2]), [3, 2, 1], [0], [2**40]],
        event_time=x + 5,
    )
    live.settle()
    expected = [
        Move(0.0, 1, True, Mode.FLYING, Gear.HIGH, "", []),
        Move(0.25, 2**63 - 1, True, Mode.FLYING, Gear.HIGH, "abc", [1, 2]),
        Move(0.625, 5, False, Mode.LANDING, Gear.HIGH, "x", [2**40]),
    ]
    assert events(live, "c-0") == expected
    state = live.state(Cart, "c-0")
    assert (state.moves, state.seen) == (3, [0.0, 0.25, 0.625])
    assert state.claimed == [5.0, 5.25, 5.625]
    assert [entry.seq for entry in live.history(Cart, "c-5")] == [4, 5]


def test_what_is_left_out_has_its_default(live: Live) -> None:
    keys = live.keys(Cart, ["c-1", "c-2"])
    live.send_columns(Cart, Move, keys, x=1)
    live.send_columns(Cart, Tick, keys)
    live.settle()
    assert events(live, "c-2") == [Move(1.0), Tick()]
    assert repr(events(live, "c-2")[0]).startswith("Move(x=1.0, n=7")


def test_nothing_sent_is_nothing_received(live: Live) -> None:
    keys = live.keys(Cart, [])
    receipt = live.send_columns(Cart, Move, keys, x=[])
    assert receipt == live.send_many([])
    receipt = live.send_columns(Cart, Move, live.keys(Cart, KEYS)[[]], x=numpy.zeros(0))
    live.wait_for(receipt)
    nobody = live.keys(Cart, [])
    flat, matrix = numpy.zeros(0), numpy.zeros((0, 2), int)
    left: list[dict[str, object]] = [{"label": flat.astype("U")}, {"path": matrix}, {"n": 3}]
    for columns in left:
        live.send_columns(Cart, Move, nobody, {"x": flat, **columns}, event_time=flat)
    assert [progress.inbox for progress in live.positions().values()] == [0, 0, 0]


def test_rows_and_columns_mix_in_order(live: Live) -> None:
    keys = live.keys(Cart, KEYS)
    every = numpy.arange(len(KEYS))
    expected: list[object] = []
    for turn in range(4):
        live.send_columns(Cart, Move, keys[every], x=every + turn / 2, n=turn)
        live.send(Cart, "c-3", Free(f"turn {turn}"))
        live.send_many([(Cart, key, Tick()) for key in KEYS])
        expected += [Move(3 + turn / 2, turn), Free(f"turn {turn}"), Tick()]
    live.settle()
    assert events(live, "c-3") == expected
    assert live.state(Cart, "c-3").ticks == 4


def test_fields_named_like_options_go_into_a_dict(live: Live) -> None:
    keys = live.keys(Cart, ["c-1", "c-2"])
    columns = {"source": [1.0, 2.0], "timeout": 3.0}
    live.send_columns(Cart, Named, keys, columns, source="gcs", first_seq=4)
    live.settle()
    assert live.state(Cart, "c-2").seen == [2.0, 3.0]
    assert live.history(Cart, "c-2")[0].source == "gcs"


def test_keys_select_and_repeat() -> None:
    with fleet.open("memory:") as live:
        keys = live.keys(Cart, numpy.array(["a", "b", "a", "c"]))
        assert (len(keys), list(keys)) == (4, ["a", "b", "a", "c"])
        assert list(keys[[3, 3, 0]]) == ["c", "c", "a"]
        assert list(keys[1:][::-1]) == ["c", "a", "b"]
        assert list(keys[numpy.array([True, False, False, True])]) == ["a", "c"]
        assert list(keys[numpy.array([-1])]) == ["c"]
        assert "4 keys of Cart" in repr(keys)
        for wrong, message in (
            ([4], "out of bounds"),
            (numpy.array([0.5]), "integer"),
            (3, r"write keys\[\[3\]\]"),
            ([[0], [1]], "2 dimensions"),
            ([[0], [1, 2]], "give an array of integers, or a slice"),
            (slice(None, None, 0), "give an array of integers, or a slice"),
            (slice("a", "c"), "give an array of integers, or a slice"),
        ):
            with pytest.raises(UsageError, match=message):
                keys[wrong]  # type: ignore[index]


ODD: list[object] = [
    0, 1, -1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, True, False, 1.0, 0.5, -0.0,
    float("nan"), float("inf"), None, "", "1", "flying", "LANDING", "fives", "sixsix", "\ud83d",
    "a\0", "\0", b"x", Mode.FLYING, Gear.HIGH, [], [1], [1, 2, 3], [1, 2, 3, 4], (1,), [True],
    [1.5], [None], ["1"], [[1]], {1}, {"a": 1}, object(), 10**400, Mode,
]  # fmt: skip


def outcome(send: Callable[[], object], live: Live) -> object:
    """What reached the agent, packed; or that it was refused."""
    before = len(live.history(Cart, "c-1"))
    try:
        send()
    except UsageError:
        return "refused"
    live.settle()
    return pack(live.history(Cart, "c-1")[before].event)


@pytest.mark.parametrize("field", ["x", "n", "up", "mode", "gear", "label", "path"])
def test_a_value_is_accepted_in_a_column_where_it_is_in_a_row(field: str) -> None:
    """As the value of all rows, in a list, and in an array of objects."""
    accepted = 0
    with fleet.open("memory:") as live:
        keys = live.keys(Cart, ["c-1"])
        for value in ODD:
            if field == "n" and value == 2**64 - 1:
                continue  # rows have integers without a sign; columns and compiled agents do not
            values = {"x": 1.0, field: value}
            wanted = outcome(lambda: live.send(Cart, "c-1", Move(**values)), live)  # type: ignore[arg-type]  # noqa: B023
            holder = numpy.empty(1, object)
            holder[0] = value
            forms: list[object] = [[value], (value,), holder]
            if not isinstance(value, (list, tuple, set, dict)) and field != "path":
                forms.append(value)
            for form in forms:
                columns = {"x": 1.0, field: form}
                found = outcome(lambda: live.send_columns(Cart, Move, keys, columns), live)  # noqa: B023
                assert found == wanted, (value, form)
            accepted += wanted != "refused"
    assert 1 < accepted < len(ODD) / 2


ARRAYS: dict[str, list[tuple[object, bool]]] = {
    "x": [
        (numpy.array([1, 2], "f4"), True),
        (numpy.array([1, 2], "f2"), True),
        (numpy.array([1, 2], ">f8"), True),
        (numpy.array([1, 2], "u8"), True),
        (numpy.array([1, 2], ">i2"), True),
        (numpy.array([True, False]), False),
        (numpy.array([1, 2], "longdouble"), False),
        (numpy.array(["1", "2"]), False),
        (numpy.array([1, 2], "M8[s]"), False),
        (numpy.array([1, 2j]), False),
        (numpy.ma.array([1.0, 2.0], mask=[True, False]), False),
        (numpy.ma.array([1.0, 2.0], mask=[False, False]), True),
        (range(2), True),
        (memoryview(b"ab"), True),
        (numpy.float32(0.5), True),
        (numpy.array(0.5), True),
        (numpy.zeros((2, 1)), False),
        (numpy.zeros((4, 2))[::2, 1], True),
    ],
    "n": [
        (numpy.array([1, 2**63 - 1], "u8"), True),
        (numpy.array([1, 2**63], "u8"), False),
        (numpy.array([1.0, 2.0]), False),
        (numpy.array([True, False]), False),
        (numpy.array([-1, 2], "i1"), True),
        (numpy.int16(4), True),
        (numpy.float64(4), False),
    ],
    "up": [
        (numpy.array([True, False]), True),
        (numpy.array([0, 1]), False),
        (numpy.bool_(True), True),
    ],
    "mode": [
        (numpy.array(["flying", "landing"]), True),
        (numpy.array(["flying", "walking"]), False),
        (numpy.array([0, 1]), False),
    ],
    "gear": [(numpy.array([0, 1], "u1"), True), (numpy.array([0.0, 1.0]), False)],
    "label": [
        (numpy.array(["12345", "ä"]), True),
        (numpy.array(["12345", "123456"]), False),
        (numpy.array(["12345", "\ud83d"]), False),
        (numpy.array(["", ""]), True),
        (numpy.array([b"a", b"b"]), False),
        (numpy.array([1, 2]), False),
        (numpy.str_("abc"), True),
        (numpy.array(["abc", "de"], ">U3"), True),
    ],
    "path": [
        (numpy.array([[1, 2], [3, 4]]), True),
        (numpy.zeros((2, 0), int), True),
        (numpy.zeros((2, 4), int), False),
        (numpy.zeros((2, 3)), False),
        (numpy.array([1, 2]), False),
        ([1, 2], False),
        (numpy.array([[1, 2], [3, 2**63]], "u8"), False),
    ],
}  # fmt: skip


@pytest.mark.parametrize("field", ARRAYS)
def test_arrays_are_accepted_by_their_type(field: str) -> None:
    with fleet.open("memory:") as live:
        keys = live.keys(Cart, ["c-1", "c-1"])
        for value, good in ARRAYS[field]:
            before = len(events(live, "c-1"))
            columns: dict[str, object] = {"x": 1.0, field: value}
            if not good:
                with pytest.raises(UsageError, match=f"Move: column '{field}'"):
                    live.send_columns(Cart, Move, keys, columns)
                assert len(live.history(Cart, "c-1")) == before
                continue
            live.send_columns(Cart, Move, keys, columns)
            live.settle()
            given = numpy.asarray(value)
            wanted = [given.item()] * 2 if given.ndim == 0 else given.tolist()
            found = [getattr(each, field) for each in events(live, "c-1")[before:]]
            assert found == ([Mode(each) for each in wanted] if field == "mode" else wanted)


# ---------------------------------------------------------------- what is refused

X = [1.0] * len(KEYS)
MISTAKES: dict[str, tuple[Callable[[Live, Any], object], str]] = {
    "too short": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=[1.0]),
        "Move: column 'x': it has 1 values for 8 keys",
    ),
    "too long": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=numpy.zeros(9)),
        "it has 9 values for 8 keys",
    ),
    "floats for ints": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, n=numpy.zeros(8)),
        "Move: column 'n': it is an array of float64: give integers of 64 bits",
    ),
    "one wrong among many": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=[*X[1:], None]),
        "Move: column 'x': row 7: None: expected float, got NoneType",
    ),
    "past 64 bits": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, n=2**70),
        "an integer has at most 64 bits",
    ),
    "a text too wide": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, label=["a"] * 7 + ["123456"]),
        "row 7: '123456': a text of 6 characters is longer than 5",
    ),
    "an array of texts too wide": (
        lambda live, keys: live.send_columns(
            Cart, Move, keys, x=X, label=numpy.array(["a"] * 7 + ["123456"])
        ),
        "row 7 has 6 characters: 5 is the most",
    ),
    "a list too long": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, path=[[1, 2, 3, 4]] * 8),
        "a list of 4 items is longer than 3",
    ),
    "a flat list": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, path=3),
        "give one list per row",
    ),
    "no member": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, mode="walking"),
        "'walking': not every value is one of 'flying', 'landing'",
    ),
    "an unknown column": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=X, y=X),
        "Move has no field 'y': it has x, n, up, mode, gear, label, path",
    ),
    "a missing column": (
        lambda live, keys: live.send_columns(Cart, Move, keys),
        "Move needs the column 'x': give an array, or one value for all rows",
    ),
    "no layout": (
        lambda live, keys: live.send_columns(Cart, Free, keys, text="a"),
        r"Free.text has no fixed width: write .*Width\(16\).* Events .* go by send_many",
    ),
    "an event of nobody": (
        lambda live, keys: live.send_columns(Cart, Unused, keys, x=X),
        "no agent of this fleet handles Unused",
    ),
    "an event instead of its class": (
        lambda live, keys: live.send_columns(Cart, Tick(), keys),  # type: ignore[arg-type]
        r"Tick\(\) is no class of events",
    ),
    "an agent of another fleet": (
        lambda live, keys: live.send_columns(Stranger, Tick, keys),
        "Stranger is no agent of fleet 'carts'",
    ),
    "keys of another class": (
        lambda live, keys: live.send_columns(Wagon, Tick, keys),
        "the keys were prepared for Cart",
    ),
    "names instead of keys": (
        lambda live, keys: live.send_columns(Cart, Tick, KEYS),  # type: ignore[arg-type]
        r"are no prepared keys: keys = live.keys\(Cart, names\)",
    ),
    "keys of a stranger": (
        lambda live, keys: live.keys(Stranger, KEYS),
        "Stranger is no agent of fleet 'carts'",
    ),
    "a wrong key": (lambda live, keys: live.keys(Cart, ["c-1", "c 2"]), "it contains ' '"),
    "a number for a key": (lambda live, keys: live.keys(Cart, [3]), "it is of type int"),  # type: ignore[list-item]
    "one name": (lambda live, keys: live.keys(Cart, "c-1"), "give a list of names"),
    "a number for names": (lambda live, keys: live.keys(Cart, 5), "give a list of names"),  # type: ignore[arg-type]
    "too many events": (
        lambda live, keys: live.send_columns(
            Cart, Tick, keys[numpy.zeros(EVENTS_PER_SEND_MAX + 1, int)]
        ),
        f"send at most {EVENTS_PER_SEND_MAX:,} at once",
    ),
    "a source without a number": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, source="gcs"),
        "source 'gcs' without a sequence number",
    ),
    "a number without a source": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, first_seq=1),
        "a sequence number without a source",
    ),
    "a negative number": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, source="gcs", first_seq=-1),
        "a sequence number cannot be -1",
    ),
    "numbers past the bound": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, source="gcs", first_seq=2**62 - 1),
        "give 0 to",
    ),
    "a time that is none": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, event_time=float("nan")),
        "event_time cannot be nan",
    ),
    "one time that is none": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, event_time=[*X[1:], float("inf")]),
        "event_time cannot be inf",
    ),
    "a text for a time": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, event_time="now"),
        "'event_time'.*'now'",
    ),
    "a dict": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x={"a": 1.0}),
        "it is {'a': 1.0}: give an array, a list or one value",
    ),
    "a set": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=set(range(8))),
        "give an array, a list or one value",
    ),
    "uneven lists": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=[[1.0], [1.0, 2.0]] * 4),
        "expected float, got list",
    ),
    "a column without a name": (
        lambda live, keys: live.send_columns(Cart, Move, keys, numpy.zeros(8)),  # type: ignore[arg-type]
        "columns go by name, as lat=array",
    ),
    "a masked value": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=numpy.ma.masked),
        "some of its values are masked: fill them",
    ),
    "a masked value of a masked array": (
        lambda live, keys: live.send_columns(
            Cart, Move, keys, x=numpy.ma.array(5.0, mask=True)
        ),
        "some of its values are masked: fill them",
    ),
    "masked records": (
        lambda live, keys: live.send_columns(
            Cart, Move, keys, x=numpy.ma.zeros(8, dtype=[("a", "f8")])
        ),
        "it is an array of records: give one field of it",
    ),
    "a time for a number": (
        lambda live, keys: live.send_columns(
            Cart, Move, keys, x=X, n=numpy.datetime64(5, "ns")
        ),
        "expected int, got datetime64",
    ),
    "times for numbers": (
        lambda live, keys: live.send_columns(
            Cart, Move, keys, x=[numpy.timedelta64(5, "ns")] * 8
        ),
        "expected float, got timedelta64",
    ),
    "a time of numpy": (
        lambda live, keys: live.send_columns(
            Cart, Tick, keys, event_time=numpy.datetime64(5, "ns")
        ),
        "'event_time'.*datetime64",
    ),
    "a time past the bound": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, event_time=1e300),
        r"event_time cannot be 1e\+300",
    ),
    "no timeout": (
        lambda live, keys: live.send_columns(Cart, Tick, keys, timeout=None),  # type: ignore[arg-type]
        "timeout cannot be None: give seconds",
    ),
    "a default that does not fit": (
        lambda live, keys: live.send_columns(Cart, Long, keys),
        "Long: the default of 'text': a text of 9 characters is longer than 5",
    ),
    "one name as an array": (
        lambda live, keys: live.keys(Cart, numpy.array("c-1")),
        "give a list of names",
    ),
    "a generator": (
        lambda live, keys: live.send_columns(Cart, Move, keys, x=(1.0 for _ in KEYS)),
        "expected float, got generator",
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_every_mistake_is_named_and_nothing_of_it_is_stored(engine: str, tmp_path: Path) -> None:
    with fleet.open(engine_url(engine, tmp_path), partitions=2) as live:
        keys = live.keys(Cart, KEYS)
        for what, (mistake, message) in MISTAKES.items():
            with pytest.raises(UsageError, match=message) as caught:
                mistake(live, keys)
            assert len(str(caught.value)) < 400, what
            assert "\n" not in str(caught.value), what
            assert [progress.inbox for progress in live.positions().values()] == [0, 0], what
        live.send_columns(Cart, Move, keys, x=X)
        live.settle()
        assert live.state(Cart, "c-1").moves == 1
