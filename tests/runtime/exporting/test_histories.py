"""Goal: an export never goes on with another history than the one it has rows of, and says by name
which rows retention took before they were exported."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import GiveUp, WrongFleet
from holdfast.engine.port import Limits
from holdfast.engine.sqlite import engine as sqlite_engine
from holdfast.engine.urls import open_engine
from holdfast.runtime.exporting.target import KINDS, Kind
from holdfast.runtime.rescaling import rescale
from tests.runtime.exporting.fleets import Arm, Drone, Tick, Visitor, fleet
from tests.runtime.exporting.sinks import Sink, export, exporter
from tests.runtime.exporting.test_states import committed
from tests.runtime.semantics import World, opened

DAY = 24 * 3600.0


def fold(place: Path, *numbers: int) -> None:
    with fleet.open(f"sqlite:{place}?partitions=1") as live:
        for n in numbers:
            live.send(Drone, "d-1", Tick(n=n))
        live.settle()


def put(place: Path, kind: Kind, sink: Sink) -> int:
    engine = open_engine(f"sqlite:{place}", None)
    try:
        return export(engine, kind, sink)
    finally:
        engine.close()


def copy(place: Path, to: Path) -> None:
    shutil.copytree(place, to, ignore=shutil.ignore_patterns("wake"))


@pytest.mark.parametrize("kind", KINDS)
def test_another_directory_of_the_fleet_is_refused(sink: Sink, kind: Kind, tmp_path: Path) -> None:
    for name in "ab":
        fold(tmp_path / name, 1, 3)
    put(tmp_path / "a", kind, sink)
    with pytest.raises(WrongFleet, match=f"{kind} of another history of fleet 'harbour'.*--from"):
        put(tmp_path / "b", kind, sink)
    assert put(tmp_path / "a", kind, sink) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_directory_is_refused(sink: Sink, kind: Kind, tmp_path: Path) -> None:
    """The same partition, of the same incarnation, from before the last export."""
    here = tmp_path / "data"
    fold(here, 1)
    copy(here, tmp_path / "backup")
    fold(here, 3, 5)
    put(here, kind, sink)
    shutil.rmtree(here)
    copy(tmp_path / "backup", here)
    with pytest.raises(WrongFleet, match="ends at 1, before 3"):
        put(here, kind, sink)
    fold(here, 7, 9, 11)  # goes on, past where the other history was
    with pytest.raises(WrongFleet, match="what stands before 3 in partition 0 is not the same"):
        put(here, kind, sink)


def test_partitions_of_another_rescaling_are_refused(sink: Sink, tmp_path: Path) -> None:
    here, there = tmp_path / "data", tmp_path / "other"
    fold(here, 1)
    copy(here, there)
    for place in (here, there):
        rescale(fleet, f"sqlite:{place}", 2)
        fold(place, 3)
    assert put(here, "events", sink) == 2
    with pytest.raises(WrongFleet, match=r"partition [12] is another one of that number"):
        put(there, "events", sink)


def test_a_directory_with_fewer_partitions_is_refused(sink: Sink, tmp_path: Path) -> None:
    here, there = tmp_path / "data", tmp_path / "other"
    fold(here, 1)
    copy(here, there)
    rescale(fleet, f"sqlite:{here}", 2)
    put(here, "events", sink)
    with pytest.raises(WrongFleet, match="partition 1 does not exist here"):
        put(there, "events", sink)


def test_from_the_beginning_takes_the_other_history(sink: Sink, tmp_path: Path) -> None:
    fold(tmp_path / "a", 1, 3)
    fold(tmp_path / "b", 5, 7, 9)
    put(tmp_path / "a", "events", sink)
    engine = open_engine(f"sqlite:{tmp_path / 'b'}", None)
    try:
        with exporter(engine, "events", sink) as made:
            made.clear()
            assert made.run() == 3
    finally:
        engine.close()
    assert [row["payload"]["n"] for row in sink.rows("events")] == [5, 7, 9]


# ---------------------------------------------------------------- past retention


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Every append has a segment of its own, and retention keeps a day."""
    monkeypatch.setattr(sqlite_engine, "FORGET_EVERY_SECONDS", -1.0)  # at every upkeep
    limits = Limits(segment_bytes=1, retain_seconds=DAY, disk_reserve_bytes=1)
    with opened(fleet, "sqlite", tmp_path, limits=limits) as world:
        world.clock.wall = time.time()  # ages of files are compared with it
        yield world


