"""Tugs that want to know what becomes of their actions: acknowledged, failed, expired, stopped."""

from __future__ import annotations

import random

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


class Tow(Event):
    ship: str


class Cast(Event, priority="urgent"):
    """Let go of the ship at once."""

    ship: str


class Pull(Action, expires=1.5):
    ship: str


class Hoot(Action):
    times: int


class Anchor(Action, during_ground_stop=True):
    pass


class Tug(Agent):
    done: int = 0
    heard: list[str] = []

    @on
    def tow(self, event: Tow, ctx: Context) -> None:
        ctx.emit(Hoot(times=ctx.random.randint(1, 3)))
        ctx.emit(Pull(ship=event.ship))
        ctx.emit(Anchor())
        if event.ship == "wreck":
            raise ValueError("a wreck")

    @on
    def cast(self, event: Cast, ctx: Context) -> None:
        self.heard = [*self.heard[-5:], f"cast {event.ship}"]
        ctx.emit(Hoot(times=9))

    @on
    def acknowledged(self, event: ActionAcknowledged, ctx: Context) -> None:
        self.done += 1
        self.heard = [*self.heard[-5:], f"{event.name} {event.late}"]
        if self.done % 7 == 0:
            raise ValueError("the seventh")
        if self.done % 3 == 0:
            ctx.emit(Hoot(times=self.done))

    @on
    def failed(self, event: ActionFailed, ctx: Context) -> None:
        self.heard = [*self.heard[-5:], f"{event.name} {event.why}"]

    @on
    def expired(self, event: ActionExpired, ctx: Context) -> None:
        self.heard = [*self.heard[-5:], f"{event.name} expired"]

    @on
    def stopped(self, event: GroundStop, ctx: Context) -> None:
        self.heard = [*self.heard[-5:], f"stop by {event.by}"]
        ctx.emit(Anchor())
        ctx.emit(Hoot(times=0))

    @on
    def lifted(self, event: GroundStopLifted, ctx: Context) -> None:
        self.heard = [*self.heard[-5:], "lifted"]
        ctx.emit(Pull(ship="again"))


class Pilot(Agent, expire_after=2.5, on_error="pause"):
    """Forgotten soon, and only stops with the fleet."""

    tows: int = 0

    @on
    def tow(self, event: Tow, ctx: Context) -> None:
        self.tows += 1
        ctx.emit(Pull(ship=event.ship))
        ctx.send(Tug, "t-1", event)

    @on
    def stopped(self, event: GroundStop, ctx: Context) -> None:
        self.tows = 0
        if ctx.random.random() < 0.3:
            raise RuntimeError("no way to stop")


class Lamp(Agent, unhandled="dead-letter"):
    """Wants to know nothing."""

    lit: int = 0

    @on
    def tow(self, event: Tow, ctx: Context) -> None:
        self.lit += 1
        ctx.emit(Pull(ship=event.ship))


fleet = Fleet("tugs", agents=[Tug, Pilot, Lamp])

Row = tuple[type[Agent], str, Event]


def stimulus(draw: random.Random) -> Row:
    number = draw.randint(1, 4)
    tow = Tow(ship=draw.choice(["a", "b", "wreck"]))
    return draw.choice(
        [(Tug, f"t-{number}", tow), (Pilot, f"p-{number}", tow), (Lamp, f"l-{number}", tow)]
    )


def question(draw: random.Random) -> Row:
    return stimulus(draw)
