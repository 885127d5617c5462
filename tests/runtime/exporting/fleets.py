"""A fleet whose inputs are of every origin, for the tests of exports."""

from __future__ import annotations

from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on


class Tick(Event):
    n: int
    note: str = ""


class Arm(Event):
    seconds: float


class Tell(Event):
    to: str


class Ring(Event):
    why: str = "armed"


class Told(Event):
    by: str


class Fail(Event):
    pass


class Beep(Action, expires=5.0, priority="urgent"):
    n: int
    note: str = ""


class Mode(Enum):
    CALM = "calm"
    RUNG = "rung"


class Drone(Agent):
    mode: Mode = Mode.CALM
    n: int = 0
    note: str = ""
    heard: list[str] = []

    @on
    def ticked(self, event: Tick, ctx: Context) -> None:
        self.n += event.n
        self.note = event.note
        if event.n % 2:
            ctx.emit(Beep(n=event.n, note=event.note))

    @on
    def armed(self, event: Arm, ctx: Context) -> None:
        ctx.after(event.seconds, Ring(), name="bell")

    @on
    def rang(self, event: Ring, ctx: Context) -> None:
        self.mode = Mode.RUNG

    @on
    def tells(self, event: Tell, ctx: Context) -> None:
        ctx.send(Drone, event.to, Told(by=ctx.key))

    @on
    def told(self, event: Told, ctx: Context) -> None:
        self.heard.append(event.by)

    @on
    def fails(self, event: Fail, ctx: Context) -> None:
        raise ValueError("as asked")


class Visitor(Agent, expire_after=60.0):
    n: int = 0

    @on
    def ticked(self, event: Tick, ctx: Context) -> None:
        self.n += event.n


fleet = Fleet("harbour", agents=[Drone, Visitor])
