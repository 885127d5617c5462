"""Goal: an agent that is paused, by its own failure or by an operator, loses nothing and blocks
nobody; dead letters come back once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, Live, TimedOut, UsageError, on
from holdfast.stepping.cell import HELD_PER_AGENT_MAX
from tests.runtime.semantics import ENGINES, World, engine_url, opened

# Stands for the code of the handler: what a programmer repairs before `resume` or `redrive`.
code = {"limit": 10}


class Take(Event):
    number: int


class Rang(Event):
    label: str


class Set(Event):
    after: float
    every: float


class Count(Event):
    pass


class Total(Event):
    taken: int


class Box(Agent):
    taken: list[int] = []
    rings: list[str] = []

    @on
    def take(self, event: Take, ctx: Context) -> None:
        self.taken.append(event.number)
        if event.number >= code["limit"]:
            raise ValueError(f"{event.number} does not fit")

    @on
    def set(self, event: Set, ctx: Context) -> None:
        ctx.after(event.after, Rang("once"))
        ctx.every(event.every, Rang("beat"), name="beat")

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.rings.append(event.label)

    @on
    def count(self, event: Count, ctx: Context) -> None:
        ctx.reply(Total(len(self.taken)))


class Careful(Box, on_error="pause"):
    pass


class Plain(Box):
    pass


class Stranger(Box):
    """Not part of the fleet."""


fleet = Fleet("boxes", agents=[Careful, Plain])


@pytest.fixture(autouse=True)
def unrepaired() -> Iterator[None]:
    code["limit"] = 10
    yield
    code["limit"] = 10


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path)) as made:
        yield made


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path) as made:
        yield made


def taken(live: Live, agent: type[Box] = Careful, key: str = "b-1") -> list[int]:
    live.settle()
    state = live.state(agent, key)
    return [] if state is None else state.taken


def test_a_failure_pauses_and_holds_what_follows(live: Live) -> None:
    live.send_many([(Careful, "b-1", Take(n)) for n in (1, 10, 2, 3)])
    live.send(Careful, "b-2", Take(7))
    assert taken(live) == [1]
    assert taken(live, key="b-2") == [7], "others go on"
    assert live.dead_letters() == []
    [paused] = live.paused()
    assert (paused.agent, paused.key, paused.held) == ("Careful", "b-1", 3)
    assert paused.reason == "ValueError: 10 does not fit"


def test_resume_meets_the_failed_event_first_and_pauses_again(live: Live) -> None:
    live.send_many([(Careful, "b-1", Take(n)) for n in (10, 2)])
    live.resume(Careful, "b-1")
    assert taken(live) == []
    assert [paused.held for paused in live.paused()] == [2]


def test_after_a_repair_everything_held_is_taken_in_order(live: Live) -> None:
    live.send_many([(Careful, "b-1", Take(n)) for n in (1, 10, 2, 20, 3)])
    live.settle()
    code["limit"] = 15
    live.resume(Careful, "b-1")
    assert taken(live) == [1, 10, 2]
    assert [(p.held, p.reason) for p in live.paused()] == [(2, "ValueError: 20 does not fit")]
    live.send(Careful, "b-1", Take(4))
    code["limit"] = 100
    live.resume(Careful, "b-1")
    assert taken(live) == [1, 10, 2, 20, 3, 4]
    assert live.paused() == []
    live.send(Careful, "b-1", Take(5))
    assert taken(live) == [1, 10, 2, 20, 3, 4, 5]


def test_a_first_event_that_fails_pauses_an_agent_that_has_no_past(live: Live) -> None:
    live.send(Careful, "b-1", Take(10))
    live.settle()
    assert [paused.held for paused in live.paused()] == [1]
    code["limit"] = 100
    live.resume(Careful, "b-1")
    assert taken(live) == [10]


def test_an_operator_pauses_and_resumes(live: Live) -> None:
    live.send(Plain, "b-1", Take(1))
    live.settle()  # or the pause overtakes it
    live.pause(Plain, "b-1", reason="inspection")
    live.send_many([(Plain, "b-1", Take(n)) for n in (2, 3)])
    assert taken(live, Plain) == [1]
    assert [(p.reason, p.held) for p in live.paused()] == [("inspection", 2)]
    live.resume(Plain, "b-1")
    live.send(Plain, "b-1", Take(4))
    assert taken(live, Plain) == [1, 2, 3, 4]
    assert live.paused() == []


def test_a_pause_without_words_is_a_pause(live: Live) -> None:
    live.pause(Plain, "b-1", reason="")
    live.send(Plain, "b-1", Take(1))
    assert taken(live, Plain) == []
    assert len(live.paused()) == 1


def test_resume_of_an_agent_that_is_not_paused_changes_nothing(live: Live) -> None:
    live.resume(Plain, "b-9")
    live.send(Plain, "b-1", Take(1))
    live.resume(Plain, "b-1")
    assert taken(live, Plain) == [1]
    assert live.state(Plain, "b-9") is None


def test_a_command_for_an_unknown_agent_is_refused_at_once(live: Live) -> None:
    with pytest.raises(UsageError, match="Stranger is no agent of fleet 'boxes'"):
        live.pause(Stranger, "b-1")
    with pytest.raises(UsageError, match="Stranger is no agent"):
        live.resume(Stranger, "b-1")
    with pytest.raises(UsageError, match="cannot be a key"):
        live.pause(Plain, "not a key")
    live.send(Plain, "b-1", Take(1))
    assert taken(live, Plain) == [1]


def test_an_ask_to_a_paused_agent_waits_and_is_answered_after_resume(live: Live) -> None:
    live.pause(Plain, "b-1")
    with pytest.raises(TimedOut, match="Plain/b-1 did not answer"):
        live.ask(Plain, "b-1", Count(), timeout=0.1)
    live.resume(Plain, "b-1")
    assert live.ask(Plain, "b-1", Count()) == Total(0)


def test_a_pausing_agent_that_holds_too_much_buries_the_rest(tmp_path: Path) -> None:
    with opened(fleet, "memory", tmp_path) as world:
        world.live.pause(Plain, "b-1")
        rows = [(Plain, "b-1", Take(n % 7)) for n in range(HELD_PER_AGENT_MAX + 1)]
        world.live.send_many(rows)
        world.run()
        [letter] = world.live.dead_letters()
        assert "held already, the bound" in letter.error
        world.live.resume(Plain, "b-1")
        world.run()
        assert len(taken(world.live, Plain)) == HELD_PER_AGENT_MAX


def test_pauses_survive_restarts_and_take_events_there(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        world.live.send_many([(Careful, "b-1", Take(n)) for n in (1, 10)])
        world.run()
        for number in (2, 3):
            world.restart()
            world.live.send(Careful, "b-1", Take(number))
            world.run()
        code["limit"] = 100
        world.restart()
        world.live.resume(Careful, "b-1")
        world.run()
        assert taken(world.live) == [1, 10, 2, 3]


def test_timers_of_a_paused_agent_wait_and_missed_periods_are_one(world: World) -> None:
    world.live.send(Plain, "b-1", Set(after=2.0, every=1.0))
    world.run()
    world.live.pause(Plain, "b-1")
    world.run()
    for _ in range(50):
        world.pass_time(1.0)
    assert [paused.held for paused in world.live.paused()] == [1]
    world.live.resume(Plain, "b-1")
    world.run()
    world.pass_time(1.0)
    state = world.live.state(Plain, "b-1")
    assert state is not None
    assert state.rings[:2] == ["once", "beat"]
    assert 3 <= len(state.rings) <= 4
    world.pass_time(1.0)
    state = world.live.state(Plain, "b-1")
    assert state is not None
    assert state.rings.count("beat") >= 3


# ---------------------------------------------------------------- dead letters


def test_a_letter_is_redriven_once(live: Live) -> None:
    live.send_many([(Plain, "b-1", Take(n)) for n in (1, 10, 2)])
    live.settle()
    [letter] = live.dead_letters()
    assert not letter.redriven
    code["limit"] = 100
    live.redrive(letter.id)
    assert taken(live, Plain) == [1, 2, 10]
    assert [x.redriven for x in live.dead_letters()] == [True]
    live.redrive(letter.id)
    live.redrive(letter.id)
    assert taken(live, Plain) == [1, 2, 10]


def test_two_redrives_in_one_batch_are_one(world: World) -> None:
    world.live.send(Plain, "b-1", Take(10))
    world.run()
    [letter] = world.live.dead_letters()
    code["limit"] = 100
    world.live.redrive(letter.id)
    world.live.redrive(letter.id)
    world.run()
    assert taken(world.live, Plain) == [10]


def test_a_redriven_event_that_fails_again_is_a_new_letter(live: Live) -> None:
    live.send(Plain, "b-1", Take(10))
    live.settle()
    [first] = live.dead_letters()
    live.redrive(first.id)
    live.settle()
    _, second = live.dead_letters()
    assert second.id != first.id
    assert (second.event, second.error) == (first.event, first.error)
    assert [x.redriven for x in live.dead_letters()] == [True, False]
    code["limit"] = 100
    live.redrive(second.id)
    assert taken(live, Plain) == [10]


def test_redrive_waits_while_the_agent_is_paused(live: Live) -> None:
    live.send(Plain, "b-1", Take(10))
    live.settle()
    [letter] = live.dead_letters()
    code["limit"] = 100
    live.pause(Plain, "b-1")
    live.redrive(letter.id)
    assert taken(live, Plain) == []
    live.resume(Plain, "b-1")
    assert taken(live, Plain) == [10]


def test_an_unknown_letter_is_refused(live: Live) -> None:
    for wrong in ("0.1", "7.1", "x", ""):
        with pytest.raises(UsageError, match="no dead letter"):
            live.redrive(wrong)
