"""The drone program of the README, as the benchmarks run it, and its seeded events."""

from __future__ import annotations

import random
from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on

DRONES = 5_000
CLIMB_SHARE = 0.01  # share of positions above 100 m, each of which makes one action


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


class Drone(Agent):
    mode: Mode = Mode.FLYING
    lat: float = 0.0
    lon: float = 0.0
    alt: float = 0.0
    battery: float = 100.0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.lat, self.lon, self.alt = event.lat, event.lon, event.alt
        if event.alt > 100.0:
            ctx.emit(Descend(to=80.0))

    @on(mode=Mode.FLYING)
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        if event.percent < 15.0:
            self.mode = Mode.LANDING
            ctx.emit(Land())


fleet = Fleet("bench", agents=[Drone])
KEYS = [f"d-{n}" for n in range(DRONES)]


def coordinates(seed: int, count: int) -> list[tuple[str, float, float, float]]:
    """Seeded telemetry as plain numbers: what a device would hand to the producer."""
    draw = random.Random(seed)
    rows = []
    for n in range(count):
        high = draw.random() < CLIMB_SHARE
        altitude = draw.uniform(101.0, 120.0) if high else draw.uniform(10.0, 100.0)
        rows.append((KEYS[n % DRONES], draw.random(), draw.random(), altitude))
    return rows
