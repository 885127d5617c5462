"""Goal: what is read quickly is what the long way would give, byte for byte, or is left to it."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.model.schema import Field, Schema
from holdfast.model.types import TypeTree
from holdfast.runtime.naming import Names
from holdfast.runtime.sourcing.declaring import Declaration
from holdfast.runtime.sourcing.decoding import Decoder
from holdfast.runtime.sourcing.quick import QUICK_BYTES_MAX, Quick
from holdfast.runtime.stored import StoredSchemas

LIMITED: TypeTree = {"limited": "int", "by": {"ge": 0, "le": 100}}


def schema(name: str, options: dict[str, object] | None = None, **fields: TypeTree) -> Schema:
    has = (options or {}).get("defaults", {})
    assert isinstance(has, dict)
    every = tuple(Field(each, kind, each not in has) for each, kind in fields.items())
    return Schema("event", name, every, options or {})


SCHEMAS = {
    1: schema("Position", lat="float", lon="float", sure="bool", label="str", step="int"),
    2: schema("Battery", {"defaults": {"percent": 50}}, percent=LIMITED, volts="float"),
    3: schema("Nothing"),
    4: schema("Route", stops={"list": "str"}),
    5: schema("Typed", type="str"),
}
NAMES = Names("drones", StoredSchemas(lambda: SCHEMAS))
QUICK = Quick(SCHEMAS, None)


def long_way(value: bytes) -> tuple[int, bytes] | None:
    """As decoding.py goes it. None: it is no event."""
    try:
        values = msgspec.json.decode(value, type=dict[str, object])
        event = values.pop("type")
        return NAMES.pack(event, values) if isinstance(event, str) else None
    except (msgspec.MsgspecError, UsageError, KeyError, OverflowError, UnicodeError):
        return None


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
plain = numbers | st.booleans() | st.text() | st.none() | st.lists(st.integers(), max_size=2)
names = st.sampled_from([*(each.name for each in SCHEMAS.values()), "Unknown", ""])
fields = st.sampled_from(["lat", "lon", "sure", "label", "step", "percent", "volts", "stops", "x"])
events = st.builds(lambda name, rest: {**rest, "type": name}, names, st.dictionaries(fields, plain))
positions = st.fixed_dictionaries(
    {
        "lat": numbers,
        "type": st.just("Position"),
        "lon": numbers,
        "sure": st.booleans(),
        "label": st.text(),
        "step": st.integers() | st.just(1.0),
    }
)


class Arriving:
    """A record, as the client library gives it."""

    def __init__(self, key: str, event: str) -> None:
        self.key = key.encode
        self.value = lambda: json.dumps({"type": event, "x": 1}).encode()
        self.timestamp = lambda: (1, 1_000)
        self.topic, self.partition, self.offset = (lambda: "t"), (lambda: 0), (lambda: 7)
        self.headers = lambda: None


def test_both_ways_know_the_same_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer program has brought a new event, and another version of an old one."""
    monkeypatch.setattr("holdfast.runtime.sourcing.decoding.REFRESH_SECONDS", 0.0)
    known = {1: Schema("state", "Drone", ()), 2: schema("Position", x="float")}
    catalog = SimpleNamespace(fleet="drones", schemas=lambda: dict(known))
    decoder = Decoder(Declaration("t", "Drone"), cast(Engine, SimpleNamespace(catalog=catalog)))

    def schemas_of(*records: tuple[str, str]) -> list[int]:
        rows, rejected = decoder.decoded([cast(Message, Arriving(*each)) for each in records])
        assert not rejected
        return rows.schemas

    assert schemas_of(("d-1", "Position"), ("d-1", "Position")) == [2, 2]
    known[3] = schema("Position", {"defaults": {"y": 0.0}}, x="float", y="float")
    known[4] = schema("Landed", x="float")
    assert schemas_of(("d-1", "Landed"), ("d-1", "Position"), ("d-2", "Position")) == [4, 3, 3]


@given(events | positions)
def test_it_gives_the_same_or_nothing(event: dict[str, object]) -> None:
    value = json.dumps(event).encode()
    assert QUICK.row(value) in (None, long_way(value))


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1), st.text()
)
def test_plain_events_are_read_quickly(lat: float, step: int, label: str) -> None:
    event = {"lat": lat, "lon": 1, "sure": True, "label": label, "step": step}
    value = json.dumps({**event, "type": "Position"}).encode()
    assert QUICK.row(value) == long_way(value) is not None
    assert Quick(SCHEMAS, "Position").row(json.dumps(event).encode()) == long_way(value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"type": "Position", "lat": 1.0}',
        b'{"lat": 1.0, "lon": 1.0, "sure": true, "label": "", "step": 1}',
        b'{"type": "Battery", "percent": 101, "volts": 1.0}',
        b'{"type": "Battery", "volts": 1.0, "amperes": 1.0}',
        b'{"type": "Route", "stops": []}',
        b'{"type": "Typed"}',
        b'{"type": ""}',
        b'{"type": "Position", "lat": 1, "lon": 1, "sure": true, "label": "\xff", "step": 1}',
        b'{"type": "Nothing"} {}',
        b'{"z": ' + b"[" * 2_000 + b"]" * 2_000 + b', "type": "Nothing"}',
        b'{"type": ' + b"[" * 2_000,
        b"",
        b'{"type": "Nothing"}'.ljust(QUICK_BYTES_MAX + 1),
    ],
)
def test_the_rest_goes_the_long_way(value: bytes) -> None:
    assert QUICK.row(value) is None


def test_defaults_are_filled_in() -> None:
    value = b'{"volts": 3, "type": "Battery"}'
    assert QUICK.row(value) == long_way(value) == (2, msgspec.msgpack.encode([50, 3.0]))


def test_numbers_that_are_too_large_go_the_long_way() -> None:
    large = json.dumps({"type": "Battery", "volts": math.pi, "percent": 2**70}).encode()
    assert QUICK.row(large) is None
    wide = {"type": "Position", "lat": 0, "lon": 0, "sure": True, "label": "", "step": 2**64}
    assert QUICK.row(json.dumps(wide).encode()) is None
