"""Events made up from the types of their fields: what `holdfast check` and a simulator feed agents.

The same seed makes the same events in every process, whatever the hash seed. Values are plausible
more than wild, so that agents get past their first guard; edge values come now and then. An event
class that knows better has a classmethod `example(cls, random)` that makes one.
"""

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from inspect import getattr_static
from typing import Any, TypeVar, cast

from msgspec import inspect

from holdfast.errors import UsageError
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.rng import Random

_E = TypeVar("_E", bound=Event)
WORDS = ("alpha", "bravo", "charlie", "delta", "a", "b", "x-1", "x-2")
_ODD_WORDS = ("", " ", "é", "0", "z" * 200, "two words", "line\nbreak", "\U0001f681")
_EDGE = 16  # one value in so many is an edge value
_INT_EDGES = (0, 1, -1, 255, 256, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
_FLOAT_EDGES = (0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, 5e-324, 1e15, -1e15, 1.7976931348623157e308)
_NOT_FINITE = (math.nan, math.inf, -math.inf)
# What a name says about its values; anything else is small.
_RANGES: dict[str, tuple[float, float]] = {
    "lat": (-90.0, 90.0),
    "latitude": (-90.0, 90.0),
    "lon": (-180.0, 180.0),
    "lng": (-180.0, 180.0),
    "longitude": (-180.0, 180.0),
    "alt": (0.0, 300.0),
    "altitude": (0.0, 300.0),
    "heading": (0.0, 360.0),
    "percent": (0.0, 100.0),
    "battery": (0.0, 100.0),
    "speed": (0.0, 40.0),
}
_EPOCH = datetime.datetime(2024, 1, 1)
_infos: dict[type, inspect.Type] = {}  # reading a class takes longer than making ten of it


def generate_event(
    cls: type[_E], random: Random, *, words: Sequence[str] = WORDS, nan: bool = False
) -> _E:
    """One event of this class. `words` are the usual values of strings; keys of agents among them
    let messages find somebody. `nan` allows NaN and the infinities."""
    example = getattr_static(cls, "example", None)
    if isinstance(example, classmethod):
        made = cls.example(random)  # type: ignore[attr-defined]
        if not isinstance(made, cls):
            raise UsageError(
                f"{cls.__name__}.example returned a {type(made).__name__}: return a {cls.__name__}"
            )
        return made
    return cast(_E, _Maker(random, words, nan).record(_info_of(cls), cls.__name__))


def generate_stream(
    fleet: FleetModel,
    random: Random,
    keys_per_agent: int = 3,
    count: int = 1_000,
    *,
    nan: bool = False,
) -> Iterator[tuple[type[Agent], str, Event]]:
    """`count` events for agents of the fleet, each of a class that its agent handles. Few keys, so
    that every agent meets many events."""
    takers = [
        (agent, keys_of(agent, keys_per_agent), sorted(routes, key=lambda cls: cls.__name__))
        for agent in fleet.agents.values()
        if (routes := agent.__holdfast__.routes)
    ]
    if not takers:
        raise UsageError(f"no agent of fleet {fleet.name} handles any event: write a handler")
    words = [*WORDS, *dict.fromkeys(key for _, keys, _ in takers for key in keys)]
    for _ in range(count):
        agent, keys, events = random.choice(takers)
        key = random.choice(keys)
        yield agent, key, generate_event(random.choice(events), random, words=words, nan=nan)


def keys_of(agent: type[Agent], count: int) -> list[str]:
    """d-1, d-2, … for a Drone."""
    initial = agent.__name__.strip("_")[:1].lower()
    if not initial.isascii() or not initial:
        initial = "k"
    return [f"{initial}-{number}" for number in range(1, count + 1)]


def _info_of(cls: type) -> inspect.Type:
    found = _infos.get(cls)
    if found is None:
        found = _infos[cls] = inspect.type_info(cls)
    return found


class _Maker:
    """Values by type. `where` names the field, for its range and for complaints."""

    def __init__(self, random: Random, words: Sequence[str], nan: bool) -> None:
        self.random = random
        self.words = words
        self.nan = nan

    def value(self, info: inspect.Type, where: str) -> object:
        if isinstance(info, inspect.Metadata):
            return self.value(info.type, where)
        make = _MAKERS.get(type(info))
        if make is None:
            raise UsageError(
                f"{where}: no value of {type(info).__name__} can be made up: give the event class "
                f"a classmethod `example(cls, random)`"
            )
        return make(self, info, where)

    def edge(self) -> bool:
        return self.random.randint(1, _EDGE) == 1

    # Numbers.

    def integer(self, info: inspect.IntType, where: str) -> int:
        least = info.ge if info.gt is None else math.floor(info.gt) + 1
        most = info.le if info.lt is None else math.ceil(info.lt) - 1
        low, high = _fit(_range_of(where, 0, 100), least, most)
        edge = self.random.choice((*_INT_EDGES, int(low), int(high))) if self.edge() else None
        if edge is not None and _allows(info, edge):
            return edge
        step = int(info.multiple_of or 1)
        first = math.ceil(low / step)
        return self.random.randint(first, max(first, math.floor(high / step))) * step

    def floating(self, info: inspect.FloatType, where: str) -> float:
        least = info.ge if info.gt is None else info.gt
        most = info.le if info.lt is None else info.lt
        low, high = _fit(_range_of(where, -10.0, 200.0), least, most)
        if self.edge():
            odd = self.nan and self.random.randint(0, 1) == 1
            edges = _NOT_FINITE if odd else (*_FLOAT_EDGES, low, high)
            edge: float = self.random.choice(edges)
            if _allows(info, edge):
                return edge
        if info.multiple_of:
            first = math.ceil(low / info.multiple_of)
            last = math.floor(high / info.multiple_of)
            return self.random.randint(first, max(first, last)) * info.multiple_of
        found = self.random.uniform(low, high)
        # People's thresholds are round numbers, so round values come often.
        whole = float(round(found)) if self.random.randint(0, 1) else found
        return whole if _allows(info, whole) else low + (high - low) * _inside(self.random)

    def number(self, info: inspect.DecimalType, where: str) -> decimal.Decimal:
        return decimal.Decimal(self.random.randint(-10_000, 10_000)).scaleb(-2)

    # Text and bytes.

    def text(self, info: inspect.StrType, where: str) -> str:
        least, most = info.min_length or 0, info.max_length
        for _ in range(64):
            words = _ODD_WORDS if self.edge() else self.words
            found = self.random.choice(words)
            if len(found) < least:
                found += "x" * (least - len(found))
            found = found if most is None else found[:most]
            if info.pattern is None or re.search(info.pattern, found):
                return found
        raise UsageError(
            f"{where}: no text for the pattern {info.pattern!r} can be made up: give the event "
            f"class a classmethod `example(cls, random)`"
        )

    def bytestring(self, info: inspect.BytesType, where: str) -> bytes:
        count = self.length(info.min_length, info.max_length, 8)
        return bytes(self.random.randint(0, 255) for _ in range(count))

    # Times.

    def moment(self, info: inspect.DateTimeType, where: str) -> datetime.datetime:
        at = _EPOCH + datetime.timedelta(seconds=self.random.randint(0, 10**8))
        return at.replace(tzinfo=self.zone(info.tz))

    def date(self, info: inspect.DateType, where: str) -> datetime.date:
        return _EPOCH.date() + datetime.timedelta(days=self.random.randint(0, 2_000))

    def time(self, info: inspect.TimeType, where: str) -> datetime.time:
        seconds = self.random.randint(0, 86_399)
        at = _EPOCH + datetime.timedelta(seconds=seconds)
        return at.time().replace(tzinfo=self.zone(info.tz))

    def zone(self, wanted: bool | None) -> datetime.timezone | None:
        aware = self.random.randint(0, 1) == 1 if wanted is None else wanted
        return datetime.UTC if aware else None

    def duration(self, info: inspect.TimeDeltaType, where: str) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=self.random.randint(-1_000, 100_000))

    def uuid(self, info: inspect.UUIDType, where: str) -> uuid.UUID:
        return uuid.UUID(int=self.random.bits() << 64 | self.random.bits(), version=4)

    # Several.

    def length(self, least: int | None, most: int | None, usual: int) -> int:
        low = least or 0
        return self.random.randint(low, max(low, usual) if most is None else min(most, low + usual))

    def items(self, info: Any, where: str) -> list[object]:
        count = self.length(info.min_length, info.max_length, 4)
        return [self.value(info.item_type, where) for _ in range(count)]

    def unique(self, info: Any, where: str) -> dict[object, None]:
        """As many different ones as wanted, as far as the type has them; in the order made."""
        count = self.length(info.min_length, info.max_length, 4)
        found: dict[object, None] = {}
        for _ in range(count * 16):
            if len(found) < count:
                found[self.value(info.item_type, where)] = None
        return found

    def mapping(self, info: inspect.DictType, where: str) -> dict[object, object]:
        count = self.length(info.min_length, info.max_length, 4)
        found: dict[object, object] = {}
        for _ in range(count * 16):
            if len(found) < count:
                found[self.value(info.key_type, where)] = self.value(info.value_type, where)
        return found

    def record(self, info: Any, where: str) -> object:
        """A struct, dataclass, NamedTuple or TypedDict; now and then with a field left out."""
        values = {
            each.name: self.value(each.type, f"{where}.{each.name}")
            for each in info.fields
            if each.required or self.random.randint(1, 4) > 1
        }
        return info.cls(**values)


