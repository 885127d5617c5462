"""Goal: open calls and their replies are told, moved and folded again alike, in memory and on disk.
Who runs the functions is not asked here: replies are appended by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, CallFailed, Context, Event, Fleet, TimedOut, call, on
from holdfast.engine.port import Parcel, Taken
from holdfast.model.calls import digest_of
from holdfast.runtime.schemas import agree
from holdfast.stepping.commit import Call
from holdfast.stepping.inputs import reply_frame
from holdfast.testing.rerunning import Rerun
from tests.runtime.semantics import ENGINES, World, opened
from tests.runtime.test_rescaling import rescaled


class Where(Event):
    to: str


class Route(Event):
    legs: int


@call
def route(to: str) -> Route:
    return Route(len(to))


class Drone(Agent):
    legs: int = 0
    failures: int = 0

    @on
    def wanted(self, event: Where, ctx: Context) -> None:
        ctx.call(route, event.to, reply=Route)

    @on
    def routed(self, event: Route, ctx: Context) -> None:
        self.legs += event.legs

    @on
    def failed(self, event: CallFailed, ctx: Context) -> None:
        self.failures += 1


fleet = Fleet("sky", agents=[Drone])
KEYS = [f"d-{n}" for n in range(8)]


def calls(world: World) -> list[Call]:
    """All that are open."""
    numbers = world.engine.catalog.layout.numbers
    return [one for n in numbers for one in world.engine.view(n).calls(0, 100)]


def call_of(world: World, key: str) -> Call:
    return next(one for one in calls(world) if one.key == key)


def reply(world: World, one: Call, event: Event) -> None:
    codebook, _ = agree(fleet, world.engine.catalog)
    digest = digest_of(one.function, one.arguments)
    frame = reply_frame(one.agent, one.key, one.id, one.function, digest, event, codebook)
    parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
    number = world.engine.catalog.layout.partition_of(one.key)
    (taken,) = world.engine.append(number, [parcel])
    assert isinstance(taken, Taken)
    world.run()


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path, partitions=2) as made:
        made.live.send_many([(Drone, key, Where("north")) for key in KEYS])
        made.run()
        yield made


def test_history_tells_replies_and_the_calls_they_answer(world: World) -> None:
    made = call_of(world, "d-3")
    reply(world, made, Route(3))
    _, entry = world.live.history(Drone, "d-3")
    assert (entry.origin, entry.event, entry.sender) == ("reply", Route(3), made.id)
    assert world.live.state(Drone, "d-3").legs == 3


def test_settle_names_what_is_open(world: World) -> None:
    for one in calls(world)[1:]:
        reply(world, one, CallFailed(one.id, "route", "died", "", 3))
    with pytest.raises(TimedOut, match="calls are open"):
        world.live.settle(timeout=0.01)
    reply(world, calls(world)[0], Route(1))
    world.live.settle(timeout=5.0)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_rescale_takes_open_calls_along(world: World, partitions: int) -> None:
    before = calls(world)
    reply(world, before[0], Route(1))
    rescaled(world, partitions)
    world.run()
    after = calls(world)
    assert sorted(one.id for one in after) == sorted(one.id for one in before[1:])
    for one in after:
        reply(world, one, Route(2))
        reply(world, one, Route(2))
    reply(world, before[0], Route(1))
    assert calls(world) == []
    states = dict(world.live.states(Drone))
    assert {states[key].legs for key in KEYS if key != before[0].key} == {2}
    assert states[before[0].key].legs == 1


def test_a_rerun_takes_the_replies_that_were_taken(world: World) -> None:
    """What `holdfast debug` stands on."""
    made = call_of(world, "d-3")
    reply(world, made, Route(3))
    reply(world, made, Route(3))
    rerun = Rerun(fleet, world.engine, "Drone", "d-3")
    for number in range(1, len(rerun.entries) + 1):
        rerun.fold(number)
    assert len(rerun.entries) == 3
    assert rerun.record is not None
    assert rerun.committed is not None
    assert rerun.record[:6] == rerun.committed[:6]


def test_a_paused_agent_is_listed_with_the_reply_it_holds(world: World) -> None:
    world.live.pause(Drone, "d-3", "tea")
    world.run()
    made = call_of(world, "d-3")
    reply(world, made, Route(3))
    [paused] = world.live.paused()
    assert (paused.key, paused.held) == ("d-3", 1)
    assert made.id not in {one.id for one in calls(world)}
    world.live.resume(Drone, "d-3")
    world.run()
    assert world.live.state(Drone, "d-3").legs == 3
