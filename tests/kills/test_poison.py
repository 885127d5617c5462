"""Goal: an event that kills its worker ends as a dead letter, and costs no other event anything.

Deaths that come from outside must not be blamed on an event.
"""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast import Agent, Event, Live
from tests.kills import traps
from tests.kills.harness import PATIENCE_SECONDS, Site, children, eventually, key_in, site, strike

TRAPS = "tests.kills.traps:fleet"
MEMORY_BYTES_MAX = 256 * 1024 * 1024
pytestmark = pytest.mark.kill


def keeper_of(place: Site, workers: int, memory: int = 0) -> int:
    keeper = place.keeper(workers, memory)
    place.laid_out()
    return keeper.pid


def walk(live: Live, agent: type[Agent], key: str, trap: Event) -> None:
    """Thirty steps, the trap among the last of them, thirty steps; in three sends."""
    before = [(agent, key, traps.Step(n)) for n in range(25)]
    live.send_many(before)
    among = [(agent, key, traps.Step(n)) for n in range(25, 35)]
    live.send_many([*among[:5], (agent, key, trap), *among[5:]])
    live.send_many([(agent, key, traps.Step(n)) for n in range(35, 60)])


def letters_of(live: Live) -> Counter[tuple[str, Event]]:
    return Counter((x.key, x.event) for x in live.dead_letters() if isinstance(x.event, Event))


def test_events_that_kill_end_as_dead_letters() -> None:
    """Four of them at once, one per partition: each death stops the worker's other partition."""
    keys = [key_in(partition, 4) for partition in range(4)]
    fatal = dict(zip(keys, ["exit", "loop", "memory", "timer"], strict=True))
    expected: Counter[tuple[str, Event]] = Counter()
    for key, how in fatal.items():
        expected[key, traps.Snap() if how == "timer" else traps.Trap(how)] = 1
    with site("partitions=4", TRAPS) as place:
        keeper_of(place, 2, MEMORY_BYTES_MAX)
        with traps.fleet.connect(place.url) as live:
            for key, how in fatal.items():
                walk(live, traps.Walker, key, traps.Trap(how))
            eventually(lambda: letters_of(live) == expected, "the killers are dead letters")
            live.settle(timeout=PATIENCE_SECONDS)
            for key, how in fatal.items():
                state = live.state(traps.Walker, key)
                assert state is not None
                assert state.steps == list(range(60)), key
                assert state.trapped == (how == "timer"), "a trap leaves no trace in the state"
            assert letters_of(live) == expected


@pytest.mark.parametrize("how", ["SystemExit", "NotAnException"])
def test_a_handler_that_raises_past_exception_does_not_end_the_fleet(how: str) -> None:
    with site("partitions=1", TRAPS) as place:
        keeper_of(place, 1)
        with traps.fleet.connect(place.url) as live:
            walk(live, traps.Walker, "w-0", traps.Trap(how))
            live.settle(timeout=PATIENCE_SECONDS)
            state = live.state(traps.Walker, "w-0")
            assert state is not None
            assert state.steps == list(range(60))
            assert letters_of(live) == Counter({("w-0", traps.Trap(how)): 1})


def test_a_pausing_agent_keeps_the_event_that_kills_and_all_behind_it() -> None:
    with site("partitions=1", TRAPS) as place:
        keeper_of(place, 1)
        with traps.fleet.connect(place.url) as live:
            walk(live, traps.Guarded, "g-0", traps.Trap("exit"))
            live.send(traps.Guarded, "g-1", traps.Step(1))
            live.settle(timeout=PATIENCE_SECONDS)
            states = dict(live.states(traps.Guarded))
            assert states["g-0"].steps == list(range(30))
            assert states["g-1"].steps == [1]
            assert [(p.key, p.held) for p in live.paused()] == [("g-0", 31)]
            assert live.dead_letters() == []


@pytest.mark.parametrize("agent", [traps.Walker, traps.Guarded])
def test_an_agent_that_kills_when_it_is_resumed_stays_paused(
    agent: type[traps.Walker] | type[traps.Guarded],
) -> None:
    """All held events are folded for one command, which fails as a whole; the others go on."""
    with site("partitions=1", TRAPS) as place:
        keeper_of(place, 1)
        with traps.fleet.connect(place.url) as live:
            live.send(agent, "a", traps.Step(100))
            live.settle(timeout=PATIENCE_SECONDS)  # or the pause overtakes it
            live.pause(agent, "a")
            walk(live, agent, "a", traps.Trap("exit"))
            live.settle(timeout=PATIENCE_SECONDS)  # all are held
            live.resume(agent, "a")
            live.send_many([(agent, "a", traps.Step(60)), (agent, "b", traps.Step(1))])
            live.settle(timeout=PATIENCE_SECONDS)
            assert {key: state.steps for key, state in live.states(agent)} == {"a": [100], "b": [1]}
            assert [(p.key, p.held) for p in live.paused()] == [("a", 62)]
            assert live.dead_letters() == []


def test_deaths_from_outside_are_not_blamed_on_events() -> None:
    """Three kills while one batch runs, then more while its events are folded one by one."""
    chance = random.Random(5)
    with site("partitions=1", TRAPS) as place:
        keeper = keeper_of(place, 1)
        with traps.fleet.connect(place.url) as live:
            sent = 0

            def busy() -> bool:
                nonlocal sent
                if not live.positions()[0].lag:
                    slow = [traps.Slow(n, 0.001) for n in range(sent, sent + 600)]
                    live.send_many([(traps.Walker, "w-0", each) for each in slow])
                    sent += len(slow)
                return folding(place)

            for _ in range(7):
                eventually(busy, "user code runs")
                time.sleep(chance.uniform(0.0, 0.3))
                for worker in children(keeper):
                    strike(worker)
            live.settle(timeout=PATIENCE_SECONDS)
            state = live.state(traps.Walker, "w-0")
            assert state is not None
            assert state.steps == list(range(sent))
            assert live.dead_letters() == []


def test_a_worker_that_leaks_memory_buries_no_innocent_event() -> None:
    """Which event meets the bound is chance: a fresh worker folds it without trouble."""
    with site("partitions=1", TRAPS) as place:
        keeper_of(place, 1, MEMORY_BYTES_MAX)
        with traps.fleet.connect(place.url) as live:
            live.send_many([(traps.Walker, "w-0", traps.Hoard(n)) for n in range(60)])
            live.settle(timeout=PATIENCE_SECONDS)
            assert live.dead_letters() == []
            state = live.state(traps.Walker, "w-0")
            assert state is not None
            assert state.steps == list(range(60))


def folding(place: Site) -> bool:
    """The mark a worker leaves on disk while user code runs."""
    mark: Path = place.folder / "data" / "p000" / "folding"
    return mark.exists() and bool(mark.read_text().strip())