_Make = Callable[[_Maker, Any, str], object]
_MAKERS: dict[type[inspect.Type], _Make] = {
    inspect.NoneType: lambda make, info, where: None,
    inspect.BoolType: lambda make, info, where: make.random.randint(0, 1) == 1,
    inspect.IntType: _Maker.integer,
    inspect.FloatType: _Maker.floating,
    inspect.DecimalType: _Maker.number,
    inspect.StrType: _Maker.text,
    inspect.BytesType: _Maker.bytestring,
    inspect.DateTimeType: _Maker.moment,
    inspect.DateType: _Maker.date,
    inspect.TimeType: _Maker.time,
    inspect.TimeDeltaType: _Maker.duration,
    inspect.UUIDType: _Maker.uuid,
    inspect.EnumType: lambda make, info, where: make.random.choice(list(info.cls)),
    inspect.LiteralType: lambda make, info, where: make.random.choice(info.values),
    inspect.UnionType: lambda make, info, where: make.value(make.random.choice(info.types), where),
    inspect.ListType: _Maker.items,
    inspect.VarTupleType: lambda make, info, where: tuple(make.items(info, where)),
    inspect.SetType: lambda make, info, where: set(make.unique(info, where)),
    inspect.FrozenSetType: lambda make, info, where: frozenset(make.unique(info, where)),
    inspect.TupleType: lambda make, info, where: tuple(
        make.value(each, where) for each in info.item_types
    ),
    inspect.DictType: _Maker.mapping,
    inspect.StructType: _Maker.record,
    inspect.DataclassType: _Maker.record,
    inspect.NamedTupleType: _Maker.record,
    inspect.TypedDictType: _Maker.record,
}


def _range_of(where: str, low: float, high: float) -> tuple[float, float]:
    return _RANGES.get(where.rpartition(".")[2].lower(), (low, high))


def _fit(
    usual: tuple[float, float], least: float | None, most: float | None
) -> tuple[float, float]:
    """The usual range, moved and cut to what the type allows."""
    low, high = usual
    width = high - low
    if least is not None and low < least:
        low, high = least, high if high > least else least + width
    if most is not None and high > most:
        low, high = low if low < most else most - width, most
    return low if least is None else max(low, least), high


def _allows(info: inspect.IntType | inspect.FloatType, value: float) -> bool:
    return (
        (info.ge is None or value >= info.ge)
        and (info.gt is None or value > info.gt)
        and (info.le is None or value <= info.le)
        and (info.lt is None or value < info.lt)
        and (not info.multiple_of or (math.isfinite(value) and value % info.multiple_of == 0))
    )


def _inside(random: Random) -> float:
    """Above 0, below 1."""
    return 0.25 + random.random() / 2
