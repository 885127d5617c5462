"""A fleet with a view of zones, and what its rows must be, said without the view's code."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import About, Action, Agent, Context, Event, Fleet, Row, View, on


class Battery(Event):
    zone: str
    percent: int


class Rest(Event):
    zone: str


class Rested(Event):
    zone: str


class Land(Action):
    zone: str


class Drone(Agent):
    seen: int = 0

    @on
    def drained(self, event: Battery, ctx: Context) -> None:
        self.seen += 1
        if event.percent < 15:
            ctx.emit(Land(zone=event.zone))

    @on
    def rest(self, event: Rest, ctx: Context) -> None:
        ctx.after(0.01, Rested(zone=event.zone))


class Zone(Row):
    events: int = 0
    low: int = 0
    landed: int = 0
    rested: int = 0
    last: dict[str, int] = {}  # by drone, its newest percentage: shows order


class ZoneLoad(View[Zone]):
    @on
    def drained(self, event: Battery, about: About) -> None:
        zone = self[event.zone]
        zone.events += 1
        zone.low += event.percent < 15
        zone.last[about.key] = event.percent

    @on
    def rested(self, event: Rested, about: About) -> None:
        assert about.origin == "timer"
        self[event.zone].rested += 1

    @on
    def landed(self, event: Land, about: About) -> None:
        assert about.id is not None
        self[event.zone].landed += 1


fleet = Fleet("zones", agents=[Drone], views=[ZoneLoad])

Sent = list[tuple[str, Battery]]


def expected(sent: Iterable[tuple[str, Battery]]) -> dict[str, Zone]:
    """The oracle, for fleets without timers."""
    zones: dict[str, Zone] = {}
    for key, event in sent:
        zone = zones.setdefault(event.zone, Zone())
        low = int(event.percent < 15)
        zone.events, zone.low, zone.landed = zone.events + 1, zone.low + low, zone.landed + low
        zone.last = {**zone.last, key: event.percent}
    return zones
