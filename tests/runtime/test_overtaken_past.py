"""Goal: whoever looks back sees an urgent event where it was folded, once, and as it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.runtime.forking.fork import Options, fork_engine
from holdfast.runtime.reading import HistoryEntry
from holdfast.runtime.replaying.moments import compare_agent
from holdfast.runtime.replaying.running import compare
from holdfast.testing.rerunning import Rerun
from tests.runtime.exporting.sinks import NdjsonFile, export
from tests.runtime.forking.recordings import differences
from tests.runtime.semantics import ENGINES, World, opened
from tests.runtime.walkers import FLEET, SEEN, Halt, Rang, Step, Walker, walk


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(FLEET, request.param, tmp_path) as world:
        yield world


def seen(world: World, at: float | None = None) -> list[int]:
    state = world.live.state(Walker, "w", at=at)
    return [] if state is None else state.seen


def numbers(entries: list[HistoryEntry]) -> list[int]:
    return [entry.event.number for entry in entries if isinstance(entry.event, Step | Halt | Rang)]


def test_time_never_goes_back(world: World) -> None:
    walk(world)
    state = world.live.state(Walker, "w")
    assert state is not None
    assert state.seen == SEEN
    assert state.times == sorted(state.times)
    assert state.times[1] == state.times[2] == state.times[3], "they are folded when it was"


def test_the_state_of_a_time(world: World) -> None:
    before, overtaken, behind = walk(world)
    assert seen(world, before) == [1]
    assert seen(world, overtaken) == [1], "those two came earlier, and were folded later"
    assert seen(world, behind) == [1, 100, 2, 3]
    assert seen(world, world.clock.wall) == SEEN


def test_history_shows_it_in_its_place(world: World) -> None:
    walk(world)
    entries = world.live.history(Walker, "w")
    assert numbers(entries) == SEEN
    origins = [entry.origin for entry in entries]
    assert origins == [*["external"] * 6, "timer", "timer", "external"]
    urgent = entries[1]
    assert (urgent.event, urgent.source, urgent.seq) == (Halt(number=100), "gcs", 7)
    positions = [entry.position for entry in entries]
    assert positions == sorted(positions)
    assert numbers(world.live.history(Walker, "other")) == [2, 3]


def test_replays_reproduce_it(world: World) -> None:
    walk(world)
    outcome = compare(world.engine, FLEET, 0)
    assert outcome.difference is None
    assert outcome.sums == outcome.commits > 4
    for key in ("w", "other"):
        (alone,) = compare_agent(world.engine, FLEET, "Walker", key)
        assert alone.difference is None


def test_a_fork_of_the_same_code_finds_no_difference(world: World) -> None:
    walk(world)
    assert differences(fork_engine(FLEET, world.engine, Options())) == {}


def test_an_export_has_it_once_in_its_place(world: World, tmp_path: Path) -> None:
    walk(world)
    sink = NdjsonFile(tmp_path)
    export(world.engine, "events", sink)
    rows = [row for row in sink.rows("events") if row["key"] == "w"]
    assert [row["payload"]["number"] for row in rows] == SEEN
    assert rows[1]["type"] == "Halt"
    assert (rows[1]["origin"], rows[1]["source"], rows[1]["seq"]) == ("external", "gcs", 7)
    world.live.send(Walker, "w", Step(number=6))
    world.live.send(Walker, "w", Halt(number=102))
    world.run()
    export(world.engine, "events", sink)
    rows = [row for row in sink.rows("events") if row["key"] == "w"]
    assert [row["payload"]["number"] for row in rows] == [*SEEN, 102, 6]


def test_a_rerun_of_one_agent_takes_it_in_its_place(world: World) -> None:
    """What `holdfast debug` stands on. An urgent event came before a timer that was due by then,
    and so did a pause."""
    walk(world)
    world.live.send(Walker, "w", Halt(number=102))
    world.run()
    world.clock.pass_time(1.5)
    world.live.send(Walker, "w", Halt(number=103))
    world.live.pause(Walker, "w")
    world.live.send(Walker, "w", Step(number=6))
    world.run()
    world.live.resume(Walker, "w")
    world.run()
    assert seen(world)[-4:] == [102, 103, -102, 6]
    rerun = Rerun(FLEET, world.engine, "Walker", "w")
    for number in range(1, len(rerun.entries) + 1):
        assert rerun.fold(number) is not None
    assert rerun.record is not None
    assert rerun.committed is not None
    assert rerun.record[:6] == rerun.committed[:6]
