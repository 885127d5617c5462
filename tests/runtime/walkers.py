"""Walkers that note what they see in order: what the tests of overtaking tell order by."""

from __future__ import annotations

from holdfast import About, Action, Agent, Context, Event, Fleet, Row, View, on
from tests.runtime.semantics import World


class Step(Event):
    number: int


class Halt(Event, priority="urgent"):
    number: int


class Rang(Event):
    number: int


class Stopped(Action):
    number: int


class Walker(Agent):
    seen: list[int] = []
    times: list[float] = []

    @on
    def step(self, event: Step, ctx: Context) -> None:
        self._note(event.number, ctx)

    @on
    def halt(self, event: Halt, ctx: Context) -> None:
        self._note(event.number, ctx)
        ctx.emit(Stopped(number=event.number))
        ctx.after(1.0, Rang(number=-event.number))

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self._note(event.number, ctx)

    def _note(self, number: int, ctx: Context) -> None:
        self.seen.append(number)
        self.times.append(ctx.now)


class Seen(Row):
    numbers: list[int] = []


class Order(View[Seen]):
    """What a view sees, in its order."""

    @on
    def step(self, event: Step, about: About) -> None:
        self[about.key].numbers.append(event.number)

    @on
    def halt(self, event: Halt, about: About) -> None:
        self[about.key].numbers.append(event.number)

    @on
    def rang(self, event: Rang, about: About) -> None:
        self[about.key].numbers.append(event.number)


FLEET = Fleet("walkers", agents=[Walker], views=[Order])
SEEN = [1, 100, 2, 3, 101, 4, -100, -101, 5]


def walk(world: World) -> list[float]:
    """An urgent event overtakes two others, another one overtakes a third. Times between them."""
    live, moments = world.live, []
    live.send(Walker, "w", Step(number=1))
    world.run()
    world.clock.pass_time(0.01)
    moments.append(world.clock.wall)
    world.clock.pass_time(0.01)
    for number in (2, 3):
        live.send(Walker, "w", Step(number=number))
        live.send(Walker, "other", Step(number=number))
    world.clock.pass_time(0.01)
    moments.append(world.clock.wall)
    world.clock.pass_time(0.01)
    live.send(Walker, "w", Halt(number=100), source="gcs", seq=7)
    world.run()
    world.clock.pass_time(0.01)
    moments.append(world.clock.wall)
    world.clock.pass_time(0.01)
    live.send(Walker, "w", Step(number=4))
    world.clock.pass_time(0.01)
    live.send(Walker, "w", Halt(number=101), source="gcs", seq=8)
    world.run()
    world.pass_time(5.0)
    live.send(Walker, "w", Step(number=5))
    world.run()
    return moments
