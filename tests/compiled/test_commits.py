"""Goal: large commits only where they cost little memory: all agents compiled, and few messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.runtime import partition as partition_module
from tests.compiled.fleet_v1 import Reading, Sensor
from tests.runtime.semantics import opened


class Tick(Event):
    pass


class Call(Event):
    number: int


class Echo(Agent, compiled=True):
    calls: int = 0

    @on
    def call(self, event: Call, ctx: Context) -> None:
        self.calls += 1
        if event.number > 0:
            ctx.send(Echo, ctx.key, Call(number=0))


class Clock(Agent):
    ticks: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1


@pytest.mark.parametrize(("agents", "most"), [([Sensor], 40 * 8), ([Sensor, Clock], 64)])
def test_a_large_fleet_takes_more_events_into_a_commit(
    agents: list[type[Agent]], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "EVENTS_PER_COMMIT_MAX", 64)
    monkeypatch.setattr(partition_module, "COMPILED_PER_COMMIT_MAX", 64)
    with opened(Fleet("sizes", agents=agents), "memory", tmp_path) as world:
        for n in range(60):
            world.live.send_many([(Sensor, f"s-{k}", Reading(float(n))) for k in range(40)])
        before, sizes = 0, []
        while world.worker.tick():
            sizes.append(world.worker.partitions[0].position - before)
            before += sizes[-1]
        assert max(sizes) == most
        assert sum(sizes) == 60 * 40


def test_after_many_messages_commits_are_of_the_usual_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "EVENTS_PER_COMMIT_MAX", 64)
    monkeypatch.setattr(partition_module, "COMPILED_PER_COMMIT_MAX", 64)
    monkeypatch.setattr(partition_module, "MESSAGES_MAX", 100)
    with opened(Fleet("echoes", agents=[Echo]), "memory", tmp_path) as world:
        for _ in range(60):
            world.live.send_many([(Echo, f"e-{k}", Call(number=1)) for k in range(40)])
        partition, before, sizes = world.worker.partitions, 0, []
        while world.worker.tick():
            sizes.append(partition[0].position - before)
            before += sizes[-1]
        assert sorted(sizes)[-3:] == [64, 64, 128]
        assert sum(sizes) == 2 * 60 * 40
