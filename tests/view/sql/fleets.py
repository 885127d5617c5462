"""Fleets for the tests of SQL: one that counts, one whose names clash, one with every type."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum

from holdfast import Action, Agent, Context, Event, Fleet, on


class Mode(Enum):
    CALM = "calm"
    RUNG = "rung"


class Add(Event):
    n: int = 1


class Arm(Event):
    seconds: float


class Ring(Event):
    pass


class Tell(Event):
    to: str


class Fail(Event):
    pass


class Beep(Action, expires=5.0, priority="urgent"):
    n: int


class Counter(Agent):
    """Its counts together are the events that were folded."""

    mode: Mode = Mode.CALM
    n: int = 0

    @on
    def adds(self, event: Add, ctx: Context) -> None:
        self.n += event.n
        if event.n > 1:
            ctx.emit(Beep(n=event.n))

    @on
    def arms(self, event: Arm, ctx: Context) -> None:
        self.n += 1
        ctx.after(event.seconds, Ring())

    @on
    def rings(self, event: Ring, ctx: Context) -> None:
        self.mode = Mode.RUNG

    @on
    def tells(self, event: Tell, ctx: Context) -> None:
        self.n += 1
        ctx.send(Counter, event.to, Add())

    @on
    def fails(self, event: Fail, ctx: Context) -> None:
        raise ValueError("as asked")


class Visitor(Agent, expire_after=0.05):
    n: int = 0

    @on
    def adds(self, event: Add, ctx: Context) -> None:
        self.n += event.n


counting = Fleet("counting", agents=[Counter, Visitor])


class Events(Agent):
    """A class and fields whose names others have already."""

    key: str = "a field"
    version: str = "seven"
    updated: bool = True
    lat: float = 1.0
    LAT: float = 2.0

    @on
    def adds(self, event: Add, ctx: Context) -> None:
        self.lat += event.n


class EVENTS(Agent):
    n: int = 0

    @on
    def adds(self, event: Add, ctx: Context) -> None:
        self.n += event.n


clashing = Fleet("clashing", agents=[Events, EVENTS])


@dataclass
class Spot:
    x: float
    name: str


class Fill(Event):
    number: int = 0


class Everything(Agent):
    yes: bool = False
    whole: int = 0
    real: float = 0.0
    text: str = ""
    raw: bytes = b""
    moment: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    day: date = date(2026, 1, 2)
    name: uuid.UUID = uuid.UUID(int=7)
    price: Decimal = Decimal("1.50")
    mode: Mode = Mode.CALM
    perhaps: int | None = None
    items: list[float] = []
    spot: Spot | None = None

    @on
    def fills(self, event: Fill, ctx: Context) -> None:
        self.yes, self.whole, self.real = True, event.number, 2.5
        self.text, self.raw, self.mode = "né\n", b"\x00\xff", Mode.RUNG
        self.items, self.spot = [1.0, 2.0], Spot(1.0, "home")


everything = Fleet("everything", agents=[Everything])
