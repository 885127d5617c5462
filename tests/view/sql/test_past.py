"""Goal: SQL at a time says what the fleet was then, by an oracle that adds up for itself what was
sent when; over snapshots, rescalings and retention; and what cannot be told is refused."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Agent, Context, Fleet, on
from holdfast.blob.files import FileBlob
from holdfast.engine.port import Limits as EngineLimits
from holdfast.errors import TimedOut, UsageError
from holdfast.runtime.replaying.history import History
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.snapshots.beginnings import latest_start
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.view.sql.limits import Limits
from holdfast.view.sql.queries import Queries
from tests.runtime.semantics import World, opened
from tests.seeds import seeds
from tests.view.sql.fleets import Add, Arm, Counter, Fail, Mode, Tell, counting

SQL = "SELECT key, version, mode, n FROM counter ORDER BY key"
START = 1_000_000.0


class Effect(NamedTuple):
    """What one thing that was sent does to one agent, and when."""

    time: float
    key: str
    n: int = 0
    rings: bool = False


def expected(effects: list[Effect], at: float) -> list[list[object]]:
    """The oracle: it adds up what had happened by then."""
    rows: dict[str, list[object]] = {}
    for each in effects:
        if each.time <= at:
            key, version, mode, n = rows.get(each.key, [each.key, 0, "calm", 0])
            mode = "rung" if each.rings else mode
            rows[each.key] = [key, int(str(version)) + 1, mode, int(str(n)) + each.n]
    return [rows[key] for key in sorted(rows)]


class Past:
    """Sends at random, second by second, and writes down what that should do."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.effects: list[Effect] = []

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.pass_time(1.0)
            for _ in range(self.chance.randrange(4)):
                self._send()
            self.world.run()

    def _send(self) -> None:
        now, chance = self.world.clock.wall, self.chance
        key, other = (f"c-{chance.randrange(12)}" for _ in range(2))
        live, kind = self.world.live, chance.randrange(5)
        if kind == 0:
            live.send(Counter, key, Tell(to=other))
            self.effects += [Effect(now, key, 1), Effect(now, other, 1)]
        elif kind == 1:
            seconds = chance.randrange(1, 5)
            live.send(Counter, key, Arm(seconds=float(seconds)))
            self.effects += [Effect(now, key, 1), Effect(now + seconds, key, rings=True)]
        elif kind == 2:
            live.send(Counter, key, Fail())
        else:
            n = chance.randrange(1, 4)
            live.send(Counter, key, Add(n=n))
            self.effects.append(Effect(now, key, n))

    def snapshot(self, name: str) -> None:
        Creation(self.world.engine, self.store()).run(name)

    def store(self) -> SnapshotStore:
        return SnapshotStore(FileBlob(self.world._folder / "snapshots"))

    def check(
        self, queries: Queries, first: float, times: int, snapshots: str | None = None
    ) -> None:
        last = self.world.clock.wall
        for _ in range(times):
            at = self.chance.uniform(first, last)
            ask = partial(queries.answer, at=at, fleet=lambda: counting, snapshots=snapshots)
            found = ask(SQL)
            assert found.rows == expected(self.effects, at), f"at {at}"
            assert ask("SELECT sum(agents) FROM partitions").rows == [[len(found.rows)]]


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_at_random_times(seed: int, tmp_path: Path) -> None:
    with opened(counting, "sqlite", tmp_path, 3) as world, Queries(world.live) as queries:
        past = Past(world, random.Random(seed))
        past.live(20)
        past.snapshot("one")
        past.live(20)
        past.snapshot("two")
        past.live(10)
        past.check(queries, START, 12)
        assert queries.answer(SQL, at=START, fleet=lambda: counting).rows == []
        now = queries.answer(SQL)
        assert queries.answer(SQL, at=world.clock.wall, fleet=lambda: counting).rows == now.rows
        (start,) = {
            latest_start(History(world.engine, n), past.store(), START + 45.0).what  # type: ignore[union-attr]
            for n in range(3)
        }
        assert start == "snapshot two", "no more is folded than has to be"


