"""Goal: the lane has bounds and retention of its own, and what waits in it outlives restarts,
segments and commits that are too large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Backlog, Context, Event, Fleet, on
from holdfast.engine.port import Limits
from holdfast.runtime import partition as partition_module
from holdfast.view.sql.queries import Queries
from tests.runtime.haste import (
    Drone,
    LandNow,
    Moved,
    fleet,
    replayed,
    seen,
)
from tests.runtime.semantics import ENGINES, World, opened


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with replayed(request.param, tmp_path) as world:
        yield world


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_backlog_does_not_refuse_it(engine: str, tmp_path: Path) -> None:
    limits = Limits(backlog_events_max=3, urgent_events_max=2, disk_reserve_bytes=1)
    with opened(fleet, engine, tmp_path, limits=limits) as world:
        live = world.live
        live.send_many([(Drone, "d", Moved(x=x)) for x in range(3)])
        with pytest.raises(Backlog, match="3 events wait"):
            live.send(Drone, "d", Moved(x=3), timeout=0.0)
        live.send(Drone, "d", LandNow(), source="s", seq=1)
        live.send(Drone, "d", LandNow(), source="s", seq=2)
        with pytest.raises(Backlog, match="2 urgent events wait"):
            live.send(Drone, "d", LandNow(), source="s", seq=3, timeout=0.0)
        world.run()
        live.send(Drone, "d", LandNow(), source="s", seq=3)
        world.run()
        assert len(live.actions()) == 3


def test_a_restart_finds_what_waits_and_what_is_done(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        world.live.send(Drone, "d", Moved(x=1))
        world.live.send(Drone, "d", LandNow(why="a"))
        world.worker.tick()
        world.live.send(Drone, "d", LandNow(why="b"))
        world.restart()
        world.run()
        assert seen(world.live) == ["land a", "land b", "moved 1"]


def test_segments_come_and_go_while_it_waits(tmp_path: Path) -> None:
    limits = Limits(segment_bytes=20_000, retain_seconds=0.0, disk_reserve_bytes=1)
    with opened(fleet, "sqlite", tmp_path, limits=limits) as world:
        live = world.live
        for n in range(40):
            live.send(Drone, "d", LandNow(why=str(n)))
            live.send_many([(Drone, f"d-{i}", Moved(x=n)) for i in range(200)])
            if n % 10 == 9:
                world.worker.tick()
                world.engine.maintain()
        world.run()
        assert seen(live) == [f"land {n}" for n in range(40)]
        world.clock.pass_time(100.0)
        world.engine.maintain()
        world.restart()
        world.run()
        assert [issued.key for issued in world.live.actions()] == ["d"] * 40


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_urgent_in_a_batch_has_the_bound_of_the_lane_too(
    engine: str, tmp_path: Path
) -> None:
    limits = Limits(urgent_events_max=2, disk_reserve_bytes=1)
    with opened(fleet, engine, tmp_path, limits=limits) as world:
        both = [(Drone, "d", Moved(x=1)), (Drone, "d", LandNow())]
        world.live.send_many(both)
        world.live.send_many(both)
        with pytest.raises(Backlog, match="2 urgent events wait"):
            world.live.send_many(both, timeout=0.0)


def test_a_commit_of_urgent_events_that_is_too_large_is_made_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "COMMIT_BYTES_MAX", 3_000)
    for n in range(64):
        world.live.send(Drone, f"d-{n}", LandNow(why="w" * 16))
    world.run()
    notes = world.engine.view(0).commits(0, 1_000)
    assert len(world.live.actions()) == 64
    assert max(note.issued for note in notes) < 64


def test_the_past_of_a_lane_alone_goes_with_time(tmp_path: Path) -> None:
    limits = Limits(retain_seconds=60.0, disk_reserve_bytes=1)
    with opened(fleet, "sqlite", tmp_path, limits=limits) as world:
        world.live.send(Drone, "d", LandNow())
        world.run()
        before = sorted(tmp_path.rglob("*.seg"))
        world.clock.pass_time(1_000_000.0 - 1_000.0)
        world.engine.maintain()
        assert sorted(tmp_path.rglob("*.seg")) != before


def test_the_table_of_partitions_tells_what_waits(world: World) -> None:
    pytest.importorskip("duckdb")
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    live.send(Drone, "d", LandNow())
    with Queries(live) as queries:
        world.worker.tick()
        sql = "SELECT position, inbox, lag FROM partitions"
        assert queries.answer(sql).rows == [[0, 2, 1]]
        world.run()
        assert queries.answer(sql).rows == [[1, 2, 0]]


def test_many_large_ones_are_not_overtaken_by_what_came_later(tmp_path: Path) -> None:
    """A read ends where it has become large, and not only where it has many events."""

    class Cargo(Event, priority="urgent"):
        data: bytes

    class Hold(Agent):
        seen: list[int] = []

        @on
        def load(self, event: Cargo, ctx: Context) -> None:
            self.seen.append(event.data[0])

        @on
        def moved(self, event: Moved, ctx: Context) -> None:
            self.seen.append(event.x)

    with opened(Fleet("holds", agents=[Hold]), "sqlite", tmp_path) as world:
        for n in range(40):
            world.live.send(Hold, "h", Cargo(data=bytes([n]) * 1_000_000))
        world.live.send(Hold, "h", Moved(x=99))
        world.run()
        hold = world.live.state(Hold, "h")
        assert hold is not None
        assert hold.seen == [*range(40), 99]
