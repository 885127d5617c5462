"""The drone program that every contender runs, here as Holdfast has it.

The environment chooses, because workers and producers are processes of their own: BENCH_COMPILED=1
compiles the class, the source stays the same; BENCH_WATCHDOG_SECONDS=0 leaves the timer out.
The twins in bench/peers do the same with the same numbers; bench/oracle.py says what must come out.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Fleet, Width, on

COMPILED = os.environ.get("BENCH_COMPILED") == "1"
# Long enough that no drone is silent for so long while a benchmark runs.
WATCHDOG_SECONDS = float(os.environ.get("BENCH_WATCHDOG_SECONDS", "3600"))


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Position(Event):
    lat: float
    lon: float
    alt: float


class Battery(Event):
    percent: float


class Heartbeat(Event):
    number: int


class Near(Event):
    peer: Annotated[str, Width(12)]
    distance: float


class Warned(Event):
    distance: float


class Silent(Event):
    pass


class Descend(Action):
    to: float


class Land(Action, expires=5.0, priority="urgent"):
    pass


class Avoid(Action):
    distance: float


class Lost(Action):
    pass


class Drone(Agent, compiled=COMPILED):
    mode: Mode = Mode.FLYING
    lat: float = 0.0
    lon: float = 0.0
    alt: float = 0.0
    moves: int = 0
    battery: float = 100.0
    beats: int = 0
    warnings: int = 0
    closest: float = 1.0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.lat, self.lon, self.alt = event.lat, event.lon, event.alt
        self.moves += 1
        if event.alt > 100.0:
            ctx.emit(Descend(to=event.alt - 20.0))
        if WATCHDOG_SECONDS > 0.0:
            ctx.after(WATCHDOG_SECONDS, Silent(), name="watchdog")

    @on
    def silent(self, event: Silent, ctx: Context) -> None:
        ctx.emit(Lost())

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        if event.percent < 15.0:
            self.mode = Mode.LANDING
            ctx.emit(Land())

    @on(mode=Mode.LANDING)
    def charged(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        if event.percent >= 90.0:
            self.mode = Mode.FLYING

    @on
    def beat(self, event: Heartbeat, ctx: Context) -> None:
        self.beats += 1

    @on
    def near(self, event: Near, ctx: Context) -> None:
        ctx.send(Drone, event.peer, Warned(distance=event.distance))

    @on
    def warned(self, event: Warned, ctx: Context) -> None:
        self.warnings += 1
        if event.distance < self.closest:
            self.closest = event.distance
        if event.distance < 0.015625:
            ctx.emit(Avoid(distance=event.distance))


fleet = Fleet("bench", agents=[Drone])
