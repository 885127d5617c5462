"""A fleet with one of everything a snapshot has to keep, and how two of its directories compare.

Trucks hand tokens to each other, so that messages are on the way at every moment; none is ever made
or lost but by `Load`, which comes from outside.
"""

from __future__ import annotations

from pathlib import Path

from holdfast import Action, Agent, Context, Event, Fleet, Live, on
from holdfast.blob.files import FileBlob
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.snapshots.creating import Creation, Made
from holdfast.runtime.snapshots.store import SnapshotStore

TRUCKS = 20
KEYS = [f"t-{i}" for i in range(TRUCKS)]


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
        self.tokens += event.tokens
        self.loads += 1
        ctx.emit(Rolled(tokens=self.tokens))
        self._share(ctx, 4)

    @on
    def passed(self, event: Pass, ctx: Context) -> None:
        self.tokens += event.tokens
        self._share(ctx, event.hops)

    def _share(self, ctx: Context, hops: int) -> None:
        if hops and self.tokens:
            give = ctx.random.randint(1, self.tokens)
            self.tokens -= give
            to = KEYS[ctx.random.randint(0, TRUCKS - 1)]
            ctx.send(Truck, to, Pass(tokens=give, hops=hops - 1))

    @on
    def remind(self, event: Remind, ctx: Context) -> None:
        ctx.after(event.seconds, Rang(), name="bell")

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.rings += 1
        self._share(ctx, 2)

    @on
    def broken(self, event: Break, ctx: Context) -> None:
        raise ValueError("broken")


fleet = Fleet("convoy", agents=[Truck])


def store_at(folder: Path) -> SnapshotStore:
    return SnapshotStore(FileBlob(folder / "snapshots"))


def create(data: Path, store: SnapshotStore, name: str | None = None) -> Made:
    """As the command line does it: another process, of which nobody else remembers anything."""
    engine = SqliteEngine(data)
    try:
        return Creation(engine, SnapshotStore(store.blob)).run(name)
    finally:
        engine.close()


def tokens(live: Live) -> int:
    return sum(truck.tokens for _, truck in live.states(Truck))


def agents(engine: SqliteEngine) -> list[tuple[object, ...]]:
    """Every agent with its timers and all; only when it was last stored depends on the commits."""
    numbers = engine.catalog.layout.numbers
    return sorted(record[:6] for n in numbers for record in engine.view(n).records())


def picture(data: Path) -> object:
    """Everything that a snapshot keeps, of a directory at rest; incarnations by number."""
    engine = SqliteEngine(data)
    try:
        contents = engine.capture()
        try:
            names = {part.facts.incarnation: str(part.facts.number) for part in contents.partitions}
            return [
                (
                    part.facts._replace(
                        incarnation=names[part.facts.incarnation],
                        marks={names[source]: n for source, n in part.facts.marks.items()},
                    ),
                    sorted(part.records()),
                    part.letters(),
                    part.calls(),
                    part.fates(),
                    part.outbox(),
                    list(part.frames()),
                    part.dedupe(),
                )
                for part in contents.partitions
            ] + [contents.fleet, contents.layout, contents.retired, contents.schemas]
        finally:
            contents.close()
    finally:
        engine.close()
