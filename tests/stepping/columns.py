"""Classes whose fields have a fixed width, and strategies that make up their values."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Annotated

from hypothesis import strategies as st

from holdfast import Agent, Context, Event, on
from holdfast.model.fleet import FleetModel
from holdfast.model.layout import Slot, slots_of
from holdfast.model.marks import Length, Width

Many = Enum("Many", {f"M{i}": f"m-{i}" for i in range(300)})  # type: ignore[misc]


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Gear(IntEnum):
    LOW = -7
    HIGH = 2**40


class Everything(Event):
    number: int
    height: float
    up: bool
    mode: Mode
    gear: Gear
    many: Many
    name: Annotated[str, Width(7)]
    word: Annotated[str, Width(300)]
    numbers: Annotated[list[int], Length(3)]
    heights: Annotated[list[float], Length(300)]
    flags: Annotated[list[bool], Length(2)]
    modes: Annotated[list[Mode], Length(4)]


class Position(Event):
    lat: float
    lon: float
    alt: float = 10.0


class Nothing(Event):
    pass


class Probe(Agent):
    seen: int = 0

    @on
    def everything(self, event: Everything, ctx: Context) -> None:
        self.seen += 1

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.seen += 1

    @on
    def idle(self, event: Nothing, ctx: Context) -> None:
        self.seen += 1


FLEET = FleetModel("probes", agents=[Probe])


def slots(event: type[Event]) -> tuple[Slot, ...]:
    return slots_of(event.__holdfast__.schema)


INTEGERS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(-300, 300)
    | st.sampled_from([-(2**63), 2**63 - 1, 2**31, -(2**31), 2**32, 65_535, 65_536, 255, 256, 0])
)
FLOATS = st.floats() | st.sampled_from([-0.0, float("inf"), float("-inf"), float("nan"), 5e-324])
TEXT = st.characters(exclude_categories=["Cs"])


def texts(most: int) -> st.SearchStrategy[str]:
    full = TEXT.map(lambda letter: letter * most)
    ascii_only = st.text(st.characters(max_codepoint=127), max_size=most)
    return st.text(TEXT, max_size=min(most, 20)) | full | ascii_only | st.just("\0")


def scalars(kind: str, values: tuple[str | int, ...]) -> st.SearchStrategy[object]:
    if kind == "enum":
        return st.sampled_from(values)
    return {"int": INTEGERS, "float": FLOATS, "bool": st.booleans()}[kind]


def values_of(slot: Slot) -> st.SearchStrategy[object]:
    """Wire values of one slot, as rows have them."""
    if slot.kind == "text":
        return texts(slot.most)
    if slot.kind != "list":
        return scalars(slot.kind, slot.values)
    items = scalars(slot.item, slot.values)
    full = items.map(lambda item: [item] * slot.most)
    return st.lists(items, max_size=min(slot.most, 8)) | full


def rows_of(event: type[Event], most: int = 12) -> st.SearchStrategy[list[list[object]]]:
    row = st.tuples(*(values_of(slot) for slot in slots(event))).map(list)
    return st.lists(row, max_size=most)
