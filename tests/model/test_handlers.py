"""Goal: the handler that an event gets is the one the rules name, for every form of `on`."""

import functools
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import msgspec
import pytest

from holdfast.errors import DefinitionError
from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.event import Action, Event
from holdfast.model.handlers import on


class Mode(Enum):
    A = "a"
    B = "b"
    C = "c"


class Position(Event):
    lat: float = 0.0


class Battery(Event):
    percent: float = 100.0


class Tick(Event):
    pass


def chosen(agent: Agent, event: Event) -> str | None:
    """The name of the handler, found the way a stepper finds it."""
    route = agent.__holdfast__.routes.get(type(event))
    if route is None:
        return None
    function = route.always or route.choose(agent, event)
    return function.__name__ if function is not None else None


class Plain(Agent):
    @on
    def moved(self, event: Position, ctx: Context) -> None: ...

    @on(Battery)
    def drained(self, event: Battery, ctx: Context) -> None: ...


def test_a_single_handler_is_called_without_asking() -> None:
    routes = Plain.__holdfast__.routes
    assert routes[Position].always is Plain.__dict__["moved"]
    assert routes[Battery].always is Plain.__dict__["drained"]
    assert routes[Position].choose(Plain(), Position()) is routes[Position].always
    assert chosen(Plain(), Tick()) is None


def test_the_decorator_leaves_the_method_as_it_is() -> None:
    seen: list[object] = []

    class Direct(Agent):
        @on
        def moved(self, event: Position, ctx: Context) -> None:
            seen.append((self, event, ctx))

    agent, event = Direct(), Position()
    agent.moved(event, None)  # type: ignore[arg-type]
    assert seen == [(agent, event, None)]


class Moding(Agent):
    mode: Mode = Mode.A

    @on
    def anyhow(self, event: Position, ctx: Context) -> None: ...

    @on(mode=Mode.A)
    def in_a(self, event: Position, ctx: Context) -> None: ...

    @on(mode=[Mode.A, Mode.B])
    def drained(self, event: Battery, ctx: Context) -> None: ...


def test_handlers_with_modes_go_first_whatever_stands_first() -> None:
    assert chosen(Moding(), Position()) == "in_a"
    assert chosen(Moding(mode=Mode.B), Position()) == "anyhow"


def test_several_modes_and_modes_nobody_serves() -> None:
    names = [chosen(Moding(mode=mode), Battery()) for mode in Mode]
    assert names == ["drained", "drained", None]


def test_a_lone_handler_with_a_mode_is_not_always_taken() -> None:
    assert Moding.__holdfast__.routes[Battery].always is None


def test_a_decoded_mode_is_the_same_mode() -> None:
    agent = msgspec.msgpack.decode(msgspec.msgpack.encode(Moding(mode=Mode.B)), type=Moding)
    assert chosen(agent, Position()) == "anyhow"


def low(agent: Agent, event: Battery) -> bool:
    return event.percent < 15.0


class Guarded(Agent):
    mode: Mode = Mode.A
    limit: float = 50.0

    @on(when=low)
    def drained(self, event: Battery, ctx: Context) -> None: ...

    @on(when=lambda self, event: event.percent < self.limit)
    def half(self, event: Battery, ctx: Context) -> None: ...

    @on
    def full(self, event: Battery, ctx: Context) -> None: ...

    @on(mode=Mode.B, when=low)
    def drained_in_b(self, event: Battery, ctx: Context) -> None: ...

    @on(when=low)
    def never_if_full(self, event: Tick, ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("agent", "event", "name"),
    [
        (Guarded(), Battery(5.0), "drained"),
        (Guarded(), Battery(30.0), "half"),
        (Guarded(limit=20.0), Battery(30.0), "full"),
        (Guarded(mode=Mode.B), Battery(5.0), "drained_in_b"),
        (Guarded(mode=Mode.B), Battery(30.0), "half"),
    ],
)
def test_the_first_whose_guard_agrees(agent: Guarded, event: Event, name: str) -> None:
    assert chosen(agent, event) == name


def test_an_exception_in_a_guard_is_not_swallowed() -> None:
    with pytest.raises(AttributeError, match="percent"):
        chosen(Guarded(), Tick())