def test_over_a_rescaling(tmp_path: Path) -> None:
    with opened(counting, "sqlite", tmp_path, 2) as world, Queries(world.live) as queries:
        past = Past(world, random.Random(7))
        past.live(15)
        job = Rescale(counting, world.engine, 3, world.clock)
        job._worker = world.worker  # which holds the partitions
        while not job.step():
            pass
        world._partitions = 3
        world.worker = type(world.worker)(counting, world.engine, [2, 3, 4], world.clock)
        past.live(15)
        past.check(queries, START, 15)
        before = queries.answer(SQL, at=START + 5.0, fleet=lambda: counting)
        assert sorted(before.positions) == [0, 1]
        after = queries.answer(SQL, at=START + 25.0, fleet=lambda: counting)
        assert sorted(after.positions) == [2, 3, 4]


def test_behind_what_retention_has_left(tmp_path: Path) -> None:
    limits = EngineLimits(disk_reserve_bytes=1, retain_seconds=20.0)
    with opened(counting, "memory", tmp_path, 2, limits) as world, Queries(world.live) as queries:
        past = Past(world, random.Random(3))
        past.live(10)
        past.snapshot("lost")
        past.live(40)
        past.snapshot("kept")
        middle = world.clock.wall
        past.live(10)
        world.engine.maintain()
        where = f"file:{world._folder / 'snapshots'}"
        past.check(queries, middle, 5, where)
        with pytest.raises(UsageError, match=r"cannot be told: partition \d: history begins at"):
            queries.answer(SQL, at=START + 5.0, fleet=lambda: counting, snapshots=where)


def test_dead_letters_of_then(tmp_path: Path) -> None:
    with opened(counting, "sqlite", tmp_path) as world, Queries(world.live) as queries:
        for _ in range(3):
            world.pass_time(1.0)
            world.live.send(Counter, "c", Fail())
            world.run()
        world.live.redrive("0.1")
        world.run()
        sql = "SELECT id, error, redriven FROM dead_letters ORDER BY id"
        then = queries.answer(sql, at=START + 2.5, fleet=lambda: counting).rows
        assert [[row[0], row[2]] for row in then] == [["0.1", False], ["0.2", False]]
        now = queries.answer(sql).rows
        assert [[row[0], row[2]] for row in now] == [
            ["0.1", True],
            *([f"0.{i}", False] for i in (2, 3, 4)),
        ]


# What cannot be told.


class Changed(Agent):
    pass


def other_code() -> Fleet:
    class Counter(Agent):
        mode: Mode = Mode.CALM
        n: int = 0
        extra: int = 7

        @on
        def adds(self, event: Add, ctx: Context) -> None:
            self.n += 2 * event.n

    return Fleet("counting", agents=[Counter])


def newer_code() -> Fleet:
    """It folds as before, and has another field."""

    class Counter(Agent):
        mode: Mode = Mode.CALM
        n: int = 0
        extra: int = 7

        @on
        def adds(self, event: Add, ctx: Context) -> None:
            self.n += event.n

    return Fleet("counting", agents=[Counter])


def test_refusals(tmp_path: Path) -> None:
    with opened(counting, "sqlite", tmp_path) as world, Queries(world.live) as queries:
        world.live.send(Counter, "c", Add(n=1))
        world.run()
        at = world.clock.wall
        with pytest.raises(UsageError, match="give the code that folds them: --fleet FILE"):
            queries.answer(SQL, at=at)
        with pytest.raises(UsageError, match="is in the future"):
            queries.answer(SQL, at=time.time() + 100.0, fleet=lambda: counting)
        with pytest.raises(UsageError, match="of fleet 'others', the data of 'counting'"):
            queries.answer(SQL, at=at, fleet=lambda: Fleet("others", agents=[Changed]))
        with pytest.raises(UsageError, match="this code makes another history"):
            queries.answer("SELECT n FROM counter", at=at, fleet=other_code)
        newer = queries.answer("SELECT n, extra FROM counter", at=at, fleet=newer_code)
        assert newer.rows == [[1, 7]]
        for table in ("events", "actions"):
            with pytest.raises(UsageError, match="ask for those with a stamp before it"):
                queries.answer(f"SELECT * FROM {table}", at=at, fleet=lambda: counting)
    with opened(counting, "memory", tmp_path) as world:
        world.live.send(Counter, "c", Add(n=1))
        world.run()
        with (
            Queries(world.live, Limits(fold_seconds=0.0)) as queries,
            pytest.raises(TimedOut, match="was not folded within 0 s"),
        ):
            queries.answer(SQL, at=world.clock.wall, fleet=lambda: counting)
