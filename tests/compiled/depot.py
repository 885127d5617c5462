"""A fleet for real processes, whose end can be worked out without it: no state depends on times.

Environment: DEPOT_INTERPRETED=1 is the same program without kernels. DEPOT_DELTAS=3 lets so many
deltas wait, so that the blocks of the base are written again and again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.engine.sqlite import deltas
from holdfast.model.marks import Length, Width

COMPILED = not os.environ.get("DEPOT_INTERPRETED")
deltas.DELTAS_MAX = int(os.environ.get("DEPOT_DELTAS", deltas.DELTAS_MAX))
HUBS = 3
EVERY = 5  # so many events between messages, actions and short timers


class Scan(Event):
    amount: int
    weight: float
    tag: Annotated[str, Width(6)] = ""


class Tick(Event):
    pass


class Late(Event):
    amount: int


class Report(Event):
    amount: int
    tag: Annotated[str, Width(6)]


class Moved(Action):
    amount: int
    tag: Annotated[str, Width(6)]


class Shelf(Agent, compiled=COMPILED):
    count: int = 0
    total: int = 0
    weight: float = 0.0
    tag: Annotated[str, Width(6)] = ""
    newest: Annotated[list[int], Length(3)] = []
    rung: int = 0

    @on
    def scanned(self, event: Scan, ctx: Context) -> None:
        self.total += 100 // (event.amount - 13)
        self.count += 1
        self.weight += event.weight
        self.tag = event.tag
        if len(self.newest) == 3:
            self.newest.pop(0)
        self.newest.append(event.amount)
        ctx.after(36_000.0, Late(amount=event.amount), name="late")
        if self.count % EVERY == 0:
            ctx.emit(Moved(amount=self.total, tag=self.tag))
            ctx.send(Hub, f"h-{self.count % HUBS}", Report(amount=event.amount, tag=event.tag))
            ctx.after(0.05, Tick())

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.rung += 1

    @on
    def late(self, event: Late, ctx: Context) -> None:
        self.rung = -1


class Hub(Agent, compiled=COMPILED):
    heard: int = 0
    total: int = 0

    @on
    def report(self, event: Report, ctx: Context) -> None:
        self.heard += 1
        self.total += event.amount
        if event.amount % 2 == 0:
            ctx.send(Clerk, "c", event=Report(amount=event.amount, tag=ctx.key))


class Clerk(Agent):
    heard: dict[str, int] = {}

    @on
    def report(self, event: Report, ctx: Context) -> None:
        self.heard[event.tag] = self.heard.get(event.tag, 0) + event.amount


fleet = Fleet("depot", agents=[Shelf, Hub, Clerk])


# What must become of it.


class Row(NamedTuple):
    key: str
    amount: int
    weight: float
    tag: str


def row(number: int) -> Row:
    return Row(f"s-{number * 7 % 23}", number % 17, number / 8, f"t-{number % 100}")


@dataclass
class ShelfTruth:
    count: int = 0
    total: int = 0
    weight: float = 0.0
    tag: str = ""
    newest: list[int] = field(default_factory=list)

    @property
    def rung(self) -> int:
        return self.count // EVERY


class Truth:
    def __init__(self, rows: Sequence[Row]) -> None:
        self.shelves: dict[str, ShelfTruth] = {}
        self.heard: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        self.clerk: Counter[str] = Counter()
        self.actions: Counter[tuple[str, int, str]] = Counter()
        self.letters: Counter[tuple[str, int, str]] = Counter()
        for each in rows:
            self._scan(each)

    def _scan(self, row: Row) -> None:
        shelf = self.shelves.setdefault(row.key, ShelfTruth())
        if row.amount == 13:
            self.letters[row.key, row.amount, row.tag] += 1
            return
        shelf.total += 100 // (row.amount - 13)
        shelf.count += 1
        shelf.weight += row.weight
        shelf.tag = row.tag
        shelf.newest = [*shelf.newest, row.amount][-3:]
        if shelf.count % EVERY == 0:
            self.actions[row.key, shelf.total, row.tag] += 1
            hub = f"h-{shelf.count % HUBS}"
            self.heard[hub] += 1
            self.totals[hub] += row.amount
            if row.amount % 2 == 0:
                self.clerk[hub] += row.amount
