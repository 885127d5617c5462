"""A fleet whose one event leads over another agent and a call to an action; run as a file, too."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast import Action, Agent, Context, Event, Fleet, call, on


class Order(Event):
    depot: str
    seconds: float = 0.0


class Spoilt(Event):
    pass


class Routed(Event):
    metres: float


class Depart(Action):
    metres: float


@call(concurrency=2)
def route(depot: str, seconds: float) -> Routed:
    """Tells that it runs, by a file, and takes its time."""
    Path(f"{depot}.runs").touch()
    time.sleep(seconds)
    return Routed(metres=7.0)


class Shop(Agent):
    orders: int = 0

    @on
    def ordered(self, event: Order, ctx: Context) -> None:
        self.orders += 1
        ctx.log.info("ordered")
        ctx.send(Depot, event.depot, event)

    @on
    def spoilt(self, event: Spoilt, ctx: Context) -> None:
        raise ValueError("spoilt")


class Depot(Agent):
    orders: int = 0

    @on
    def ordered(self, event: Order, ctx: Context) -> None:
        self.orders += 1
        ctx.call(route, ctx.key, event.seconds, reply=Routed)

    @on
    def routed(self, event: Routed, ctx: Context) -> None:
        ctx.emit(Depart(metres=event.metres))


fleet = Fleet("couriers", agents=[Shop, Depot])
