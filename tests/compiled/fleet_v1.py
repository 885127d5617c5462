"""A compiled agent and its events, as a first release has them. `fleet_v2` is the second."""

from __future__ import annotations

from typing import Annotated

from holdfast import Action, Agent, Context, Event, on
from holdfast.model.fleet import FleetModel
from holdfast.model.marks import Width


class Reading(Event):
    value: float


class Check(Event):
    level: float


class Alarm(Action):
    level: float


class Sensor(Agent, compiled=True):
    total: float = 0.0
    place: Annotated[str, Width(6)] = "roof"

    @on
    def read(self, event: Reading, ctx: Context) -> None:
        self.total += event.value
        ctx.after(3.0, Check(level=event.value), name="check")
        if event.value < 0.0:
            ctx.after(2.0, Check(level=0.5))

    @on
    def check(self, event: Check, ctx: Context) -> None:
        ctx.emit(Alarm(level=1.0 / event.level))


FLEET = FleetModel("sensors", agents=[Sensor])
