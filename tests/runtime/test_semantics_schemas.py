"""Goal: data written by one version of the classes opens under the next, end to end on disk, with
states, held events, timers and dead letters. What does not fit is refused by name, and what newer
code wrote waits for newer code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from holdfast import (
    Action,
    Agent,
    Context,
    Event,
    Fleet,
    Live,
    Receipt,
    SchemaError,
    TimedOut,
    on,
)
from holdfast.errors import OutdatedCode
from tests.runtime.semantics import World, engine_url, opened, until

FLEET_NAME = "evolving"


class Mode(Enum):
    IDLE = "idle"
    BUSY = "busy"


@dataclass
class Version:
    """The classes of one release; their wire names are the same in all of them."""

    fleet: Fleet
    robot: type[Agent]
    events: dict[str, Callable[..., Event]]


def first() -> Version:
    class Lift(Event):
        kilos: int

    class Go(Event):
        pass

    class Later(Event):
        kilos: int
        seconds: float

    class Lifted(Action):
        total: int

    class Robot(Agent, unhandled="defer"):
        mode: Mode = Mode.IDLE
        total: int = 0
        nick: str = "none"

        @on(mode=Mode.BUSY)
        def lift(self, event: Lift, ctx: Context) -> None:
            if event.kilos > 50:
                raise ValueError("too heavy")
            self.total += event.kilos
            ctx.emit(Lifted(self.total))

        @on
        def go(self, event: Go, ctx: Context) -> None:
            self.mode = Mode.BUSY

        @on
        def later(self, event: Later, ctx: Context) -> None:
            ctx.after(event.seconds, Lift(event.kilos))

    return Version(
        Fleet(FLEET_NAME, agents=[Robot]), Robot, {"Lift": Lift, "Go": Go, "Later": Later}
    )


def second() -> Version:
    """Lift renames its field, Robot counts in floats, knows its lifts, and can rest."""

    class Lift(Event):
        mass: float
        unit: str = "kg"

        @classmethod
        def upcast(cls, old: dict[str, object]) -> dict[str, object]:
            return {"mass": old["kilos"]} if "kilos" in old else old

    class Go(Event):
        speed: int = 1

    class Later(Event):
        kilos: int
        seconds: float

    class Rest(Event):
        pass

    class Lifted(Action):
        total: float
        unit: str = "kg"

    class Robot(Agent, unhandled="defer"):
        mode: Mode = Mode.IDLE
        total: float = 0.0
        nick: str = "none"
        lifts: list[float] = []
        rests: int = 0

        @on(mode=Mode.BUSY)
        def lift(self, event: Lift, ctx: Context) -> None:
            self.total += event.mass
            self.lifts.append(event.mass)
            ctx.emit(Lifted(self.total))

        @on
        def go(self, event: Go, ctx: Context) -> None:
            self.mode = Mode.BUSY

        @on
        def later(self, event: Later, ctx: Context) -> None:
            ctx.after(event.seconds, Lift(float(event.kilos)))

        @on
        def rest(self, event: Rest, ctx: Context) -> None:
            self.rests += 1

    return Version(
        Fleet(FLEET_NAME, agents=[Robot]),
        Robot,
        {"Lift": Lift, "Go": Go, "Later": Later, "Rest": Rest},
    )


def with_helper() -> Version:
    """The first version and a second class of agents."""
    one = first()
    lift = one.fleet.events["Lift"]

    class Helper(Agent):
        helped: int = 0

        @on(lift)
        def help(self, event: Event, ctx: Context) -> None:
            self.helped += 1

    return Version(Fleet(FLEET_NAME, agents=[one.robot, Helper]), Helper, one.events)


def values(world: World, version: Version, key: str = "r-1") -> dict[str, object]:
    state = world.live.state(version.robot, key)
    assert state is not None
    return {name: getattr(state, name) for name in state.__struct_fields__}


def test_an_old_directory_opens_with_all_that_waits_in_it(tmp_path: Path) -> None:
    """State, held events, timers, dead letters, inbox and actions, all of version one."""
    old, new = first(), second()
    lift, go, later = old.events["Lift"], old.events["Go"], old.events["Later"]
    with opened(old.fleet, "sqlite", tmp_path) as world:
        send = world.live.send
        for key in ("r-1", "r-2"):
            send(old.robot, key, lift(3))
            send(old.robot, key, later(5, 100.0))
        send(old.robot, "r-1", go())
        send(old.robot, "r-1", lift(99))
        world.run()
        send(old.robot, "r-1", lift(4))  # nobody folds this one before the upgrade
        world.restart(new.fleet)
        world.run()
        assert values(world, new) == {
            "mode": Mode.BUSY,
            "total": 7.0,
            "nick": "none",
            "lifts": [4.0],
            "rests": 0,
        }
        world.live.send(new.robot, "r-2", new.events["Go"]())
        world.run()
        assert values(world, new, "r-2")["lifts"] == [3.0], "the held event of version one"
        world.pass_time(100.0)
        assert values(world, new, "r-2")["lifts"] == [3.0, 5.0], "the timer of version one"
        [letter] = world.live.dead_letters()
        assert letter.event == new.events["Lift"](99.0)
        world.live.redrive(letter.id)
        world.run()
        assert values(world, new)["lifts"] == [4.0, 5.0, 99.0]
        totals = [(a.key, getattr(a.action, "total", None)) for a in world.live.actions()]
        assert totals[:2] == [("r-1", 3.0), ("r-1", 7.0)]
        history = [entry.event for entry in world.live.history(new.robot, "r-1")]
        assert history[0] == new.events["Lift"](3.0)


def test_older_code_may_not_fold_what_newer_code_has_folded(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    for version in (first(), second()):
        with version.fleet.open(url) as live:
            live.send(version.robot, "r-1", version.events["Go"]())
            live.settle()
    with pytest.raises(OutdatedCode, match=r"newer classes have folded here.*newer program"):
        first().fleet.open(url)
    with second().fleet.open(url) as live:
        live.settle()


def test_an_older_producer_goes_on_beside_newer_code(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    old, new = first(), second()
    old.fleet.open(url).close()
    with new.fleet.open(url) as live, old.fleet.connect(url) as producer:
        for event in (old.events["Go"](), old.events["Lift"](8)):
            producer.send(old.robot, "r-1", event)
        live.settle()
        assert getattr(live.state(new.robot, "r-1"), "lifts", None) == [8.0]
        assert live.dead_letters() == []


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("kilos: str", r"Lift\.kilos was stored as .*int.* and is .*str.* now.*`upcast`"),
        ("kilos: int; colour: str", r"Lift\.colour is new and has no default.*default.*`upcast`"),
        ("weight: int = 0", r"Lift\.kilos is stored, but .*renamed to weight.*`upcast`"),
        ("", r"Lift\.kilos is stored, but the class has no such field.*`upcast`"),
    ],
)
def test_classes_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, field: str, message: str
) -> None:
    url = engine_url("sqlite", tmp_path)
    old = first()
    with old.fleet.open(url) as live:
        live.send(old.robot, "r-1", old.events["Lift"](3))
        live.settle()
    names: dict[str, object] = dict(globals())
    body = "".join(f"\n    {each.strip()}" for each in field.split(";")) if field else "\n    pass"
    exec(f"class Lift(Event):{body}", names)
    exec(
        "class Robot(Agent):\n"
        "    mode: Mode = Mode.IDLE\n    total: int = 0\n    nick: str = 'none'\n"
        "    @on\n    def lift(self, event: Lift, ctx: Context) -> None: ...",
        names,
    )
    robot = names["Robot"]
    assert isinstance(robot, type)
    with pytest.raises(SchemaError, match=message):
        Fleet(FLEET_NAME, agents=[robot]).open(url)
    with old.fleet.open(url) as live:
        live.send(old.robot, "r-1", old.events["Go"]())
        live.settle()
        assert getattr(live.state(old.robot, "r-1"), "total", None) == 3, "nothing was touched"


def test_a_state_that_would_lose_a_field_is_refused(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    old = first()
    with old.fleet.open(url) as live:
        live.send(old.robot, "r-1", old.events["Go"]())
        live.settle()

    class Go(Event):
        pass

    class Robot(Agent):
        mode: Mode = Mode.IDLE
        total: int = 0

        @on
        def go(self, event: Go, ctx: Context) -> None: ...

    with pytest.raises(SchemaError, match=r"Robot\.nick is stored"):
        Fleet(FLEET_NAME, agents=[Robot]).open(url)


def test_an_agent_class_that_is_gone_is_named(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    old = with_helper()
    with old.fleet.open(url) as live:
        live.send(old.robot, "h-1", old.events["Lift"](3))
        live.settle()
    with pytest.raises(OutdatedCode, match="Helper"):
        first().fleet.open(url)


# ---------------------------------------------------------------- newer producers


def excuse(live: Live, receipt: Receipt) -> str:
    """Why this does not get folded."""
    with pytest.raises(TimedOut) as caught:
        live.wait_for(receipt, timeout=0.05)
    return str(caught.value)


@pytest.mark.parametrize("what", ["a new event", "a new form of an event"])
def test_what_a_newer_producer_sends_waits_for_newer_code(tmp_path: Path, what: str) -> None:
    url = engine_url("sqlite", tmp_path)
    old, new = first(), second()
    newer = new.events["Rest"]() if what == "a new event" else new.events["Lift"](2.5)
    with old.fleet.open(url) as live, new.fleet.connect(url) as producer:
        live.send(old.robot, "r-1", old.events["Go"]())
        live.send(old.robot, "r-1", old.events["Lift"](1))
        producer.send(new.robot, "r-1", newer)
        after = live.send(old.robot, "r-1", old.events["Lift"](2))
        name = "Rest" if what == "a new event" else "Lift"
        until(lambda: f"event {name} is unknown to this program" in excuse(live, after), "an alarm")
        assert getattr(live.state(old.robot, "r-1"), "total", None) == 1, "what came before is in"
        assert live.positions()[0].folded == 2
        assert live.dead_letters() == []
    with new.fleet.open(url) as live:
        live.settle()
        assert live.dead_letters() == []
        state = live.state(new.robot, "r-1")
        expected = [1.0, 2.0] if what == "a new event" else [1.0, 2.5, 2.0]
        assert getattr(state, "total", None) == sum(expected)
        assert getattr(state, "lifts", None) == expected[1:]
        assert getattr(state, "rests", None) == (1 if what == "a new event" else 0)


def test_events_for_a_new_class_of_agents_wait_for_newer_code(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    old, new = first(), with_helper()
    with old.fleet.open(url) as live, new.fleet.connect(url) as producer:
        producer.send(new.robot, "h-1", new.events["Lift"](2))
        after = live.send(old.robot, "r-1", old.events["Go"]())
        until(lambda: "agent Helper is unknown to this program" in excuse(live, after), "an alarm")
    with new.fleet.open(url) as live:
        live.settle()
        assert getattr(live.state(new.robot, "h-1"), "helped", None) == 1
        assert live.dead_letters() == []
