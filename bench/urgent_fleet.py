"""The fleet of `python -m bench.urgent`: telemetry that costs something, and an order to land."""

import math

from holdfast import Action, Agent, Context, Event, Fleet, on


class Position(Event):
    lat: float
    lon: float


class LandNow(Event, priority="urgent"):
    pass


class LandInTurn(Event):
    """The same, without the priority."""


class Land(Action, priority="urgent"):
    pass


class Drone(Agent):
    lat: float = 0.0
    lon: float = 0.0
    flown: float = 0.0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        for _ in range(20):
            self.flown += math.hypot(event.lat - self.lat, event.lon - self.lon)
        self.lat, self.lon = event.lat, event.lon

    @on
    def land(self, event: LandNow, ctx: Context) -> None:
        ctx.emit(Land())

    @on
    def land_in_turn(self, event: LandInTurn, ctx: Context) -> None:
        ctx.emit(Land())


fleet = Fleet("bench-urgent", agents=[Drone])
