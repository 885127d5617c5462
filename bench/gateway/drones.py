"""The fleet under load. Its state tells in which order which events were folded, and how often."""

from __future__ import annotations

from holdfast import Action, Agent, Context, Event, Fleet, on

HIGH = 100.0
FACTOR, MODULUS = 1_000_003, 2**61 - 1


class Position(Event):
    number: int
    lat: float
    lon: float
    alt: float


class Descend(Action):
    number: int


class Drone(Agent):
    count: int = 0
    digest: int = 0  # another order is another digest
    alt: float = 0.0

    @on
    def moved(self, event: Position, ctx: Context) -> None:
        self.count += 1
        self.digest = (self.digest * FACTOR + event.number) % MODULUS
        self.alt = event.alt
        if event.alt > HIGH:
            ctx.emit(Descend(number=event.number))


fleet = Fleet("load", agents=[Drone])
