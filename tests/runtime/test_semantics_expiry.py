"""Goal: an agent that nobody wrote to for `expire_after` seconds is gone, on disk as in memory,
unless it waits for something; born again under its key it starts anew and repeats no id."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, on
from tests.runtime.semantics import ENGINES, World, opened


class Mode(Enum):
    DAY = "day"
    NIGHT = "night"


class Touch(Event):
    pass


class Nightly(Event):
    pass


class Sunset(Event):
    pass


class Arm(Event):
    seconds: float


class Rang(Event):
    pass


class Fail(Event):
    pass


class Other(Event):
    """Of this fleet, but not for these agents."""


class Seen(Action):
    count: int


class Visitor(Agent, expire_after=10.0):
    count: int = 0

    @on
    def touch(self, event: Touch, ctx: Context) -> None:
        self.count += 1
        ctx.emit(Seen(self.count))

    @on
    def arm(self, event: Arm, ctx: Context) -> None:
        ctx.after(event.seconds, Rang())

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.count += 100

    @on
    def fail(self, event: Fail, ctx: Context) -> None:
        self.count += 1_000
        raise ValueError("no")


class Sleeper(Agent, expire_after=10.0, unhandled="defer"):
    mode: Mode = Mode.DAY
    count: int = 0

    @on(mode=Mode.NIGHT)
    def nightly(self, event: Nightly, ctx: Context) -> None:
        self.count += 1

    @on
    def sunset(self, event: Sunset, ctx: Context) -> None:
        self.mode = Mode.NIGHT


class Keeper(Agent):
    others: int = 0

    @on
    def other(self, event: Other, ctx: Context) -> None:
        self.others += 1


fleet = Fleet("visitors", agents=[Visitor, Sleeper, Keeper])


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path) as made:
        yield made


def send(world: World, event: Event, agent: type[Agent] = Visitor) -> None:
    world.live.send(agent, "v-1", event)
    world.run()


def count(world: World) -> int | None:
    state = world.live.state(Visitor, "v-1")
    return None if state is None else state.count


def test_an_idle_agent_expires_and_its_events_put_that_off(world: World) -> None:
    send(world, Touch())
    world.pass_time(9.0)
    send(world, Touch())
    world.pass_time(9.999)
    assert count(world) == 2
    world.pass_time(0.001)
    assert count(world) is None
    assert [entry.origin for entry in world.live.history(Visitor, "v-1")] == [
        "external",
        "external",
        "expiry",
    ]


def test_others_do_not_expire(world: World) -> None:
    send(world, Other(), Keeper)
    world.pass_time(1_000.0)
    assert world.live.state(Keeper, "v-1") is not None


def test_one_born_again_starts_anew_and_repeats_no_action_id(world: World) -> None:
    for _ in range(4):
        send(world, Touch())
        send(world, Touch())
        world.pass_time(10.0)
        assert count(world) is None
    actions = list(world.live.actions())
    assert [action.action for action in actions] == [Seen(1), Seen(2)] * 4
    assert len({action.id for action in actions}) == 8


def test_expiry_and_rebirth_within_one_batch(world: World) -> None:
    """The worker was away: the second event comes after the agent's time."""
    world.live.send(Visitor, "v-1", Touch())
    world.clock.pass_time(20.0)
    world.live.send(Visitor, "v-1", Touch())
    world.run()
    assert count(world) == 1
    ids = {action.id for action in world.live.actions()}
    assert len(ids) == 2


def test_an_ignored_event_right_after_the_expiry_does_not_bring_it_back(world: World) -> None:
    """Gone means gone in storage too, also if the same batch names the agent again."""
    send(world, Touch())
    world.clock.pass_time(20.0)
    world.live.send(Visitor, "v-1", Other())
    world.run()
    assert count(world) is None


def test_a_failing_event_right_after_the_expiry_does_not_bring_it_back(world: World) -> None:
    send(world, Touch())
    world.clock.pass_time(20.0)
    world.live.send(Visitor, "v-1", Fail())
    world.run()
    assert count(world) is None
    assert len(world.live.dead_letters()) == 1


def test_a_timer_keeps_its_agent(world: World) -> None:
    send(world, Arm(35.0))
    world.pass_time(34.0)
    assert count(world) == 0
    world.pass_time(1.0)
    assert count(world) == 100
    world.pass_time(9.0)
    assert count(world) == 100
    world.pass_time(1.0)
    assert count(world) is None


def test_held_events_keep_their_agent(world: World) -> None:
    send(world, Nightly(), Sleeper)
    for _ in range(5):
        world.pass_time(20.0)
    assert world.live.state(Sleeper, "v-1") is not None
    send(world, Sunset(), Sleeper)
    state = world.live.state(Sleeper, "v-1")
    assert state is not None
    assert state.count == 1
    world.pass_time(10.0)
    assert world.live.state(Sleeper, "v-1") is None


def test_a_pause_keeps_its_agent(world: World) -> None:
    send(world, Touch())
    world.live.pause(Visitor, "v-1")
    world.run()
    world.pass_time(100.0)
    assert count(world) == 1
    world.live.resume(Visitor, "v-1")
    world.run()
    world.pass_time(0.001)
    assert count(world) is None, "its last event is long ago"


def test_many_expire_at_once_and_none_is_left(world: World) -> None:
    world.live.send_many([(Visitor, f"m-{n}", Touch()) for n in range(300)])
    world.run()
    world.pass_time(5.0)
    world.live.send_many([(Visitor, f"m-{n}", Touch()) for n in range(0, 300, 3)])
    world.run()
    world.pass_time(5.0)
    assert sorted(key for key, _ in world.live.states(Visitor)) == sorted(
        f"m-{n}" for n in range(0, 300, 3)
    )
    world.pass_time(5.0)
    assert list(world.live.states(Visitor)) == []


def test_expiry_survives_restarts(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        send(world, Touch())
        world.restart()
        world.pass_time(9.0)
        assert count(world) == 1
        world.restart()
        world.pass_time(1.0)
        assert count(world) is None
        world.restart()
        world.run()
        assert count(world) is None
        send(world, Touch())
        assert count(world) == 1
        world.clock.pass_time(11.0)
        world.restart()
        world.run()
        assert count(world) is None
        assert len({action.id for action in world.live.actions()}) == 2
