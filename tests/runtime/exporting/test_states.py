"""Goal: after every export the target has the states that the fleet has, and only what changed was
written: through timers, messages, expiries, rebirths, rescalings, retention and new versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.engine.port import Engine, View
from holdfast.engine.urls import open_engine
from holdfast.runtime.exporting import states
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.untyped import UntypedLive
from holdfast.stepping.commit import Head
from holdfast.stepping.inputs import StoredFrame
from tests.runtime.exporting.fleets import Arm, Drone, Tell, Tick, Visitor, fleet
from tests.runtime.exporting.sinks import Sink, export, micros
from tests.runtime.semantics import World, opened


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with opened(fleet, request.param, tmp_path, partitions=2) as world:
        yield world


def committed(engine: Engine, *agents: str) -> dict[str, dict[str, Any]]:
    """The states as any handle reads them."""
    live = UntypedLive(engine)
    return {
        f"{each.agent}/{each.key}": {
            "agent": each.agent,
            "key": each.key,
            "version": each.version,
            "updated": micros(each.updated),
            **each.values,
        }
        for agent in agents or ("Drone", "Visitor")
        for each in live.states(agent)
    }


def test_states_are_what_the_fleet_has(world: World, sink: Sink) -> None:
    world.live.send_many([(Drone, f"d-{i}", Tick(n=i, note="ü")) for i in range(8)])
    world.live.send(Visitor, "v-1", Tick(n=1))
    world.live.send(Drone, "d-2", Tell(to="d-5"))
    world.run()
    assert export(world.engine, "states", sink) == 9
    assert sink.states() == committed(world.engine)
    assert len(sink.states()) == 9


@pytest.mark.parametrize("point_reads", [0, 1_000])
def test_only_what_changed_comes_again(
    world: World, sink: Sink, point_reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "POINT_READS", point_reads)
    world.live.send_many([(Drone, f"d-{i}", Tick(n=i)) for i in range(8)])
    world.run()
    export(world.engine, "states", sink)
    world.live.send(Drone, "d-3", Tick(n=100))
    world.live.send(Drone, "d-1", Tell(to="d-6"))
    world.run()
    assert export(world.engine, "states", sink) == 3
    assert sink.states() == committed(world.engine)
    assert export(world.engine, "states", sink) == 0
    world.live.send(Drone, "d-7", Arm(seconds=1.0))
    world.run()
    assert export(world.engine, "states", sink) == 1
    world.pass_time(2.0)
    assert export(world.engine, "states", sink) == 1
    assert sink.states()["Drone/d-7"]["mode"] == "rung"


def test_agents_that_are_gone_go(world: World, sink: Sink) -> None:
    world.live.send_many([(Visitor, f"v-{i}", Tick(n=i)) for i in range(5)])
    world.run()
    export(world.engine, "states", sink)
    assert len(sink.states()) == 5
    world.clock.pass_time(59.0)
    world.live.send(Visitor, "v-0", Tick(n=5))
    world.run()
    world.pass_time(30.0)
    world.live.send(Visitor, "v-3", Tick(n=33))  # born again before anybody has seen it go
    world.run()
    export(world.engine, "states", sink)
    assert sink.states() == committed(world.engine)
    assert sorted(sink.states()) == ["Visitor/v-0", "Visitor/v-3"]
    world.pass_time(300.0)
    export(world.engine, "states", sink)
    assert sink.states() == {}


def test_states_stay_right_over_a_rescaling(sink: Sink, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}?partitions=2"
    with fleet.open(url) as live:
        live.send_many([(Drone, f"d-{i}", Tick(n=i)) for i in range(20)])
        live.settle()
    with _engine(url) as engine:
        assert export(engine, "states", sink) == 20
        assert export(engine, "events", sink) == 20
    with fleet.open(url) as live:
        live.send_many([(Drone, f"d-{i}", Tick(n=7)) for i in range(5)])
        live.settle()
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        live.send_many([(Drone, f"d-{i}", Tick(n=1)) for i in range(20)])
        live.settle()
        positions = len(live.positions())
    with _engine(url) as engine:
        export(engine, "states", sink)
        assert sink.states() == committed(engine)
        assert export(engine, "states", sink) == 0
        assert export(engine, "events", sink) == 25
        assert export(engine, "events", sink) == 0
        export(engine, "actions", sink)
    assert positions == 3
    exported = sink.rows("events")
    assert len(exported) == 45
    assert {row["partition"] for row in exported} == {0, 1, 2, 3, 4}
    for i in range(20):
        ticks = [row["payload"]["n"] for row in exported if row["key"] == f"d-{i}"]
        assert ticks == ([i, 7, 1] if i < 5 else [i, 1])
    with fleet.connect(url) as live:
        assert [row["id"] for row in sink.rows("actions")] == [a.id for a in live.actions()]


class _engine:
    """A reader of the data, closed at the end."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url, None)

    def __enter__(self) -> Engine:
        return self.engine

    def __exit__(self, *_: object) -> None:
        self.engine.close()


def test_the_time_of_a_head_is_never_that_of_a_later_event() -> None:
    """Retention took the event before it, and what came later is what is left."""

    class Left:
        def inbox_first(self) -> int:
            return 0

        def frames(self, first: int, most: int) -> list[StoredFrame]:
            return [StoredFrame(9, 1, 500.0, b"")]

    assert states._stamp(cast(View, Left()), Head(position=5, now=100.0)) == 100.0
