"""The convoy in a version that sets no timers: not the code that ran."""

from __future__ import annotations

from holdfast import Action, Agent, Context, Event, Fleet, on


class Load(Event):
    tokens: int


class Pass(Event):
    tokens: int
    hops: int


class Remind(Event):
    seconds: float


class Rang(Event):
    pass


class Break(Event):
    pass


class Rolled(Action):
    tokens: int


class Truck(Agent):
    tokens: int = 0
    rings: int = 0
    loads: int = 0

    @on
    def load(self, event: Load, ctx: Context) -> None:
        ctx.emit(Rolled(tokens=self.tokens))
        ctx.send(Truck, ctx.key, Pass(tokens=0, hops=0))

    @on
    def passed(self, event: Pass, ctx: Context) -> None: ...

    @on
    def remind(self, event: Remind, ctx: Context) -> None: ...

    @on
    def rang(self, event: Rang, ctx: Context) -> None: ...

    @on
    def broken(self, event: Break, ctx: Context) -> None: ...


fleet = Fleet("convoy", agents=[Truck])
