"""Pauses between commits: for senders that gather themselves, and for nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.engine.port import Limits
from holdfast.model.keys import Layout
from holdfast.runtime import partition as partition_module
from holdfast.runtime.gathering import GATHER_SECONDS, PAUSE_SECONDS, pause
from holdfast.runtime.partition import Partition
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import Inputs
from tests.runtime.semantics import opened


def test_large_sends_to_many_agents_may_gather() -> None:
    assert pause(events=4_096, sends=1, agents=2_800, took=0.004) == 0.004
    assert pause(events=4_096, sends=1, agents=2_800, took=1.0) == PAUSE_SECONDS
    assert pause(events=12_288, sends=3, agents=4_500, took=0.004) == 0.008
    assert pause(events=12_288, sends=3, agents=4_500, took=1.0) == GATHER_SECONDS


def test_where_each_agent_has_many_events_already_nothing_is_won() -> None:
    assert pause(events=65_536, sends=1, agents=5_000, took=0.01) == 0.0


def test_timers_alone_make_no_pause() -> None:
    assert pause(events=0, sends=0, agents=0, took=0.01) == 0.0


@pytest.mark.parametrize("rate", [1_000, 50_000, 200_000])
def test_after_a_commit_that_took_long_an_even_load_is_folded_without_pauses(rate: int) -> None:
    """A send every 2 ms, a commit takes 3 ms and 4 µs per event, and the first one 200 ms."""
    took, waited, pauses = 0.2, 0.0, []
    for _ in range(50):
        span = took + waited
        sends = max(1, round(span / 0.002))
        events = round(rate * span)
        took = 0.003 + 4e-6 * events
        waited = pause(events, sends, agents=min(events, 5_000), took=took)
        pauses.append(waited)
    assert pauses == [0.0] * 50


class Tick(Event):
    pass


class Clock(Agent):
    ticks: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1


def test_a_partition_that_has_become_idle_slows_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_size(events: int, sends: int, agents: int, took: float) -> float:
        return 0.01 if events >= 1_500 else 0.0

    monkeypatch.setattr(partition_module, "pause", by_size)
    layout = Layout.even(2)
    names = [f"c-{i}" for i in range(8_000)]
    busy = [name for name in names if layout.partition_of(name) == 0][:2_000]
    other = next(name for name in names if layout.partition_of(name) == 1)
    with opened(Fleet("clocks", agents=[Clock]), "memory", tmp_path, partitions=2) as world:
        world.run()
        slept: list[float] = []
        world.live.send_many([(Clock, key, Tick()) for key in busy])
        world.worker.turn(slept.append)
        assert slept == [0.01]
        for _ in range(3):
            world.live.send(Clock, other, Tick())
            world.worker.turn(slept.append)
        assert slept == [0.01]


def test_nobody_waits_while_more_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that took as many as it may does not pause, also while that bound still grows."""
    monkeypatch.setattr(partition_module, "pause", lambda *_: 0.01)
    monkeypatch.setattr(partition_module, "EVENTS_PER_COMMIT_MAX", 100)
    with opened(Fleet("clocks", agents=[Clock]), "memory", tmp_path) as world:
        world.run()
        world.worker.partitions[0]._events_max = 10
        slept: list[float] = []
        world.live.send_many([(Clock, f"c-{n}", Tick()) for n in range(25)])
        world.worker.turn(slept.append)
        assert slept == []
        world.worker.turn(slept.append)
        assert slept == [0.01]


def test_an_interval_between_commits_can_be_asked_for(tmp_path: Path) -> None:
    """Fewer and larger commits for whoever pays for each of them; at most a second."""
    for asked, most in [(0.2, 0.2), (60.0, 1.0)]:
        limits = Limits(commit_interval_seconds=asked)
        with opened(Fleet("clocks", agents=[Clock]), "memory", tmp_path, limits=limits) as world:
            world.run()
            slept: list[float] = []
            world.live.send(Clock, "c-1", Tick())
            world.worker.turn(slept.append)
            assert len(slept) == 1
            assert most / 2 < slept[0] <= most


def test_what_was_too_large_for_a_commit_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding it costs as much as if it were kept, and then all states are loaded again."""
    tried: list[int] = []
    step = Partition._step

    def counted(
        self: Partition, urgent: list[Inputs], batch: list[Inputs], clock: float | None
    ) -> Commit:
        tried.append(sum(map(len, batch)))
        return step(self, urgent, batch, clock)

    monkeypatch.setattr(Partition, "_step", counted)
    monkeypatch.setattr(partition_module, "EVENTS_PER_COMMIT_MAX", 256)
    monkeypatch.setattr(partition_module, "COMMIT_BYTES_MAX", 3_000)
    with opened(Fleet("clocks", agents=[Clock]), "memory", tmp_path) as world:
        for _ in range(8):
            world.live.send_many([(Clock, f"c-{n}", Tick()) for n in range(256)])
        world.run()
        assert max(tried) == 256
        assert sorted(tried)[-2] <= 128
        assert world.live.state(Clock, "c-7").ticks == 8
