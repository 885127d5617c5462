"""The second release of `fleet_v1`: more fields everywhere, and another timer in front."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from holdfast import Action, Agent, Context, Event, on
from holdfast.model.fleet import FleetModel
from holdfast.model.marks import Width


class Unit(Enum):
    CELSIUS = "C"
    KELVIN = "K"


class Reading(Event):
    value: float
    unit: Unit = Unit.KELVIN
    note: Annotated[str, Width(5)] = "none"


class Check(Event):
    level: float
    times: int = 2


class Alarm(Action):
    level: float
    note: Annotated[str, Width(5)] = ""


class Sensor(Agent, compiled=True):
    total: float = 0.0
    place: Annotated[str, Width(6)] = "roof"
    unit: Unit = Unit.CELSIUS
    times: int = 10

    @on
    def read(self, event: Reading, ctx: Context) -> None:
        self.total += event.value
        self.unit = event.unit
        ctx.after(9.0, Reading(value=0.25), name="again")
        ctx.after(3.0, Check(level=event.value, times=self.times), name="check")
        if event.note == "none":
            self.times += 1

    @on
    def check(self, event: Check, ctx: Context) -> None:
        self.times -= event.times
        ctx.emit(Alarm(level=1.0 / event.level, note="v2"))


FLEET = FleetModel("sensors", agents=[Sensor])
