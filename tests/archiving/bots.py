"""A small fleet with timers, stores that fail on purpose, and the judge: archive against engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast import Agent, Context, Event, Fleet, Live, on
from holdfast.blob.port import Blob
from holdfast.engine.port import Engine
from holdfast.errors import Missing, Unreachable
from holdfast.runtime.archiving.archive import Archive
from tests.kills.harness import wait_until

EVERYTHING = 1_000_000_000


class Ping(Event):
    number: int


class Rang(Event):
    pass


class Bot(Agent):
    total: int = 0
    armed: int = 0
    rang: int = 0

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        self.total += event.number
        if event.number % 5 == 0:
            self.armed += 1
            ctx.after(0.001, Rang())

    @on
    def rings(self, event: Rang, ctx: Context) -> None:
        self.rang += 1


fleet = Fleet("bots", agents=[Bot])


class Store:
    """A store in memory. `fault` is called before and after every put and may raise."""

    url = "memory-store:"

    def __init__(self, fault: Callable[[], None] = lambda: None) -> None:
        self.objects: dict[str, bytes] = {}
        self.fault = fault
        self.puts = 0
        self.gets = 0

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.fault()
        self.puts += 1
        new = name not in self.objects
        self.objects.setdefault(name, data)
        self.fault()
        return new

    def get(self, name: str) -> bytes:
        self.gets += 1
        if name not in self.objects:
            raise Missing(f"there is no {name}")
        return self.objects[name]

    def list(self, folder: str = "") -> Iterator[str]:
        return iter(sorted(n for n in self.objects if n.startswith(f"{folder}/".lstrip("/"))))

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def close(self) -> None:
        pass


def rest(live: Live) -> None:
    """Until nothing happens any more: everything is folded and every timer has fired."""
    live.settle()
    wait_until(
        lambda: all(bot.armed == bot.rang for _, bot in live.states(Bot)), 60.0, "all timers"
    )
    live.settle()


def away() -> None:
    raise Unreachable("memory-store:: away")


def differences(engine: Engine, blob: Blob) -> list[str]:
    """Where the archive is not, frame by frame, what the engine has."""
    archive = Archive(blob)
    found = [*archive.problems()]
    for number in (*engine.catalog.retired, *engine.catalog.layout.numbers):
        view = engine.view(number)
        born = view.incarnation()
        frames = view.frames(0, EVERYTHING)
        first = frames[0].first if frames else 0
        if list(archive.frames(born, first)) != frames:
            reach = archive.reach("log", born)
            found.append(
                f"partition {number}: {len(frames)} frames, archived {reach and reach[:2]}"
            )
        rows = view.journal(0, EVERYTHING)
        if list(archive.journal(born, rows[0].first if rows else 0)) != rows:
            found.append(f"partition {number}: {len(rows)} journal rows differ")
    return found
