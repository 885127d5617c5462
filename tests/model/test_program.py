"""Goal: the program of the design, up to the fleet, is accepted as written, types included."""

from enum import Enum

import pytest

from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed
from holdfast.model.context import Context
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import on
from holdfast.model.schema import RowReader


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Position(Event):
    lat: float
    lon: float
    alt: float


class Battery(Event):
    percent: float


class Descend(Action):
    to: float


class Land(Action, expires=5.0, priority="urgent"):
    pass


class Drone(Agent):  # fields are the state: typed, with defaults
    mode: Mode = Mode.FLYING
    lat: float = 0.0
    lon: float = 0.0
    alt: float = 0.0
    battery: float = 100.0

    @on
    def moved(self, event: Position, ctx: Context) -> None:  # the annotation says which event
        self.lat, self.lon, self.alt = event.lat, event.lon, event.alt
        if event.alt > 100.0:
            ctx.emit(Descend(to=80.0))

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        if event.percent < 15.0:
            self.mode = Mode.LANDING
            ctx.emit(Land())


fleet = FleetModel("delivery", agents=[Drone])


class Emitted:
    """As much of a context as these handlers use."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def emit(self, action: Action) -> None:
        self.actions.append(action)


def test_the_fleet_knows_its_classes() -> None:
    assert fleet.name == "delivery"
    assert fleet.agents == {"Drone": Drone}
    assert fleet.events == {"Position": Position, "Battery": Battery, "CallFailed": CallFailed}
    assert fleet.actions == {"Descend": Descend, "Land": Land}
    assert [(each.kind, each.name) for each in fleet.schemas()] == [
        ("state", "Drone"),
        ("event", "Battery"),
        ("event", "CallFailed"),
        ("event", "Position"),
        ("action", "Descend"),
        ("action", "Land"),
    ]


def test_the_definitions() -> None:
    assert (Land.__holdfast__.expires, Land.__holdfast__.priority) == (5.0, "urgent")
    drone = Drone.__holdfast__
    assert (drone.name, drone.kind, drone.mode_field) == ("Drone", "state", "mode")
    assert drone.modes == (Mode.FLYING, Mode.LANDING)
    assert drone.routes[Position].always is not None
    assert drone.routes[Battery].always is None


def test_the_handlers_run() -> None:
    drone, ctx = Drone(), Emitted()
    for event in (Battery(percent=9.0), Battery(percent=8.0), Position(1.0, 2.0, 130.0)):
        route = Drone.__holdfast__.routes[type(event)]
        handler = route.always or route.choose(drone, event)
        if handler is not None:
            handler(drone, event, ctx)  # type: ignore[arg-type]
    assert drone == Drone(Mode.LANDING, 1.0, 2.0, 130.0, battery=9.0)
    assert ctx.actions == [Land(), Descend(80.0)]


def test_events_are_frozen_and_equal_by_value() -> None:
    assert Battery(percent=9.0) == Battery(9.0)
    assert hash(Battery(9.0)) == hash(Battery(9.0))
    assert Land() == Land()
    with pytest.raises(AttributeError):
        Battery(9.0).percent = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Drone().speed = 1.0  # type: ignore[attr-defined]


def test_every_schema_reads_its_own_rows() -> None:
    for cls in (Position, Battery, Descend, Land, Drone):
        assert RowReader(cls, cls.__holdfast__.schema).rows(b"\x90") == []