def test_several_events_in_one_handler() -> None:
    class Several(Agent):
        @on
        def union(self, event: Position | Battery, ctx: Context) -> None: ...

    class Listed(Agent):
        @on(Position, Battery)
        def listed(self, event: Event, ctx: Context) -> None: ...

    for cls, name in ((Several, "union"), (Listed, "listed")):
        assert list(cls.__holdfast__.routes) == [Position, Battery]
        assert chosen(cls(), Battery()) == name


def test_modes_of_an_int_enum_with_zero() -> None:
    class Level(IntEnum):
        ZERO = 0
        ONE = 1

    class Leveled(Agent):
        level: Level = Level.ZERO

        @on(mode=Level.ZERO)
        def zero(self, event: Tick, ctx: Context) -> None: ...

        @on(mode=Level.ONE)
        def one(self, event: Tick, ctx: Context) -> None: ...

    assert [chosen(Leveled(level=level), Tick()) for level in Level] == ["zero", "one"]


class Child(Plain):
    extra: int = 0

    @on
    def moved(self, event: Tick, ctx: Context) -> None:  # type: ignore[override]
        ...

    @on(when=low)
    def almost_empty(self, event: Battery, ctx: Context) -> None: ...


def test_handlers_are_inherited_and_replaced_by_name() -> None:
    """The child's handlers go before those it inherits, so that a guard of its own can be added."""
    assert chosen(Child(), Tick()) == "moved"
    assert chosen(Child(), Position()) is None
    assert chosen(Child(), Battery(5.0)) == "almost_empty"
    assert chosen(Child(), Battery(50.0)) == "drained"
    assert chosen(Plain(), Position()) == "moved"


def test_a_decorated_handler_keeps_its_event() -> None:
    def counted(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def inner(*arguments: Any) -> None:
            function(*arguments)

        return inner

    class Counting(Agent):
        @on
        @counted
        def moved(self, event: Position, ctx: Context) -> None: ...

        @counted
        @on
        def drained(self, event: Battery, ctx: Context) -> None: ...

    assert list(Counting.__holdfast__.routes) == [Position, Battery]
    assert chosen(Counting(), Battery()) == "drained"


def test_class_keywords_are_kept_and_inherited() -> None:
    class Cautious(Agent, unhandled="defer", on_error="pause", expire_after=60.0):
        pass

    class Patient(Cautious, expire_after=3600.0):
        pass

    class Order(Action, expires=5, priority="urgent"):
        pass

    class SlowOrder(Order, expires=50.0):
        pass

    definition = Patient.__holdfast__
    assert (definition.unhandled, definition.on_error) == ("defer", "pause")
    assert definition.expire_after == 3600.0
    assert (Plain.__holdfast__.unhandled, Plain.__holdfast__.on_error) == ("ignore", "dead-letter")
    assert (Order.__holdfast__.expires, Order.__holdfast__.priority) == (5.0, "urgent")
    assert (SlowOrder.__holdfast__.expires, SlowOrder.__holdfast__.priority) == (50.0, "urgent")
    assert (Order.__holdfast__.kind, Position.__holdfast__.kind) == ("action", "event")
    assert Position.__holdfast__.priority == "normal"


def test_a_claim_of_idempotence_is_noted_and_changes_nothing_else() -> None:
    class Claiming(Agent):
        battery: float = 0.0

        @on(idempotent=True)
        def drained(self, event: Battery, ctx: Context) -> None:
            self.battery = event.percent

        @on(Position, when=lambda self, event: True, idempotent=True)
        def moved(self, event: Event, ctx: Context) -> None:
            pass

        @on(Position)
        def also(self, event: Event, ctx: Context) -> None:
            pass

    handlers = {each.name: each for each in Claiming.__holdfast__.handlers}
    assert {name: each.idempotent for name, each in handlers.items()} == {
        "drained": True,
        "moved": True,
        "also": False,
    }
    route = Claiming.__holdfast__.routes[Battery]
    assert route.always is handlers["drained"].function


def test_a_claim_that_is_no_bool_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"has idempotent='yes': write True or False"):

        class Claiming(Agent):
            @on(idempotent="yes")  # type: ignore[call-overload, untyped-decorator]
            def drained(self, event: Battery, ctx: Context) -> None:
                pass
