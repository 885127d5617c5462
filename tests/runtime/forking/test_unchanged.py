"""Goal: forking unchanged code over real history finds no difference at all."""

import random
from pathlib import Path

import pytest

from holdfast.demo.fleet import Drone, Order, Telemetry
from holdfast.demo.fleet import fleet as demo
from holdfast.demo.script import Script
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.urls import open_engine
from holdfast.runtime.forking.fork import Options, fork_engine
from holdfast.runtime.forking.rounds import Rounds
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.worker import Worker
from tests.runtime.forking.recordings import differences, forked, recorded_yard, work
from tests.runtime.semantics import ENGINES
from tests.seeds import seeds
from tests.simulation import fleet_v1 as yard


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_a_yard_with_every_feature(seed: int, engine: str, tmp_path: Path) -> None:
    with recorded_yard(seed, tmp_path, engine) as world:
        found = forked(world, yard.fleet)
        assert differences(found) == {}
        assert found.outcome.states.compared > 10
        assert found.outcome.messages > 50
        assert found.outcome.firings > 20
        assert len(found.outcome.letters[0]) > 20


def test_partitions_that_have_not_folded_everything(tmp_path: Path) -> None:
    """Messages are under way, backlogs differ: the fork ends where each partition stands."""
    with recorded_yard(11, tmp_path, sends=60) as world:
        for number in range(40):
            world.live.send(yard.Robot, f"r-{number % 4}", yard.Level(percent=5.0))
            if number % 3 == 0:
                world.worker.tick()
                assert differences(forked(world, yard.fleet)) == {}
            world.clock.pass_time(0.3)


def test_production_that_goes_on_meanwhile(tmp_path: Path) -> None:
    """The fork ends where production stood when it began, however far it has come since."""
    with recorded_yard(6, tmp_path, sends=60) as world:
        numbers = world.engine.catalog.layout.numbers
        for seed in range(3):
            ends = {number: world.engine.view(number).head() for number in numbers}
            work(world, random.Random(seed), 20)
            found = forked(world, yard.fleet, Options(ends=ends))
            assert differences(found) == {}
            assert found.outcome.states.unknown > 0


def test_rounds_of_any_length_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_yard(5, tmp_path) as world:
        for seconds in (0.01, 3.0):
            monkeypatch.setattr(
                Rounds, "_adapt", lambda self, *rest, s=seconds: setattr(self, "_seconds", s)
            )
            assert differences(forked(world, yard.fleet)) == {}


def test_the_demo_recorded_live_on_several_partitions(tmp_path: Path) -> None:
    """Real clocks, a thread that folds beside the sender, commits of any size."""
    url = f"sqlite:{tmp_path / 'data'}"
    classes = {"Telemetry": Telemetry, "Order": Order}
    lines = Script(7, 60, 10.0).lines()
    with demo.open(url, partitions=3) as live:
        for _ in range(120):
            batch = [next(lines) for _ in range(60)]
            live.send_many([(Drone, line.key, classes[line.event](*line.values)) for line in batch])
        live.settle()
        engine = open_engine(url, demo.name)
        found = fork_engine(demo, engine, Options())  # beside the fleet that runs
        engine.close()
    assert differences(found) == {}
    assert found.outcome.totals["Dock"][0] > 20
    assert found.outcome.messages > 100


def test_history_over_two_rescalings(tmp_path: Path) -> None:
    with recorded_yard(3, tmp_path, partitions=2, sends=60) as world:
        for partitions in (3, 1):
            assert isinstance(world.engine, MemoryEngine)
            world.engine._granted.clear()  # whoever rescales has claimed nothing
            job = Rescale(yard.fleet, world.engine, partitions, world.clock)
            while not job.step():
                pass
            numbers = world.engine.catalog.layout.numbers
            world.worker = Worker(yard.fleet, world.engine, numbers, world.clock)
            work(world, random.Random(partitions), 60)
        found = forked(world, yard.fleet)
        assert differences(found) == {}
        assert found.outcome.states.compared > 10
        assert found.outcome.inputs > 500
