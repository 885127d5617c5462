"""Goal: an urgent event, and an operator's command, is folded before what waits, once, and
everything that tells the past tells it in that order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.errors import DefinitionError
from holdfast.model.event import EventMeta
from holdfast.runtime.replaying.running import compare
from holdfast.stepping.lane import LANE
from tests.runtime.haste import (
    At,
    Crash,
    Drone,
    LandNow,
    Moved,
    Tell,
    Where,
    fleet,
    replayed,
    seen,
)
from tests.runtime.semantics import ENGINES, World, engine_url, opened


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with replayed(request.param, tmp_path) as world:
        yield world


def test_it_is_folded_before_what_waits(world: World) -> None:
    live = world.live
    for x in (1, 2, 3):
        live.send(Drone, "d", Moved(x=x))
    live.send(Drone, "d", LandNow(why="a"))
    live.send(Drone, "d", Moved(x=4))
    live.send(Drone, "d", LandNow(why="b"))
    world.run()
    assert seen(live) == ["land a", "land b", "moved 1", "moved 2", "moved 3", "moved 4"]


def test_it_has_a_commit_of_its_own_and_then_what_waits_goes_on(world: World) -> None:
    """Or a flood of urgent events would stop everything else."""
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    receipt = live.send(Drone, "d", LandNow())
    world.worker.tick()
    assert live.state(Drone, "d", after=receipt) is not None
    assert seen(live) == ["land "]
    live.send(Drone, "d", LandNow(why="again"))
    world.worker.tick()
    assert seen(live) == ["land ", "land again", "moved 1"]


def test_the_receipt_of_what_it_overtook_waits_for_that(world: World) -> None:
    live = world.live
    normal = live.send(Drone, "d", Moved(x=1))
    urgent = live.send(Drone, "d", LandNow())
    assert urgent.positions == ((0, LANE + 1),)
    world.worker.tick()
    with pytest.raises(TimeoutError):
        live.state(Drone, "d", after=normal, timeout=0.0)
    world.run()
    assert live.state(Drone, "d", after=normal, timeout=0.0) is not None


def test_a_repeat_is_a_no_op_whichever_way_the_first_went(world: World) -> None:
    live = world.live
    for _ in range(2):
        live.send(Drone, "d", LandNow(), source="gcs", seq=1)
        live.send(Drone, "d", Moved(x=1), source="gcs", seq=2)
        world.run()
    assert seen(live) == ["land ", "moved 1"]
    again = live.send(Drone, "d", LandNow(), source="gcs", seq=2)
    assert again.repeats == 1
    assert live.positions()[0].lag == 0


def test_of_a_batch_only_the_urgent_ones_overtake(world: World) -> None:
    live = world.live
    batch = [Moved(x=1), LandNow(why="a"), Moved(x=2), LandNow(why="b")]
    receipt = live.send_many([(Drone, "d", each) for each in batch], source="s", first_seq=1)
    assert live.positions()[0].lag == 4
    world.run()
    assert seen(live) == ["land a", "land b", "moved 1", "moved 2"]
    live.state(Drone, "d", after=receipt, timeout=0.0)
    again = live.send_many([(Drone, "d", each) for each in batch], source="s", first_seq=1)
    assert again.repeats == 4


def test_the_receipt_of_a_mixed_batch_stands_for_all_of_it(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=0))
    receipt = live.send_many([(Drone, "d", Moved(x=1)), (Drone, "d", LandNow())])
    world.worker.tick()
    assert seen(live) == ["land "]
    with pytest.raises(TimeoutError):
        live.state(Drone, "d", after=receipt, timeout=0.0)
    world.run()
    assert seen(live)[-1] == "moved 1"


def test_columns_of_an_urgent_event_overtake(world: World) -> None:
    pytest.importorskip("numpy")
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    keys = live.keys(Drone, ["d", "e"])
    live.send_columns(Drone, LandNow, keys, why=["one", "two"])
    world.run()
    assert seen(live) == ["land one", "moved 1"]
    assert seen(live, "e") == ["land two"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ask_overtakes(engine: str, tmp_path: Path) -> None:
    with fleet.open(engine_url(engine, tmp_path)) as live:
        live.send(Drone, "d", Moved(x=7))
        live.settle()
        assert live.ask(Drone, "d", Where()) == At(x=7)


def test_it_keeps_its_trace(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    live.send(Drone, "d", LandNow(), trace=f"00-{'ab' * 16}-{'cd' * 8}-01")
    world.run()
    (issued,) = live.actions()
    assert issued.trace.startswith(f"00-{'ab' * 16}-")


def test_messages_between_agents_keep_their_order(world: World) -> None:
    live = world.live
    live.send(Drone, "a", Tell(to="d"))
    world.run()
    live.send(Drone, "d", Moved(x=1))
    world.run()
    assert seen(live) == ["land a says", "moved 1"]
    assert live.positions()[0] == (3, 3)


def test_time_does_not_go_back_for_what_was_overtaken(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    world.clock.pass_time(10.0)
    live.send(Drone, "d", LandNow())
    world.run()
    drone = live.state(Drone, "d")
    assert drone is not None
    assert drone.times == [1_000_010.0, 1_000_010.0]
    assert [entry.now for entry in live.history(Drone, "d")] == [1_000_010.0, 1_000_000.0]


def test_timers_stay_among_the_events_they_belong_between(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Tell(to="other"))
    world.run()
    live.send(Drone, "d", Moved(x=1))
    world.clock.pass_time(20.0)
    live.send(Drone, "d", LandNow())
    world.run()
    assert seen(live) == ["land ", "moved 1", "rang"]


def test_a_failed_one_becomes_a_dead_letter_and_comes_back(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    live.send(Drone, "d", Crash())
    world.run()
    (letter,) = live.dead_letters()
    assert (letter.event, letter.key) == (Crash(), "d")
    live.redrive(letter.id)
    world.run()
    assert len(live.dead_letters()) == 2


def test_a_paused_agent_holds_it_in_its_place(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=1))
    live.pause(Drone, "d")
    live.send(Drone, "d", LandNow())
    world.run()
    assert [paused.held for paused in live.paused()] == [2]
    live.resume(Drone, "d")
    world.run()
    assert seen(live) == ["land ", "moved 1"]


def test_a_replay_makes_the_same_of_it(tmp_path: Path) -> None:
    with opened(fleet, "sqlite", tmp_path) as world:
        live = world.live
        for x in range(20):
            live.send(Drone, f"d-{x % 3}", Moved(x=x))
            if x % 4 == 0:
                live.send(Drone, f"d-{x % 3}", LandNow(why=str(x)))
            if x % 5 == 0:
                world.worker.tick()
        world.run()
        outcome = compare(world.engine, fleet, 0)
        assert outcome.difference is None
        assert outcome.events == 20


def test_a_fleet_that_folds_by_itself_takes_it_between_frames(tmp_path: Path) -> None:
    """Not behind all that waited when it came."""
    events = 300
    slow, sent, gate = threading.Event(), threading.Event(), threading.Event()

    class Slow(Agent):
        count: int = 0
        landed: int = -1

        @on
        def moved(self, event: Moved, ctx: Context) -> None:
            self.count += 1
            slow.set()
            sent.wait(60.0)
            gate.wait(0.02)

        @on
        def land(self, event: LandNow, ctx: Context) -> None:
            self.landed = self.count

    with Fleet("slow", agents=[Slow]).open(f"sqlite:{tmp_path / 'data'}") as live:
        for x in range(events):
            live.send(Slow, "s", Moved(x=x))
        assert slow.wait(60.0)
        sent.set()
        receipt = live.send(Slow, "s", LandNow())
        state = live.state(Slow, "s", after=receipt)
        assert state is not None
        assert state.landed < events
        gate.set()
        live.settle()
        assert live.state(Slow, "s") == Slow(count=events, landed=state.landed)


def test_what_is_no_priority_is_refused() -> None:
    with pytest.raises(DefinitionError, match="use one of 'urgent', 'normal'"):
        EventMeta("Odd", (Event,), {}, priority="low")


def test_a_class_below_an_urgent_one_is_urgent() -> None:
    class Ditch(LandNow):
        where: str = ""

    assert Ditch.__holdfast__.priority == "urgent"


def test_timers_fire_beside_a_stream_of_urgent_events(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Tell(to="other"))
    world.run()
    for _ in range(10):
        world.clock.pass_time(1.0)
        live.send(Drone, "e", LandNow())
        world.worker.tick()
    assert "rang" in seen(live)


def test_a_repeat_waits_for_the_first_whatever_its_class_was_then(world: World) -> None:
    live = world.live
    live.send(Drone, "d", Moved(x=1), source="s", seq=1)
    again = live.send(Drone, "d", LandNow(), source="s", seq=1)
    assert again.repeats == 1
    with pytest.raises(TimeoutError):
        live.state(Drone, "d", after=again, timeout=0.0)
    world.run()
    live.state(Drone, "d", after=again, timeout=0.0)
