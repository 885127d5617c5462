"""Goal: a compiled agent hears of its actions and of ground stops as an interpreted one does, its
actions are withheld like others, and what cannot be compiled is refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import (
    Action,
    ActionAcknowledged,
    ActionExpired,
    Agent,
    Context,
    DefinitionError,
    Event,
    Fleet,
    GroundStop,
    on,
)
from holdfast.runtime.live import Live
from holdfast.runtime.replaying.running import compare


class Tick(Event):
    number: int


class Move(Action, expires=5.0):
    number: int


class Land(Action, during_ground_stop=True):
    number: int


class Fast(Agent, compiled=True):
    total: int = 0
    done: int = 0
    stops: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.total += event.number
        ctx.emit(Move(number=self.total))
        ctx.emit(Land(number=self.total))

    @on
    def acknowledged(self, event: ActionAcknowledged, ctx: Context) -> None:
        self.done += 1 if event.name == "Move" else 100

    @on
    def stopped(self, event: GroundStop, ctx: Context) -> None:
        self.stops += 1
        ctx.emit(Land(number=-1))


class Slow(Agent):
    total: int = 0
    done: int = 0
    stops: int = 0

    tick = Fast.tick
    acknowledged = Fast.acknowledged
    stopped = Fast.stopped


fleet = Fleet("speed", agents=[Fast, Slow])


def issued(live: Live, agent: str) -> list[tuple[str, object]]:
    return [(one.key, one.action) for one in live.actions() if one.agent == agent]


def test_both_hear_and_issue_the_same(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=1) as live:
        for agent in (Fast, Slow):
            live.send_many([(agent, f"a-{n % 3}", Tick(number=n)) for n in range(9)])
        live.settle()
        for name in ("Fast", "Slow"):
            live.acknowledge([f"speed/{name}/a-1/1/0", f"speed/{name}/a-1/2/1"])
        live.ground_stop("thunder")
        for agent in (Fast, Slow):
            live.send_many([(agent, f"a-{n % 4}", Tick(number=n)) for n in range(8)])
        live.settle()
        live.lift_ground_stop("blue sky")
        for agent in (Fast, Slow):
            live.send(agent, "a-0", Tick(number=1))
        live.settle()
        fast = {key: (a.total, a.done, a.stops) for key, a in live.states(Fast)}
        slow = {key: (a.total, a.done, a.stops) for key, a in live.states(Slow)}
        assert fast == slow
        assert fast["a-1"] == (1 + 4 + 7 + 1 + 5, 101, 1)
        assert issued(live, "Fast") == issued(live, "Slow")
        held = [one.id.split("/", 2) for one in live.withheld()]
        withheld = {
            name: [rest for _, each, rest in held if each == name] for name in ("Fast", "Slow")
        }
        assert withheld["Fast"] == withheld["Slow"]
        assert len(withheld["Fast"]) == 8
        assert compare(live._engine, fleet, 0).difference is None


def test_expiries_are_refused_with_the_way_out() -> None:
    with pytest.raises(DefinitionError, match=r"handles ActionExpired.*leave compiled=True out"):

        class Waiting(Agent, compiled=True):
            count: int = 0

            @on
            def expired(self, event: ActionExpired, ctx: Context) -> None:
                self.count += 1
