"""Goal: made-up events fit their classes, are equal for one seed everywhere, and reach handlers."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta

from holdfast import Agent, Context, Event, UsageError, on
from holdfast.model.fleet import FleetModel
from holdfast.model.rng import Random
from holdfast.testing.generating import generate_event, generate_stream


class Mode(Enum):
    UP = "up"
    DOWN = "down"


class Level(IntEnum):
    LOW = 0
    HIGH = 9


class Point(Event):
    x: float
    y: float = 0.0


class Struct(msgspec.Struct, tag=True):
    n: int = 0


@dataclass
class Data:
    names: list[str]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Loose(TypedDict, total=False):
    z: int


class Everything(Event):
    flag: bool
    whole: int
    real: float
    text: str
    raw: bytes
    when: datetime
    aware: Annotated[datetime, Meta(tz=True)]
    naive: Annotated[time, Meta(tz=False)]
    day: date
    lasting: timedelta
    ident: UUID
    money: Decimal
    mode: Mode
    level: Level
    word: Literal["a", 3, None]
    maybe: float | None
    several: int | str | list[int]
    items: list[Point]
    some: set[str]
    frozen: frozenset[int]
    pair: tuple[int, str]
    many: tuple[Mode, ...]
    table: dict[str, list[float]]
    by_mode: dict[Mode, int]
    by_number: dict[int, str]
    struct: Struct
    data: Data
    named: Pair
    loose: Loose
    small: Annotated[int, Meta(ge=3, lt=5)]
    large: Annotated[int, Meta(gt=10_000)]
    even: Annotated[int, Meta(ge=1, le=100, multiple_of=7)]
    unit: Annotated[float, Meta(gt=0.0, lt=1.0)]
    below: Annotated[float, Meta(le=-500.0)]
    halves: Annotated[float, Meta(multiple_of=0.5)]
    short: Annotated[str, Meta(min_length=3, max_length=4)]
    filled: Annotated[list[int], Meta(min_length=2, max_length=3)]
    coded: Annotated[str, Meta(pattern="^[a-z]+$")]
    defaulted: int = 77
    nested: list[dict[str, Point | None]] = []


def made(seed: int, nan: bool = False) -> list[Everything]:
    random = Random(seed)
    return [generate_event(Everything, random, nan=nan) for _ in range(400)]


def test_every_event_fits_its_class() -> None:
    for event in made(7):
        packed = msgspec.msgpack.encode(event)
        assert msgspec.msgpack.decode(packed, type=Everything) == event


def test_values_vary_and_edges_and_defaults_come() -> None:
    events = made(8)
    assert {event.mode for event in events} == set(Mode)
    assert {event.word for event in events} == {"a", 3, None}
    assert {type(event.several) for event in events} == {int, str, list}
    assert {event.maybe is None for event in events} == {True, False}
    assert {event.small for event in events} == {3, 4}
    assert max(event.whole for event in events) > 2**30
    assert sum(0 <= event.whole <= 100 for event in events) > 300, "edges are the exception"
    assert {77} < {event.defaulted for event in events}
    assert any(event.text == "" for event in events)
    assert any(len(event.some) > 1 for event in events)


def test_no_nan_and_no_infinity_unless_asked_for() -> None:
    assert all(math.isfinite(event.real) for event in made(9))
    asked = [event.real for event in made(9, nan=True)]
    assert any(math.isnan(each) for each in asked)
    assert any(math.isinf(each) for each in asked)


class Battery(Event):
    percent: float


class Call(Event):
    sign: Annotated[str, Meta(pattern="^[A-Z]{2}-[0-9]{4}$")]


class Signed(Call):
    @classmethod
    def example(cls, random: Random) -> "Signed":
        return cls(sign=f"AB-{random.randint(1000, 9999)}")


class Wrong(Event):
    @classmethod
    def example(cls, random: Random) -> Battery:
        return Battery(percent=1.0)


def test_a_name_says_what_is_plausible() -> None:
    random = Random(1)
    values = [generate_event(Battery, random).percent for _ in range(300)]
    assert sum(0.0 <= each <= 100.0 for each in values) > 280
    assert sum(each < 15.0 for each in values) > 20


def test_an_example_of_the_class_is_used() -> None:
    signs = {generate_event(Signed, Random(seed)).sign for seed in range(5)}
    assert len(signs) == 5
    assert all(sign.startswith("AB-") for sign in signs)


def test_what_cannot_be_made_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"Call\.sign: no text for the pattern .* `example\("):
        generate_event(Call, Random(1))
    with pytest.raises(UsageError, match=r"Wrong\.example returned a Battery: return a Wrong"):
        generate_event(Wrong, Random(1))


class Drone(Agent):
    seen: int = 0

    @on
    def moved(self, event: Point, ctx: Context) -> None:
        self.seen += 1

    @on
    def drained(self, event: Battery, ctx: Context) -> None:
        self.seen += 1


class Tower(Agent):
    @on
    def called(self, event: Everything, ctx: Context) -> None:
        pass


FLEET = FleetModel("made-up", agents=[Drone, Tower])


def test_a_stream_has_only_handled_events_and_few_keys() -> None:
    rows = list(generate_stream(FLEET, Random(3), keys_per_agent=2, count=200))
    assert len(rows) == 200
    assert {(agent.__name__, key) for agent, key, _ in rows} == {
        ("Drone", "d-1"),
        ("Drone", "d-2"),
        ("Tower", "t-1"),
        ("Tower", "t-2"),
    }
    met = {(agent, type(event)) for agent, _, event in rows}
    assert met == {(Drone, Point), (Drone, Battery), (Tower, Everything)}
    texts = {event.text for _, _, event in rows if isinstance(event, Everything)}
    assert "d-1" in texts, "keys of agents are among the words, so that messages find somebody"


def test_a_fleet_without_handlers_is_refused() -> None:
    class Idle(Agent):
        pass

    with pytest.raises(UsageError, match="no agent of fleet idle handles any event"):
        next(generate_stream(FleetModel("idle", agents=[Idle]), Random(1)))


SCRIPT = """
import msgspec
from tests.testing.test_generating import FLEET, Random, generate_stream

def plain(value):
    built = msgspec.to_builtins(value, order="deterministic")
    return msgspec.json.encode(built).decode()

for agent, key, event in generate_stream(FLEET, Random(5), count=200):
    print(agent.__name__, key, plain(event))
"""


def test_one_seed_is_one_stream_whatever_the_hash_seed() -> None:
    outputs = set()
    for hash_seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        outputs.add(result.stdout)
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 200
