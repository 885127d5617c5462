"""The convoy in a version that sets no timers: not the code that ran."""

from __future__ import annotations

from holdfast import Agent, Context, Fleet, on
from tests.runtime.snapshots.convoy import Break, Load, Pass, Rang, Remind, Rolled


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
