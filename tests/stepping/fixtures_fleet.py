"""Classes that the tests of frames and inputs share: flat, nested, mixed."""

from __future__ import annotations

from enum import Enum

from holdfast import Action, Agent, Context, Event, on
from holdfast.model.fleet import FleetModel


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Moved(Event):
    lat: float
    lon: float


class Painted(Event):
    colour: Colour
    layers: list[int] = []
    notes: dict[str, str] = {}


class Pinged(Event):
    pass


class Honk(Action):
    times: int


class Car(Agent):
    lat: float = 0.0
    lon: float = 0.0
    colour: Colour = Colour.RED

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.lat, self.lon = event.lat, event.lon

    @on
    def painted(self, event: Painted, ctx: Context) -> None:
        self.colour = event.colour
        ctx.emit(Honk(times=len(event.layers)))


class Garage(Agent):
    pings: int = 0

    @on
    def pinged(self, event: Pinged, ctx: Context) -> None:
        self.pings += 1


FLEET = FleetModel("cars", agents=[Car, Garage])
