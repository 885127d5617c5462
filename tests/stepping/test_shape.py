"""Goal: rows are taken unread only where reading them would have changed nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Agent, Context, Event, on
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.stepping.shape import Shape, shape_of
from tests.stepping.rig import codebook_of


class Seen(Event):
    lat: float
    lit: bool
    lon: float


class Named(Event):
    lat: float
    name: str


class Checked(Event):
    lat: float

    def __post_init__(self) -> None:
        pass


class Watcher(Agent):
    @on
    def seen(self, event: Seen, ctx: Context) -> None:
        pass


FLEET = FleetModel("shapes", [Watcher])
FITTING = st.builds(Seen, st.floats(), st.booleans(), st.floats())
# What else msgpack can hold, of the same widths too: a uint64, an int64 and text of 8 bytes.
OTHERS = (
    st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([2**64 - 1, -(2**63), "8 bytes!", b"1234567", None, [1.0], 0])
    | st.text(max_size=9)
    | st.lists(st.floats(), max_size=2)
)
ANY = st.floats() | st.booleans() | OTHERS
LOOSE = st.builds(Seen, ANY, ANY, ANY)


def shape() -> Shape:
    found = shape_of(Seen, Seen.__holdfast__.schema)
    assert found is not None
    return found


def is_exact(event: Seen) -> bool:
    return [type(v) for v in (event.lat, event.lit, event.lon)] == [float, bool, float]


@settings(max_examples=300, deadline=None)
@given(st.lists(FITTING | LOOSE, max_size=40))
def test_rows_fit_if_and_only_if_every_value_is_of_its_type(events: list[Seen]) -> None:
    packed = msgspec.msgpack.encode(events)
    assert shape().fits(packed, len(events)) == all(map(is_exact, events))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_any_number_of_rows(count: int) -> None:
    event = Seen(1.5, True, float("nan"))
    packed = msgspec.msgpack.encode([event] * count)
    assert shape().fits(packed, count)
    if count:
        wrong = msgspec.msgpack.encode([event] * (count - 1) + [Seen(2, True, 1.0)])
        assert not shape().fits(wrong, count)


def test_other_classes_are_read() -> None:
    for cls in (Named, Checked):
        assert shape_of(cls, cls.__holdfast__.schema) is None


@settings(max_examples=200, deadline=None)
@given(st.lists(FITTING | LOOSE, min_size=1, max_size=8))
def test_the_codebook_refuses_what_cannot_be_read(events: list[Seen]) -> None:
    packed = msgspec.msgpack.encode(events)
    try:
        msgspec.msgpack.decode(packed, type=list[Seen])
        readable = True
    except msgspec.ValidationError:
        readable = False
    codebook = codebook_of(FLEET)
    if readable:
        assert codebook.pack(events, Seen) == packed
    else:
        with pytest.raises(UsageError, match="Seen"):
            codebook.pack(events, Seen)
