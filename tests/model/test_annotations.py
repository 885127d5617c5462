"""Goal: string annotations work wherever a class can stand, and instances pay nothing for it."""

from __future__ import annotations

import gc
import weakref
from enum import Enum
from typing import ClassVar

import msgspec

from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.event import Action, Event, EventMeta
from holdfast.model.handlers import on


class Phase(Enum):
    IDLE = "idle"
    BUSY = "busy"


class Moved(Event):
    phase: Phase
    track: list[float] = []
    limit: ClassVar[int] = 3


class Robot(Agent):
    phase: Phase = Phase.IDLE
    seen: dict[str, Moved] = {}

    @on(mode=Phase.IDLE)
    def moved(self, event: Moved, ctx: Context) -> None:
        self.phase = event.phase


def test_a_module_with_future_annotations() -> None:
    assert [each.name for each in Moved.__holdfast__.schema.fields] == ["phase", "track"]
    assert list(Robot.__holdfast__.routes) == [Moved]
    assert Robot.__holdfast__.mode_field == "phase"
    assert Robot.__holdfast__.modes == (Phase.IDLE, Phase.BUSY)
    rows = msgspec.msgpack.encode([Moved(Phase.BUSY)])
    assert msgspec.msgpack.decode(rows, type=list[Moved]) == [Moved(Phase.BUSY, [])]


def test_classes_in_a_function_use_its_locals() -> None:
    class Colour(Enum):
        RED = "red"

    class Painted(Event):
        colour: Colour
        before: Colour | None = None

    class Wall(Agent):
        colour: Colour = Colour.RED

        @on
        def painted(self, event: Painted, ctx: Context) -> None:
            self.colour = event.colour

    assert list(Wall.__holdfast__.routes) == [Painted]
    assert msgspec.msgpack.decode(b"\x92\xa3red\xc0", type=Painted) == Painted(Colour.RED)


def test_classes_in_a_function_in_a_function_use_the_locals_of_both() -> None:
    class Outer(msgspec.Struct, frozen=True):
        x: int = 0

    def inside() -> type[Event]:
        class Inner(msgspec.Struct, frozen=True):
            y: int = 0

        class Both(Event):
            outer: Outer
            inner: list[Inner]

        return Both

    fields = inside().__holdfast__.schema.fields
    assert [each.name for each in fields] == ["outer", "inner"]


def test_a_local_name_of_an_unrelated_caller_is_not_seen() -> None:
    """The caller's `Phase` must not replace the module's: only enclosing functions count."""

    class Phase(Enum):
        WRONG = "wrong"

    made = make_event()
    assert made.__holdfast__.schema.fields[0].type == {
        "enum": "Phase",
        "values": ["idle", "busy"],
        "names": ["IDLE", "BUSY"],
    }
    assert Phase.WRONG  # used, so that it is not optimised away by a reader either


def make_event() -> type[Event]:
    class Made(Event):
        phase: Phase

    return Made


def test_classes_inside_the_agent_are_seen() -> None:
    class Drone(Agent):
        class Mode(Enum):
            UP = 1

        class Ping(Event):
            pass

        mode: Mode = Mode.UP

        @on(mode=Mode.UP)
        def pinged(self, event: Ping, ctx: Context) -> None: ...

    assert list(Drone.__holdfast__.routes) == [Drone.Ping]
    assert Drone.__holdfast__.mode_field == "mode"


def test_the_annotation_of_the_context_is_never_needed() -> None:
    """It is often imported under TYPE_CHECKING only."""

    class Drone(Agent):
        @on
        def moved(self, event: Moved, ctx: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert list(Drone.__holdfast__.routes) == [Moved]


def test_making_a_class_keeps_no_locals_alive() -> None:
    class Heavy:
        pass

    def inside() -> tuple[type[Event], weakref.ref[Heavy]]:
        heavy = Heavy()

        class Light(Event):
            x: int

        return Light, weakref.ref(heavy)

    light, heavy = inside()
    gc.collect()
    assert heavy() is None
    assert light.__holdfast__.name == "Light"


def test_instances_are_plain_structs() -> None:
    """No Python runs when an event is made: that is what the speed rests on."""
    for cls in (Event, Action, Agent, Moved, Robot):
        assert issubclass(cls, msgspec.Struct)
        assert not hasattr(cls, "__post_init__")
        assert cls.__init__ is msgspec.Struct.__init__
    assert not hasattr(Moved(Phase.IDLE), "__dict__")
    assert Moved.__struct_config__.frozen  # type: ignore[attr-defined]
    assert Moved.__struct_config__.array_like  # type: ignore[attr-defined]
    assert not Robot.__struct_config__.frozen  # type: ignore[attr-defined]


def test_a_class_made_by_hand_is_checked_like_any_other() -> None:
    made: type[Event] = EventMeta("Made", (Event,), {"__annotations__": {"x": "int"}})  # type: ignore[assignment]
    assert made.__holdfast__.schema.fields[0].type == "int"
