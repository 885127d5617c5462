"""Goal: timers fire once, never early, in order with the events around them, also after a restart.

The clock is moved by hand; workers are ticked by hand; engines are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.model.context import TIMERS_PER_AGENT_MAX
from tests.runtime.semantics import ENGINES, World, opened

START = 1_000_000.0


class Arm(Event):
    """Set a timer: "after", "at", "every" or "cancel"."""

    how: str
    seconds: float = 0.0
    name: str | None = None
    label: str = ""


class Rang(Event):
    label: str


class Note(Event):
    label: str


class Heard(Action):
    label: str


class Clock(Agent):
    heard: list[str] = []
    times: list[float] = []
    cancelled: list[bool] = []

    @on
    def arm(self, event: Arm, ctx: Context) -> None:
        rang = Rang(event.label)
        if event.how == "after":
            ctx.after(event.seconds, rang, event.name)
        elif event.how == "at":
            ctx.at(START + event.seconds, rang, event.name)
        elif event.how == "every":
            ctx.every(event.seconds, rang, event.name)
        else:
            self.cancelled.append(ctx.cancel(event.name or ""))

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        if event.label == "fail":
            raise ValueError("a timer that fails")
        self.hear(event.label, ctx)
        if event.label.startswith("again"):
            ctx.after(1.0, event)
        if event.label == "at once":
            ctx.after(0.0, event, name="at once")

    @on
    def note(self, event: Note, ctx: Context) -> None:
        self.hear(event.label, ctx)

    def hear(self, label: str, ctx: Context) -> None:
        self.heard.append(label)
        self.times.append(round(ctx.now - START, 3))
        ctx.emit(Heard(label))


fleet = Fleet("clocks", agents=[Clock])


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path) as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[World]:
    with opened(fleet, "sqlite", tmp_path) as made:
        yield made


def arm(world: World, how: str, seconds: float = 0.0, **more: str) -> None:
    world.live.send(Clock, "c-1", Arm(how, seconds, **more))
    world.run()


def heard(world: World) -> list[tuple[str, float]]:
    state = world.live.state(Clock, "c-1")
    assert state is not None
    return list(zip(state.heard, state.times, strict=True))


def test_after_fires_once_and_never_early(world: World) -> None:
    arm(world, "after", 5.0, label="tea")
    world.pass_time(4.999)
    assert heard(world) == []
    world.pass_time(0.001)
    assert heard(world) == [("tea", 5.0)]
    world.pass_time(1_000.0)
    assert heard(world) == [("tea", 5.0)]
    assert [a.action for a in world.live.actions()] == [Heard("tea")]


def test_at_fires_when_the_clock_reaches_it_also_if_that_is_past(world: World) -> None:
    arm(world, "at", 7.0, label="seven")
    arm(world, "at", -50.0, label="past")
    world.pass_time(0.001)
    assert heard(world) == [("past", 0.001)]
    world.pass_time(6.9)
    assert len(heard(world)) == 1
    world.pass_time(0.1)
    assert heard(world)[1] == ("seven", 7.001)


def test_every_fires_on_its_period_until_cancelled(world: World) -> None:
    arm(world, "every", 2.0, name="beat", label="beat")
    for _ in range(6):
        world.pass_time(1.0)
    assert heard(world) == [("beat", 2.0), ("beat", 4.0), ("beat", 6.0)]
    arm(world, "cancel", name="beat")
    arm(world, "cancel", name="beat")
    world.pass_time(10.0)
    assert len(heard(world)) == 3
    state = world.live.state(Clock, "c-1")
    assert state is not None
    assert state.cancelled == [True, False]


def test_missed_periods_are_one_firing_and_the_rhythm_stays(world: World) -> None:
    arm(world, "every", 2.0, name="beat", label="beat")
    world.pass_time(7.0)
    assert heard(world) == [("beat", 7.0)]
    world.pass_time(1.0)
    assert heard(world) == [("beat", 7.0), ("beat", 8.0)]


def test_missed_periods_before_a_waiting_event_are_one_firing(world: World) -> None:
    arm(world, "every", 2.0, name="beat", label="beat")
    world.clock.pass_time(7.0)
    world.live.send(Clock, "c-1", Note("late"))
    world.run()
    assert heard(world) == [("beat", 2.0), ("late", 7.0)]
    world.pass_time(1.0)
    assert heard(world)[2:] == [("beat", 8.0)]


def test_the_same_name_replaces_and_no_name_adds(world: World) -> None:
    arm(world, "after", 5.0, name="x", label="first")
    arm(world, "after", 9.0, name="x", label="second")
    arm(world, "after", 5.0, label="third")
    arm(world, "after", 5.0, label="fourth")
    world.pass_time(5.0)
    assert sorted(heard(world)) == [("fourth", 5.0), ("third", 5.0)]
    world.pass_time(4.0)
    assert heard(world)[2:] == [("second", 9.0)]


def test_a_name_may_bring_its_timer_forward(world: World) -> None:
    arm(world, "after", 50.0, name="x", label="slow")
    arm(world, "after", 5.0, name="x", label="quick")
    world.pass_time(5.0)
    world.pass_time(100.0)
    assert heard(world) == [("quick", 5.0)]


def test_a_timer_due_before_a_waiting_event_fires_first(world: World) -> None:
    """The worker was away: events and timers are taken in the order of their times."""
    arm(world, "after", 3.0, label="three")
    arm(world, "after", 6.0, label="six")
    for second in (2.0, 4.0):
        world.clock.pass_time(2.0)
        world.live.send(Clock, "c-1", Note(f"at {second}"))
    world.clock.pass_time(6.0)
    world.run()
    assert heard(world) == [("at 2.0", 2.0), ("three", 3.0), ("at 4.0", 4.0), ("six", 10.0)]


def test_a_timer_set_by_a_waiting_event_fires_before_the_next(world: World) -> None:
    """The same, when timer and events are met in one batch."""
    world.live.send(Clock, "c-1", Arm("after", 1.0, label="one"))
    world.clock.pass_time(5.0)
    world.live.send(Clock, "c-1", Note("five"))
    world.run()
    assert heard(world) == [("one", 1.0), ("five", 5.0)]


def test_a_chain_of_timers_catches_up_in_order(world: World) -> None:
    world.live.send(Clock, "c-1", Arm("after", 1.0, label="again"))
    world.clock.pass_time(3.5)
    world.live.send(Clock, "c-1", Note("here"))
    world.run()
    assert heard(world) == [("again", 1.0), ("again", 2.0), ("again", 3.0), ("here", 3.5)]


def test_a_timer_that_sets_itself_at_once_does_not_stop_the_world(world: World) -> None:
    arm(world, "after", 0.0, name="at once", label="at once")
    world.clock.pass_time(0.01)
    world.live.send(Clock, "c-1", Note("still here"))
    world.run()
    labels = [label for label, _ in heard(world)]
    assert labels.count("at once") >= 5
    assert "still here" in labels
    world.pass_time(0.001)
    times = [time for _, time in heard(world)]
    assert times == sorted(times)


def test_a_failing_timer_is_a_dead_letter_and_fires_once(world: World) -> None:
    arm(world, "after", 1.0, label="fail")
    arm(world, "after", 1.0, label="fine")
    world.pass_time(1.0)
    world.pass_time(10.0)
    assert heard(world) == [("fine", 1.0)]
    [letter] = world.live.dead_letters()
    assert letter.error == "ValueError: a timer that fails"
    assert letter.event == Rang("fail")


def test_a_failing_periodic_timer_goes_on(world: World) -> None:
    arm(world, "every", 1.0, name="beat", label="fail")
    for _ in range(3):
        world.pass_time(1.0)
    assert len(world.live.dead_letters()) == 3


def test_timers_per_agent_are_bounded(world: World) -> None:
    for number in range(TIMERS_PER_AGENT_MAX + 1):
        world.live.send(Clock, "c-1", Arm("after", 1.0, label=f"{number}"))
    world.run()
    [letter] = world.live.dead_letters()
    assert f"{TIMERS_PER_AGENT_MAX} timers, the bound" in letter.error
    world.pass_time(1.0)
    assert len(heard(world)) == TIMERS_PER_AGENT_MAX


def test_history_shows_timers_between_events(world: World) -> None:
    arm(world, "after", 1.0, name="x", label="tick")
    world.pass_time(2.0)
    world.live.send(Clock, "c-1", Note("later"))
    world.run()
    entries = world.live.history(Clock, "c-1")
    assert [entry.origin for entry in entries] == ["external", "timer", "external"]
    assert entries[1].event == Rang("tick")


def test_a_clock_set_back_fires_nothing_early(world: World) -> None:
    arm(world, "after", 5.0, label="tea")
    world.clock.set(START - 100.0)
    world.pass_time(4.0)
    world.live.send(Clock, "c-1", Note("now"))
    world.run()
    assert heard(world) == [("now", 0.0)]
    world.clock.set(START + 5.0)
    world.run()
    assert heard(world) == [("now", 0.0), ("tea", 5.0)]


def test_a_clock_that_jumps_ahead_fires_nothing_and_says_so(world: World) -> None:
    arm(world, "after", 60.0, label="tea")
    world.clock.set(START + 86_400.0)
    world.run()
    assert heard(world) == []
    assert "ahead" in world.worker.alarms[0]
    world.clock.set(START)
    world.pass_time(2.0)
    world.pass_time(58.0)
    assert heard(world) == [("tea", 60.0)]


# ---------------------------------------------------------------- restarts


def test_a_clock_that_jumps_ahead_while_nothing_runs_fires_nothing(disk: World) -> None:
    """Found by simulation: only a worker that was there before the jump noticed it."""
    arm(disk, "after", 60.0, label="tea")
    disk.clock.set(START + 86_400.0)
    disk.restart()
    disk.run()
    assert heard(disk) == []
    assert "ahead" in disk.worker.alarms[0]
    disk.clock.set(START)
    disk.pass_time(2.0)
    disk.pass_time(58.0)
    assert heard(disk) == [("tea", 60.0)]


def test_timers_survive_a_restart_and_fire_once(disk: World) -> None:
    arm(disk, "after", 5.0, label="one")
    arm(disk, "every", 4.0, name="beat", label="beat")
    disk.restart()
    disk.pass_time(4.0)
    disk.restart()
    disk.pass_time(1.0)
    disk.restart()
    disk.run()
    assert heard(disk) == [("beat", 4.0), ("one", 5.0)]
    disk.pass_time(3.0)
    assert heard(disk)[2:] == [("beat", 8.0)]
    assert len(list(disk.live.actions())) == 3


def test_timers_due_while_nothing_ran_fire_at_the_start(disk: World) -> None:
    arm(disk, "after", 5.0, label="one")
    arm(disk, "every", 4.0, name="beat", label="beat")
    arm(disk, "after", 9.0, name="gone", label="gone")
    arm(disk, "cancel", name="gone")
    disk.clock.pass_time(21.0)
    disk.restart()
    disk.run()
    assert heard(disk) == [("beat", 21.0), ("one", 21.0)]
    disk.pass_time(3.0)
    assert heard(disk)[2:] == [("beat", 24.0)]


class Poke(Event):
    wrong: bool = False


class Quiet(Event):
    pass


def impostor() -> Event:
    """Of another class that has the same name."""
    return type("Quiet", (Event,), {"__module__": __name__, "__annotations__": {}})()


class Watched(Agent):
    pokes: int = 0

    @on
    def poke(self, event: Poke, ctx: Context) -> None:
        self.pokes += 1
        ctx.after(60.0, impostor() if event.wrong else Quiet(), name="watchdog")

    @on
    def quiet(self, event: Quiet, ctx: Context) -> None:
        self.pokes = 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watchdog_put_off_with_another_class_is_checked_like_a_new_timer(
    engine: str, tmp_path: Path
) -> None:
    with opened(Fleet("watched", agents=[Watched]), engine, tmp_path) as world:
        for wrong in (False, True, False):
            world.live.send(Watched, "w-1", Poke(wrong))
            world.run()
            world.pass_time(1.0)
        state = world.live.state(Watched, "w-1")
        assert state is not None
        assert state.pokes == 2
        [letter] = world.live.dead_letters()
        assert "Quiet" in letter.error
