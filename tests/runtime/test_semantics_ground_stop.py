"""Goal: through a real fleet, in memory and on disk: a ground stop holds back every action that is
not declared for it, tells the agents that want to know once each, outlives whatever happens, and
an operator's override is issued with his name all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Fleet, GroundStop, Live, UsageError, on
from holdfast.engine.port import Limits
from holdfast.runtime.replaying.running import compare
from holdfast.runtime.rescaling import rescale
from holdfast.stepping import stepper
from tests.runtime.couriers import Buoy, Courier, Drop, Land, Order, fleet, handle
from tests.runtime.semantics import ENGINES, World, opened

WHY = "thunder"


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path, partitions=2) as world:
        yield world
        for number in world.engine.catalog.layout.numbers:
            assert compare(world.engine, fleet, number).difference is None, "a replay is equal"


@pytest.fixture
def live(world: World) -> Live:
    live = handle(world)
    for n in range(6):
        live.send(Courier, f"c-{n}", Order())
    live.send(Buoy, "b-1", Order())
    world.run()
    return live


def heard(live: Live) -> dict[str, list[str]]:
    return {key: courier.heard for key, courier in live.states(Courier)}


def ids(live: Live) -> set[str]:
    return {each.id for each in live.actions()}


def kinds_since(live: Live, before: set[str]) -> list[str]:
    return sorted(type(each.action).__name__ for each in live.actions() if each.id not in before)


def test_only_what_is_declared_for_it_is_issued(world: World, live: Live) -> None:
    before = ids(live)
    live.ground_stop(WHY, by="tower")
    assert heard(live) == {f"c-{n}": [f"stop: {WHY} by tower"] for n in range(6)}
    live.send(Buoy, "b-1", Order())
    live.send(Buoy, "b-9", Order())
    world.run()
    assert kinds_since(live, before) == ["Land"] * 6
    held = live.withheld()
    assert sorted(one.action for one in held) == ["Drop"] * 6 + ["Fly"] * 2
    assert {(one.why, one.by) for one in held} == {(WHY, "tower")}
    assert "harbour/Buoy/b-1/2/0" in {one.id for one in held}
    life = live.action("harbour/Buoy/b-1/2/0")
    assert (life.status, life.name, life.issued) == ("withheld", "Fly", None)
    with pytest.raises(UsageError, match="was withheld by tower before: thunder"):
        live.acknowledge("harbour/Buoy/b-1/2/0")
    assert live.state(Buoy, "b-1").orders == 2, "events are folded all the same"


def test_behind_it_all_is_as_before(world: World, live: Live) -> None:
    live.ground_stop(WHY)
    assert {ground.why for ground in live.grounded().values()} == {WHY}
    assert len(live.grounded()) == 2
    live.lift_ground_stop("blue sky", by="tower")
    assert live.grounded() == {}
    before = ids(live)
    live.send(Buoy, "b-1", Order())
    world.run()
    assert kinds_since(live, before) == ["Fly"]
    assert all(each[-1] == "lifted: blue sky" for each in heard(live).values())
    assert len(live.withheld()) == 6, "what was withheld stays so"


def test_again_changes_nothing(live: Live) -> None:
    live.lift_ground_stop("nothing to lift")
    live.ground_stop(WHY, by="tower")
    live.ground_stop("again", by="other")
    assert {ground.by for ground in live.grounded().values()} == {"tower"}
    assert heard(live) == {f"c-{n}": [f"stop: {WHY} by tower"] for n in range(6)}


def test_it_outlives_a_restart_and_a_rescaling(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=2) as live:
        live.send(Buoy, "b-1", Order())
        live.settle()  # a ground stop overtakes what waits
        live.ground_stop(WHY, by="tower")
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        assert len(live.grounded()) == 3
        live.send(Buoy, "b-1", Order())
        live.settle()
        assert [one.id for one in live.withheld()] == ["harbour/Buoy/b-1/2/0"]
        live.lift_ground_stop("blue sky")
        live.send(Buoy, "b-1", Order())
        live.settle()
        assert [each.id for each in live.actions()][-1] == "harbour/Buoy/b-1/3/0"


def test_many_agents_are_told_some_in_every_commit(world: World, live: Live) -> None:
    for partition in world.worker.partitions.values():
        partition.stepper.fired_max = 2
    commits = [world.engine.view(n).head().commits for n in (0, 1)]
    live.ground_stop(WHY, by="tower")
    told = [world.engine.view(n).head().commits - before for n, before in enumerate(commits)]
    assert sum(told) == 5, "four and two agents, two at a time, then the command itself"
    assert heard(live) == {f"c-{n}": [f"stop: {WHY} by tower"] for n in range(6)}
    journalled = [e for e in live.history(Courier, "c-1") if e.event == GroundStop(WHY, "tower")]
    assert len(journalled) == 1


def test_one_that_dies_half_way_goes_on(tmp_path: Path) -> None:
    """Nobody is told twice, and what comes behind waits."""
    with opened(fleet, "sqlite", tmp_path) as world:
        live = handle(world)
        for n in range(6):
            live.send(Courier, f"c-{n}", Order())
        world.run()
        world.worker.partitions[0].stepper.fired_max = 2
        live._settling.ground(True, WHY, "tower", 1.0, lambda receipt: None)
        live.send(Courier, "c-5", Order())
        world.worker.tick()
        assert sum(map(len, heard(live).values())) == 2
        assert len(live.grounded()) == 1
        world.restart()
        world.run()
        live = handle(world)
        assert heard(live) == {f"c-{n}": [f"stop: {WHY} by tower"] for n in range(6)}
        assert "Drop" in {one.action for one in live.withheld() if one.key == "c-5"}
        assert compare(world.engine, fleet, 0).difference is None


def test_an_override_is_issued_now_with_name_and_reason(world: World, live: Live) -> None:
    before = live.state(Courier, "c-1")
    live.ground_stop(WHY)
    id = live.override(Courier, "c-1", Drop(item="box"), why="fire on board", by="tower")
    issued = {each.id: each for each in live.actions()}[id]
    assert (issued.action, issued.why, issued.by) == (Drop(item="box"), "fire on board", "tower")
    assert issued.undoes is None
    live.acknowledge(id, by="c-1")
    assert live.action(id).status == "acknowledged"
    assert heard(live)["c-1"] == [*before.heard, f"stop: {WHY} by ", "Drop by c-1"]
    told = [entry.event for entry in live.history(Courier, "c-1") if entry.origin == "control"]
    assert told[0] == "override fire on board tower"


def test_an_overridden_agent_may_be_held(world: World, live: Live) -> None:
    live.override(Courier, "c-1", Land(), why="fire", by="tower", hold=True)
    before = ids(live)
    live.send(Courier, "c-1", Order())
    world.run()
    assert ids(live) == before
    assert [(one.key, one.reason, one.held) for one in live.paused()] == [("c-1", "fire", 1)]
    live.resume(Courier, "c-1")
    world.run()
    assert kinds_since(live, before) == ["Drop", "Fly"]


def test_what_cannot_be_overridden_is_told(live: Live) -> None:
    with pytest.raises(UsageError, match=r"not issued: .*there is no Courier/nobody"):
        live.override(Courier, "nobody", Land(), why="fire")
    assert live.state(Courier, "nobody") is None
    with pytest.raises(UsageError, match="say why the agent is overridden"):
        live.override(Courier, "c-1", Land(), why="")
    with pytest.raises(UsageError, match="override takes an Action, not Order"):
        live.override(Courier, "c-1", Order(), why="fire")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="say why the fleet is stopped"):
        live.ground_stop("")


def test_a_handler_that_fails_stops_nobody(tmp_path: Path) -> None:
    class Stubborn(Agent):
        stops: int = 0

        @on
        def order(self, event: Order, ctx: Context) -> None: ...

        @on
        def stopped(self, event: GroundStop, ctx: Context) -> None:
            self.stops += 1
            if ctx.key == "s-1":
                raise ValueError("no")

    stubborn = Fleet("stubborn", agents=[Stubborn])
    limits = Limits(disk_reserve_bytes=1)
    with opened(stubborn, "memory", tmp_path, limits=limits) as world:
        live = handle(world)
        for n in range(3):
            live.send(Stubborn, f"s-{n}", Order())
        world.run()
        live.ground_stop(WHY)
        assert {key: s.stops for key, s in live.states(Stubborn)} == {"s-0": 1, "s-1": 0, "s-2": 1}
        assert [letter.key for letter in live.dead_letters()] == ["s-1"]
        assert compare(world.engine, stubborn, 0).difference is None


def test_the_bound_is_that_of_timers() -> None:
    assert stepper.FIRED_PER_COMMIT_MAX == 10_000
