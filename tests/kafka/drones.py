"""A small fleet for the tests of the Kafka engine, here and on the command line: `FILE`."""

from __future__ import annotations

from pathlib import Path

from holdfast import Action, Agent, Context, Event, Fleet, on

FILE = Path(__file__)


class Battery(Event):
    percent: float


class Note(Event):
    text: str


class Land(Action):
    pass


class Drone(Agent):
    battery: float = 100.0
    note: str = ""
    events: int = 0

    @on
    def drained(self, event: Battery, ctx: Context) -> None:
        self.battery = event.percent
        self.events += 1
        if event.percent < 15.0:
            ctx.emit(Land())

    @on
    def noted(self, event: Note, ctx: Context) -> None:
        self.note = event.text
        self.events += 1


fleet = Fleet("delivery", agents=[Drone])
