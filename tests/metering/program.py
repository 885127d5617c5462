"""A fleet that does everything metrics tell of: run as a file by the tests of this folder."""

from __future__ import annotations

from holdfast import Action, Agent, Context, Event, Fleet, call, on


class Moved(Event):
    metres: float


class Wait(Event):
    seconds: float = 3600.0


class Ring(Event):
    pass


class Greet(Event):
    other: str


class Hello(Event):
    pass


class Fail(Event):
    pass


class Grow(Event):
    size: int


class Plan(Event):
    pass


class Planned(Event):
    metres: float


class Turn(Action):
    degrees: float


@call(concurrency=2)
def plan(metres: float) -> Planned:
    return Planned(metres=metres + 1.0)


class Cart(Agent):
    metres: float = 0.0
    greetings: int = 0
    load: str = ""

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.metres += distance(event.metres)
        if event.metres > 1.0:
            ctx.emit(Turn(degrees=90.0))

    @on
    def waits(self, event: Wait, ctx: Context) -> None:
        ctx.after(event.seconds, Ring())

    @on
    def rings(self, event: Ring, ctx: Context) -> None:
        ctx.log.info("rings")

    @on
    def greets(self, event: Greet, ctx: Context) -> None:
        ctx.send(Cart, event.other, Hello())

    @on
    def greeted(self, event: Hello, ctx: Context) -> None:
        self.greetings += 1

    @on
    def fails(self, event: Fail, ctx: Context) -> None:
        raise ValueError("no way out")

    @on
    def grows(self, event: Grow, ctx: Context) -> None:
        self.load = "x" * event.size

    @on
    def plans(self, event: Plan, ctx: Context) -> None:
        ctx.call(plan, self.metres, reply=Planned)

    @on
    def planned(self, event: Planned, ctx: Context) -> None:
        self.metres = event.metres


def distance(metres: float) -> float:
    """Slow enough to be seen by a profiler."""
    total = 0.0
    for _ in range(200):
        total += metres
    return total / 200


fleet = Fleet("carts", agents=[Cart])