def forget(world: World) -> None:
    """Two days later everything that was folded is gone."""
    world.pass_time(2 * DAY)
    world.engine.maintain()


def ticks(world: World, *numbers: int) -> None:
    for n in numbers:
        world.live.send(Drone, f"d-{n}", Tick(n=n))
    world.run()


@pytest.mark.parametrize("kind", ["events", "actions"])
def test_rows_that_are_gone_are_named(world: World, sink: Sink, kind: Kind) -> None:
    ticks(world, 1, 3)
    assert export(world.engine, kind, sink) == 2
    ticks(world, 5, 7, 9)
    forget(world)
    ticks(world, 11)
    text = rf"{kind} 2 to 4 of partition 0 were not exported and are past retention: --skip-missing"
    with pytest.raises(GiveUp, match=text):
        export(world.engine, kind, sink)
    notes: list[str] = []
    assert export(world.engine, kind, sink, skip_missing=True, note=notes.append) == 1
    assert notes == [f"{kind} 2 to 4 of partition 0 are past retention and left out"]
    assert [row["payload"]["n"] for row in sink.rows(kind)] == [1, 3, 11]
    assert export(world.engine, kind, sink) == 0


def test_timers_that_are_gone_are_named(world: World, sink: Sink) -> None:
    ticks(world, 1)
    export(world.engine, "events", sink)
    export(world.engine, "states", sink)
    world.live.send(Drone, "d-1", Arm(seconds=1.0))
    world.pass_time(0.0)
    export(world.engine, "events", sink)
    world.pass_time(2.0)  # rings
    forget(world)
    for kind in ("events", "states"):
        with pytest.raises(GiveUp, match="timers 0 to 0 of partition 0 were not exported"):
            export(world.engine, kind, sink)
        export(world.engine, kind, sink, skip_missing=True)
        assert export(world.engine, kind, sink) == 0
    assert sink.states() == committed(world.engine)


def test_a_first_export_begins_where_retention_begins(world: World, sink: Sink) -> None:
    ticks(world, 1, 3)
    forget(world)
    ticks(world, 5)
    notes: list[str] = []
    assert export(world.engine, "events", sink, note=notes.append) == 1
    assert notes == ["events 0 to 1 of partition 0 are past retention and left out"]
    assert [row["position"] for row in sink.rows("events")] == [2]


def test_a_first_export_finds_nothing_but_gone_rows(world: World, sink: Sink) -> None:
    ticks(world, 1, 3)
    forget(world)
    assert export(world.engine, "events", sink) == 0
    ticks(world, 5)
    assert export(world.engine, "events", sink) == 1


def test_states_need_no_events(world: World, sink: Sink) -> None:
    """Who changed since the last export is past retention: the states say when they did."""
    ticks(world, *range(5))
    world.clock.pass_time(5.0)
    ticks(world, 5)
    assert export(world.engine, "states", sink) == 6
    world.clock.pass_time(5.0)
    ticks(world, 3, 4)
    forget(world)
    assert export(world.engine, "states", sink) == 3  # and the one that came at the last place
    assert sink.states() == committed(world.engine)
    assert export(world.engine, "states", sink) == 0


def test_agents_that_expired_before_retention_go(world: World, sink: Sink) -> None:
    world.live.send(Visitor, "v-1", Tick(n=1))
    world.run()
    export(world.engine, "states", sink)
    world.pass_time(100.0)
    export(world.engine, "states", sink)
    assert sink.states() == {}
