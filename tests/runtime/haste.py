"""Drones that note in which order and when things came, for the tests of urgent events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Fleet, Live, Width, on
from holdfast.runtime.replaying.running import compare
from tests.runtime.semantics import World, opened


class Moved(Event):
    x: int


class LandNow(Event, priority="urgent"):
    why: Annotated[str, Width(16)] = ""


class Where(Event, priority="urgent"):
    pass


class At(Event):
    x: int


class Tell(Event):
    to: str


class Rang(Event):
    pass


class Crash(Event, priority="urgent"):
    pass


class Land(Action, priority="urgent"):
    pass


class Drone(Agent):
    x: int = 0
    seen: list[str] = []
    times: list[float] = []

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.x = event.x
        self.note(f"moved {event.x}", ctx)

    @on
    def land(self, event: LandNow, ctx: Context) -> None:
        self.note(f"land {event.why}", ctx)
        ctx.emit(Land())

    @on
    def where(self, event: Where, ctx: Context) -> None:
        ctx.reply(At(x=self.x))

    @on
    def tell(self, event: Tell, ctx: Context) -> None:
        ctx.after(5.0, Rang())
        ctx.send(Drone, event.to, LandNow(why=f"{ctx.key} says"))

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.note("rang", ctx)

    @on
    def crash(self, event: Crash, ctx: Context) -> None:
        raise ValueError("no")

    def note(self, what: str, ctx: Context) -> None:
        self.seen = [*self.seen, what]
        self.times = [*self.times, ctx.now]


fleet = Fleet("urgent", agents=[Drone])


def seen(live: Live, key: str = "d") -> list[str]:
    drone = live.state(Drone, key)
    return [] if drone is None else drone.seen


@contextmanager
def replayed(engine: str, folder: Path) -> Iterator[World]:
    """The fleet, alone; what it has folded is folded again in the end, and equal."""
    with opened(fleet, engine, folder) as world:
        yield world
        assert compare(world.engine, fleet, 0).difference is None, "a replay is equal"
