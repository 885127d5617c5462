"""Couriers, which want to know what becomes of their actions, and buoys, which do not."""

from __future__ import annotations

from collections.abc import Callable

from holdfast import (
    Action,
    ActionAcknowledged,
    ActionExpired,
    ActionFailed,
    Agent,
    Context,
    Event,
    Fleet,
    GroundStop,
    GroundStopLifted,
    on,
)
from holdfast.runtime.live import Live
from holdfast.runtime.world import World as Surroundings
from tests.runtime.semantics import World

FLIES = 1_000.0  # seconds; longer than any test may take


class Order(Event):
    item: str = "box"
    urgent: bool = False


class Poison(Event):
    pass


class Fly(Action, expires=FLIES):
    item: str


class Drop(Action):
    item: str


class Land(Action, priority="urgent", during_ground_stop=True):
    pass


class Courier(Agent):
    heard: list[str] = []

    @on
    def order(self, event: Order, ctx: Context) -> None:
        ctx.emit(Drop(item=event.item))
        ctx.emit(Fly(item=event.item))
        if event.urgent:
            ctx.emit(Land())

    @on
    def done(self, event: ActionAcknowledged, ctx: Context) -> None:
        late = " late" if event.late else ""
        self.heard.append(f"{event.name} by {event.by}{late}")
        if event.by == "nobody":
            raise ValueError("by nobody")

    @on
    def failed(self, event: ActionFailed, ctx: Context) -> None:
        self.heard.append(f"{event.name} failed: {event.why}")

    @on
    def expired(self, event: ActionExpired, ctx: Context) -> None:
        self.heard.append(f"{event.name} expired")

    @on
    def stopped(self, event: GroundStop, ctx: Context) -> None:
        self.heard.append(f"stop: {event.why} by {event.by}")
        ctx.emit(Drop(item="ballast"))
        ctx.emit(Land())

    @on
    def lifted(self, event: GroundStopLifted, ctx: Context) -> None:
        self.heard.append(f"lifted: {event.why}")
        ctx.emit(Drop(item="anchor"))


class Buoy(Agent, unhandled="dead-letter"):
    orders: int = 0

    @on
    def order(self, event: Order, ctx: Context) -> None:
        self.orders += 1
        ctx.emit(Fly(item=event.item))

    @on
    def poison(self, event: Poison, ctx: Context) -> None:
        ctx.emit(Fly(item="never"))
        raise ValueError("poison")


fleet = Fleet("harbour", agents=[Courier, Buoy])


def handle(world: World) -> Live:
    """One whose waiting lets the world's worker work, in the world's time."""

    def work(seconds: float) -> None:
        world.run()

    wall: Callable[[], float] = lambda: world.clock.wall  # noqa: E731
    return Live(world.fleet, world.engine, world=Surroundings(sleep=work, wall=wall))
