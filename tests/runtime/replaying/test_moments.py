"""Goal: `live.state(…, at=TIME)` is the state of then: after all that came up to that time, timers
too, over rescalings and expiries; and where nobody can say what it was, it says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, UsageError, on
from holdfast.engine.port import Limits, View
from holdfast.runtime.rescaling import Rescale
from tests.runtime.semantics import ENGINES, World, opened


class Step(Event):
    size: int = 1


class Tock(Event):
    pass


class Walker(Agent):
    steps: int = 0
    tocks: int = 0

    @on
    def step(self, event: Step, ctx: Context) -> None:
        self.steps += event.size
        if self.steps == 1:
            ctx.every(3.0, Tock(), name="tock")

    @on
    def tock(self, event: Tock, ctx: Context) -> None:
        self.tocks += 1


class Ghost(Agent, expire_after=4.0):
    seen: int = 0

    @on
    def step(self, event: Step, ctx: Context) -> None:
        self.seen += 1


fleet = Fleet("walkers", agents=[Walker, Ghost])


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path) as world:
        yield world


def walk(world: World, steps: int) -> dict[float, Walker]:
    """A step every 2 seconds; the state after each, by its time."""
    states: dict[float, Walker] = {}
    for _ in range(steps):
        world.live.send(Walker, "w-1", Step())
        world.live.send(Walker, "w-2", Step(size=5))
        world.run()
        states[world.clock.wall] = world.live.state(Walker, "w-1")
        world.pass_time(2.0)
    return states


def test_after_every_event_and_between(world: World) -> None:
    states = walk(world, 6)
    assert max(state.tocks for state in states.values()) > 1
    for at, state in states.items():
        assert world.live.state(Walker, "w-1", at=at) == state
        assert world.live.state(Walker, "w-1", at=at + 0.5).steps == state.steps
        moment = datetime.fromtimestamp(at, UTC)
        assert world.live.state(Walker, "w-1", at=moment) == state


def test_an_agent_that_was_not_there_yet(world: World) -> None:
    start = world.clock.wall
    walk(world, 2)
    world.live.send(Walker, "w-3", Step())
    world.run()
    world.live.send(Walker, "w-3", Step())
    world.pass_time(1.0)
    assert world.live.state(Walker, "w-3", at=start + 1.0) is None
    assert world.live.state(Walker, "unknown", at=start + 1.0) is None


def test_an_agent_that_has_expired_since(world: World) -> None:
    world.live.send(Ghost, "g-1", Step())
    world.run()
    seen = world.clock.wall
    world.pass_time(10.0)
    assert world.live.state(Ghost, "g-1") is None
    assert world.live.state(Ghost, "g-1", at=seen) == Ghost(seen=1)
    assert world.live.state(Ghost, "g-1", at=world.clock.wall) is None


def test_over_a_rescaling(world: World) -> None:
    before = walk(world, 3)
    job = Rescale(fleet, world.engine, 3, world.clock)
    job._worker = world.worker  # which holds the partition
    while not job.step():
        world.clock.pass_time(0.001)
    world._partitions = 3
    world.worker = type(world.worker)(fleet, world.engine, range(1, 4), world.clock)
    world.run()
    after = walk(world, 3)
    for at, state in {**before, **after}.items():
        assert world.live.state(Walker, "w-1", at=at) == state


def test_before_the_history_and_in_the_future(world: World) -> None:
    walk(world, 2)
    with pytest.raises(UsageError, match="before the history: it begins at"):
        world.live.state(Walker, "w-1", at=world.clock.wall - 1000.0)
    with pytest.raises(UsageError, match="in the future"):
        world.live.state(Walker, "w-1", at=time.time() + 100.0)
    with pytest.raises(UsageError, match="in the future"):
        world.live.state(Walker, "w-1", at=float("nan"))


def test_other_code_does_not_tell_another_past(world: World) -> None:
    (start, *_) = walk(world, 3)

    class Walker(Agent):
        steps: int = 0
        tocks: int = 0

        @on
        def step(self, event: Step, ctx: Context) -> None:
            self.steps += 2

        @on
        def tock(self, event: Tock, ctx: Context) -> None:
            self.tocks += 1

    live = type(world.live)(Fleet("walkers", agents=[Walker, Ghost]), world.engine)
    with pytest.raises(UsageError, match="this code makes another state"):
        live.state(Walker, "w-1", at=start)


def test_what_retention_has_cut(tmp_path: Path) -> None:
    limits = Limits(disk_reserve_bytes=1, retain_seconds=5.0)
    with opened(fleet, "memory", tmp_path, limits=limits) as world:
        (start, *_) = walk(world, 10)
        world.engine.maintain()
        with pytest.raises(UsageError, match="before the history"):
            world.live.state(Walker, "w-1", at=start)
        kept = world.clock.wall - 3.0
        with pytest.raises(UsageError, match="the agent is older than what is kept"):
            world.live.state(Walker, "w-1", at=kept)
        # One that was born since can be told: all of its inputs are there.
        world.live.send(Walker, "w-9", Step())
        world.run()
        at = world.clock.wall
        world.pass_time(1.0)
        world.live.send(Walker, "w-9", Step())
        world.run()
        assert world.live.state(Walker, "w-9", at=at) == Walker(steps=1)


def test_retention_beside_it_moves_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what is kept and the read."""
    limits = Limits(disk_reserve_bytes=1, retain_seconds=5.0)
    with opened(fleet, "memory", tmp_path, limits=limits) as world:
        (start, *_) = walk(world, 10)
        world.live.send(Walker, "w-9", Step())
        world.run()
        at = world.clock.wall
        world.pass_time(1.0)
        world.live.send(Walker, "w-9", Step())
        world.run()
        view = type(world.engine.view(0))
        look = view.inbox_first

        def late(self: View) -> int:
            found = look(self)
            world.engine.maintain()
            return found

        monkeypatch.setattr(view, "inbox_first", late)
        assert look(world.engine.view(0)) == 0
        assert world.live.state(Walker, "w-9", at=at) == Walker(steps=1)
        assert look(world.engine.view(0)) > 0
        with pytest.raises(UsageError, match="before the history: it begins at"):
            world.live.state(Walker, "w-9", at=start)
