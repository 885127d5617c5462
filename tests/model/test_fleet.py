"""Goal: a fleet finds the classes it needs in the code of its agents, and has each name once."""

import math
import types
from collections.abc import Callable

import pytest

from holdfast.errors import DefinitionError
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed
from holdfast.model.context import Context
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import on


class Ping(Event):
    pass


class Arrived(Event):
    at: float = 0.0


class Direct(Action):
    pass


class InHelper(Action):
    pass


class InMethod(Action):
    pass


class InLambda(Action):
    pass


class InComprehension(Action):
    n: int = 0


class InGuard(Event):
    pass


class InHelperClass(Action):
    pass


class InClosure(Action):
    pass


class InModule(Action):
    pass


class Unrelated(Action):
    pass


catalogue = types.ModuleType("catalogue")
catalogue.InModule = InModule  # type: ignore[attr-defined]
catalogue.Unrelated = Unrelated  # type: ignore[attr-defined]
del InModule


def helper(ctx: Context) -> None:
    second_helper(ctx)
    math.hypot(1.0)


def second_helper(ctx: Context) -> None:
    ctx.emit(InHelper())
    helper(ctx)  # a loop between helpers must not be one for us


class Planner:
    def plan(self) -> Action:
        return InHelperClass()


def is_known(agent: Agent, event: Event) -> bool:
    return not isinstance(event, InGuard)


class Depot(Agent):
    @on
    def arrived(self, event: Arrived, ctx: Context) -> None: ...


class Drone(Agent):
    @on(when=is_known)
    def pinged(self, event: Ping, ctx: Context) -> None:
        ctx.emit(Direct())
        helper(ctx)
        self.more(ctx)
        makers: list[Callable[[], Action]] = [lambda: InLambda()]  # noqa: PLW0108
        for make in makers:
            ctx.emit(make())
        for action in [InComprehension(n) for n in range(3)]:
            ctx.emit(action)
        ctx.emit(Planner().plan())
        ctx.emit(catalogue.InModule())
        ctx.send(Depot, "d", Arrived())

    def more(self, ctx: Context) -> None:
        ctx.emit(InMethod())


def test_classes_are_found_wherever_the_code_mentions_them() -> None:
    fleet = FleetModel("f", agents=[Drone])
    assert set(fleet.events) == {"Ping", "Arrived", "InGuard", "CallFailed"}
    assert set(fleet.actions) == {
        "Direct",
        "InHelper",
        "InMethod",
        "InLambda",
        "InComprehension",
        "InHelperClass",
        "InModule",
    }


def test_classes_in_a_function_are_found_through_the_closure() -> None:
    class Local(Event):
        pass

    def emit_it(ctx: Context) -> None:
        ctx.emit(InClosure())

    class Robot(Agent):
        @on
        def pinged(self, event: Ping, ctx: Context) -> None:
            emit_it(ctx)
            ctx.send(Robot, "r", Local())

    fleet = FleetModel("f", agents=[Robot])
    assert fleet.events == {"Ping": Ping, "Local": Local, "CallFailed": CallFailed}
    assert fleet.actions == {"InClosure": InClosure}


def test_what_is_not_found_can_be_named() -> None:
    fleet = FleetModel("f", agents=[Depot], events=[Ping], actions=[Unrelated])
    assert set(fleet.events) == {"Ping", "Arrived", "CallFailed"}
    assert set(fleet.actions) == {"Unrelated"}


def test_a_class_met_at_run_time_is_adopted_once() -> None:
    fleet = FleetModel("f", agents=[Depot])
    fleet.adopt(Ping)
    fleet.adopt(Ping)
    fleet.adopt(Unrelated)
    assert fleet.events["Ping"] is Ping
    assert fleet.actions == {"Unrelated": Unrelated}
    assert [each.name for each in fleet.schemas()] == [
        "Depot",
        "Arrived",
        "CallFailed",
        "Ping",
        "Unrelated",
    ]


def test_a_handler_of_a_base_event_serves_its_children() -> None:
    class Telemetry(Event):
        lat: float = 0.0

    class Precise(Telemetry):
        error_m: float = 0.0

    class Own(Telemetry):
        pass

    class Robot(Agent):
        @on
        def told(self, event: Telemetry, ctx: Context) -> None: ...

        @on
        def own(self, event: Own, ctx: Context) -> None: ...

    fleet = FleetModel("f", agents=[Robot])
    routes = Robot.__holdfast__.routes
    assert Precise not in routes
    fleet.adopt(Precise)
    assert routes[Precise] is routes[Telemetry]
    assert routes[Own] is not routes[Telemetry]
    fleet.adopt(Ping)
    assert Ping not in routes


def same_name(base: type) -> type:
    return type(base)("Ping", (base,), {"__module__": __name__})


@pytest.mark.parametrize("base", [Event, Action, Agent])
def test_two_classes_of_one_name_are_refused_with_both_places(base: type) -> None:
    other = same_name(base)
    with pytest.raises(DefinitionError) as caught:
        if base is Agent:
            FleetModel("f", agents=[other, Drone])
        else:
            FleetModel("f", agents=[Drone]).adopt(other)
    message = str(caught.value)
    assert "fleet f has two classes named Ping" in message
    assert message.count(f"{__file__}:") == 2
    assert "rename one of them" in message


def test_one_file_loaded_twice_is_told_as_that() -> None:
    one, other = same_name(Event), same_name(Event)
    fleet = FleetModel("f", agents=[Depot], events=[one])
    with pytest.raises(DefinitionError, match="the same class was made twice"):
        fleet.adopt(other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FleetModel("f", agents=[]), r"fleet f has no agents: write `agents=\[Drone\]`"),
        (lambda: FleetModel("", agents=[Depot]), "cannot be the name of a fleet: it is empty"),
        (lambda: FleetModel("a/b", agents=[Depot]), "it contains '/'"),
        (lambda: FleetModel("f", agents=[Depot, Depot]), "fleet f lists Depot twice"),
        (lambda: FleetModel("f", agents=[Ping]), "Ping.* in agents=: give classes derived from Ag"),  # type: ignore[list-item]
        (lambda: FleetModel("f", agents=[Agent]), "in agents="),
        (lambda: FleetModel("f", agents=[Depot()]), "in agents="),  # type: ignore[list-item]
        (lambda: FleetModel("f", agents=[Depot], events=[Direct]), "in events="),  # type: ignore[list-item]
        (lambda: FleetModel("f", agents=[Depot], actions=[Ping]), "in actions="),  # type: ignore[list-item]
    ],
)
def test_a_wrong_fleet_is_refused(make: Callable[[], FleetModel], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        make()
