"""Goal: every mistake in a class is an error at import that names file, line, class and the fix.

Each mistake is a source text, because that is how it reaches us, and because a text that is not a
file shows that messages need no source to be found. Each runs with and without
`from __future__ import annotations`, which turns all annotations into strings.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import NamedTuple

import pytest

from holdfast.errors import DefinitionError

PRELUDE = """\
from dataclasses import dataclass
from enum import Enum
from typing import Any, Annotated, ClassVar
import msgspec
from holdfast.model.agent import Agent
from holdfast.model.event import Action, Event
from holdfast.model.handlers import on
class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"
class Other(Enum):
    A = 1
class Position(Event):
    lat: float
class Battery(Event):
    percent: float
class Land(Action):
    pass
class Base(Agent):
    count: int = 0
    @on
    def moved(self, event: Position, ctx): pass
    def helper(self): pass
"""


class Mistake(NamedTuple):
    name: str
    source: str
    line: int  # within the source, from 1
    says: tuple[str, ...]


MISTAKES = [
    Mistake(
        "state field without default",
        "class Drone(Agent):\n    lat: float = 0.0\n    battery: float\n",
        3,
        ("Drone.battery has no default", "every state field needs one", "`battery: float = 0.0`"),
    ),
    Mistake(
        "state field without default, an enum",
        "class Drone(Agent):\n    mode: Mode\n",
        2,
        ("`mode: Mode = Mode.FLYING`",),
    ),
    Mistake(
        "state field without default, a list",
        "class Drone(Agent):\n    track: list[float]\n",
        2,
        ("`track: list[float] = []`",),
    ),
    Mistake(
        "state field with a field() that gives no default",
        "class Drone(Agent):\n    battery: float = msgspec.field()\n",
        2,
        ("Drone.battery has no default",),
    ),
    Mistake(
        "required field after one with default",
        "class Wind(Event):\n    speed: float = 0.0\n    angle: float\n",
        3,
        ("Wind.angle has no default", "put angle first"),
    ),
    Mistake(
        "required field after one with default in the base",
        "class A(Event):\n    x: int = 0\nclass B(A):\n    y: int\n",
        4,
        ("B.y has no default, but x above it has one",),
    ),
    Mistake(
        "unserialisable type",
        "class Wind(Event):\n    speed: complex\n",
        2,
        ("Wind.speed", "complex cannot be stored", "use bool, int"),
    ),
    Mistake("any type", "class Wind(Event):\n    it: Any\n", 2, ("Wind.it", "cannot be stored")),
    Mistake("object", "class Wind(Event):\n    it: object\n", 2, ("object cannot be stored",)),
    Mistake("bare list", "class Wind(Event):\n    it: list\n", 2, ("cannot be stored",)),
    Mistake(
        "dict with keys that are no keys",
        "class Wind(Event):\n    it: dict[float, int]\n",
        2,
        ("cannot be the key of a dict", "str, int"),
    ),
    Mistake(
        "set of lists",
        "class Wind(Event):\n    it: set[list[int]]\n",
        2,
        ("a set cannot hold",),
    ),
    Mistake(
        "union that cannot be told apart",
        "class Wind(Event):\n    it: bytes | Mode\n",
        2,
        ("Wind.it", "Type unions may not contain more than one str-like type"),
    ),
    Mistake(
        "unknown name",
        "class Wind(Event):\n    a: int\n    b: 'Nope'\n",
        3,
        ("Wind.b", "`Nope`", "'Nope' is not known here", "import it, or define it above"),
    ),
    Mistake(
        "unknown name inside a list",
        "class Wind(Event):\n    b: list['Nope']\n",
        2,
        ("Wind.b", "'Nope' is not known here"),
    ),
    Mistake(
        "its own name",
        "class Wind(Event):\n    before: 'Wind | None'\n",
        2,
        ("'Wind' is not known here",),
    ),
    Mistake(
        "not a type", "class Wind(Event):\n    a: '3 + 4'\n", 2, ("Wind.a", "7 cannot be stored")
    ),
    Mistake(
        "syntax error in an annotation",
        "class Wind(Event):\n    a: 'int int'\n",
        2,
        ("Wind.a", "not a type"),
    ),
    Mistake(
        "field and method, method last",
        "class Drone(Agent):\n    land: bool = False\n    def land(self): pass\n",
        2,
        ("Drone.land is both a field and a method", "rename"),
    ),
    Mistake(
        "field and method, field last",
        "class Drone(Agent):\n    def land(self): pass\n    land: bool = False\n",
        3,
        ("Drone.land is both a field and a method",),
    ),
    Mistake(
        "field and property",
        "class Wind(Event):\n    @property\n    def speed(self): return 1\n    speed: int\n",
        4,
        ("Wind.speed is both a field and a method",),
    ),
    Mistake(
        "field over an inherited method",
        "class Drone(Base):\n    helper: int = 0\n",
        2,
        ("Drone.helper is both",),
    ),
    Mistake(
        "method over an inherited field",
        "class Drone(Base):\n    def count(self): pass\n",
        2,
        ("Drone.count is both",),
    ),
    Mistake("private field", "class Wind(Event):\n    _speed: int\n", 2, ("underscore", "'speed'")),
    Mistake(
        "field without a type",
        "class Drone(Agent):\n    battery = 100.0\n",
        2,
        ("Drone.battery has no type", "`battery: float = 100.0`"),
    ),
    Mistake(
        "filled list as default",
        "class Drone(Agent):\n    track: list[int] = [1]\n",
        2,
        ("Drone.track has the default [1]", "share", "default_factory"),
    ),
    Mistake(
        "mutable struct as default",
        "class Home(msgspec.Struct):\n"
        "    x: int = 0\n"
        "class Drone(Agent):\n"
        "    home: Home = Home()\n",
        4,
        ("Drone.home", "share"),
    ),
    Mistake(
        "mutable dataclass as default",
        "@dataclass\nclass Home:\n    x: int = 0\nclass Drone(Agent):\n    home: Home = Home()\n",
        5,
        ("Drone.home", "share"),
    ),
    Mistake(
        "default of another type",
        "class Drone(Agent):\n    battery: float = None\n",
        2,
        ("Drone.battery is a float, which its default None is not",),
    ),
    Mistake(
        "default outside its limits",
        "class Drone(Agent):\n    n: Annotated[int, msgspec.Meta(ge=1)] = 0\n",
        2,
        ("Drone.n", "default 0"),
    ),
    Mistake(
        "renamed field",
        "class Wind(Event):\n    speed: int = msgspec.field(name='s')\n",
        2,
        ("Wind.speed is renamed to 's'",),
    ),
    Mistake(
        "own constructor",
        "class Wind(Event):\n    x: int\n    def __init__(self): pass\n",
        3,
        ("Wind.__init__ would never be called",),
    ),
    Mistake(
        "upcast that is no classmethod",
        "class Wind(Event):\n    x: int\n    def upcast(self, old): return old\n",
        3,
        ("Wind.upcast has to be a classmethod", "@classmethod"),
    ),
    Mistake(
        "expires zero",
        "class Stop(Action, expires=0):\n    pass\n",
        1,
        ("Stop has expires=0", "above 0"),
    ),
    Mistake(
        "ground stop",
        "class Stop(Action, during_ground_stop=1):\n    pass\n",
        1,
        ("Stop has during_ground_stop=1", "give True"),
    ),
    Mistake("expires text", "class Stop(Action, expires='5'):\n    pass\n", 1, ("expires='5'",)),
    Mistake("expires true", "class Stop(Action, expires=True):\n    pass\n", 1, ("expires=True",)),
    Mistake(
        "expires without end",
        "class Stop(Action, expires=float('inf')):\n    pass\n",
        1,
        ("expires=inf",),
    ),
    Mistake(
        "unknown priority",
        "class Stop(Action, priority='high'):\n    pass\n",
        1,
        ("Stop has priority='high'", "'urgent', 'normal', 'low'"),
    ),
    Mistake(
        "unknown unhandled",
        "class Drone(Agent, unhandled='drop'):\n    pass\n",
        1,
        ("unhandled='drop'", "'ignore', 'dead-letter', 'defer'"),
    ),
    Mistake(
        "unknown on_error",
        "class Drone(Agent, on_error='retry'):\n    pass\n",
        1,
        ("on_error='retry'", "'dead-letter', 'pause'"),
    ),
    Mistake(
        "negative expiry",
        "class Drone(Agent, expire_after=-1):\n    pass\n",
        1,
        ("expire_after=-1",),
    ),
    Mistake(
        "unknown keyword",
        "class Drone(Agent, unhandeld='defer'):\n    pass\n",
        1,
        ("'unhandeld'", "unhandled, on_error, expire_after, compiled"),
    ),
    Mistake(
        "keyword on an event",
        "class Wind(Event, frozen=False):\n    pass\n",
        1,
        ("'frozen'", "one of: priority"),
    ),
]

HANDLER_MISTAKES = [
    Mistake(
        "two handlers for one event",
        "class Drone(Agent):\n"
        "    @on\n"
        "    def one(self, event: Battery, ctx): pass\n"
        "    @on\n"
        "    def two(self, event: Battery, ctx): pass\n",
        5,
        ("two handlers for Battery", "Drone.one (line", "Drone.two (line", "`when=`"),
    ),
    Mistake(
        "two handlers for one event and mode",
        "class Drone(Agent):\n"
        "    mode: Mode = Mode.FLYING\n"
        "    @on(mode=[Mode.FLYING, Mode.LANDING])\n"
        "    def one(self, event: Battery, ctx): pass\n"
        "    @on(mode=Mode.LANDING)\n"
        "    def two(self, event: Position | Battery, ctx): pass\n",
        6,
        ("two handlers for Battery in mode LANDING",),
    ),
    Mistake(
        "a guard below a handler that takes all",
        "class Drone(Agent):\n"
        "    @on\n"
        "    def one(self, event: Battery, ctx): pass\n"
        "    @on(when=lambda self, event: True)\n"
        "    def two(self, event: Battery, ctx): pass\n",
        5,
        ("Drone.two (line", "would never run", "Move the one with `when=` up"),
    ),
    Mistake(
        "two handlers of one name",
        "class Drone(Agent):\n"
        "    @on\n"
        "    def moved(self, event: Battery, ctx): pass\n"
        "    @on\n"
        "    def moved(self, event: Position, ctx): pass\n",
        5,
        ("Drone.moved is defined twice", "rename"),
    ),
    Mistake(
        "no annotation",
        "class Drone(Agent):\n    @on\n    def moved(self, event, ctx): pass\n",
        3,
        ("Drone.moved does not say which event", "`event: Position`", "`@on(Position)`"),
    ),
    Mistake(
        "unknown annotation",
        "class Drone(Agent):\n    @on\n    def moved(self, event: 'Nope', ctx): pass\n",
        3,
        ("Drone.moved, parameter 'event'", "'Nope' is not known here"),
    ),
    Mistake(
        "annotation that is no event",
        "class Drone(Agent):\n    @on\n    def moved(self, event: int, ctx): pass\n",
        3,
        ("Drone.moved handles int, which is not an event",),
    ),
    Mistake(
        "an action",
        "class Drone(Agent):\n    @on\n    def moved(self, event: Land, ctx): pass\n",
        3,
        ("Drone.moved handles Land, which is not an event",),
    ),
    Mistake(
        "Event itself",
        "class Drone(Agent):\n    @on(Event)\n    def moved(self, event, ctx): pass\n",
        3,
        ("Drone.moved handles Event",),
    ),
    Mistake(
        "no class in on",
        "class Drone(Agent):\n    @on('Position')\n    def moved(self, event, ctx): pass\n",
        3,
        ("Drone.moved handles 'Position', which is not an event",),
    ),
    Mistake(
        "no context",
        "class Drone(Agent):\n    @on\n    def moved(self, event: Position): pass\n",
        3,
        ("Drone.moved takes (self, event: ", "exactly (self, event, ctx)"),
    ),
    Mistake(
        "too many parameters",
        "class Drone(Agent):\n    @on\n    def moved(self, event: Position, ctx, more=1): pass\n",
        3,
        ("more=1", "exactly (self, event, ctx)"),
    ),
    Mistake(
        "star arguments",
        "class Drone(Agent):\n    @on(Position)\n    def moved(self, *event, ctx): pass\n",
        3,
        ("*event", "exactly (self, event, ctx)"),
    ),
    Mistake(
        "async",
        "class Drone(Agent):\n    @on\n    async def moved(self, event: Position, ctx): pass\n",
        3,
        ("Drone.moved is async", "Write `def`"),
    ),
    Mistake(
        "generator",
        "class Drone(Agent):\n    @on\n    def moved(self, event: Position, ctx): yield 1\n",
        3,
        ("Drone.moved has a `yield`",),
    ),
    Mistake(
        "static method",
        "class Drone(Agent):\n"
        "    @staticmethod\n"
        "    @on(Position)\n"
        "    def moved(self, event, ctx): pass\n",
        4,
        ("Drone.moved has to be a plain method",),
    ),
    Mistake(
        "on twice",
        "class Drone(Agent):\n"
        "    @on(Position)\n"
        "    @on(Battery)\n"
        "    def moved(self, event, ctx): pass\n",
        4,
        ("Drone.moved has `@on` twice", "`@on(A, B)`"),
    ),
    Mistake(
        "mode that is no enum member",
        "class Drone(Agent):\n"
        "    mode: Mode = Mode.FLYING\n"
        "    @on(mode='flying')\n"
        "    def moved(self, event: Position, ctx): pass\n",
        4,
        ("Drone.moved has mode='flying'", "`mode=Mode.FLYING`"),
    ),
    Mistake(
        "no modes",
        "class Drone(Agent):\n    @on(mode=[])\n    def moved(self, event: Position, ctx): pass\n",
        3,
        ("no modes in mode=",),
    ),
    Mistake(
        "mode without a field",
        "class Drone(Agent):\n"
        "    @on(mode=Mode.FLYING)\n"
        "    def moved(self, event: Position, ctx): pass\n",
        3,
        ("Drone has no field of that type", "`mode: Mode = Mode.FLYING`"),
    ),
    Mistake(
        "mode with two fields",
        "class Drone(Agent):\n"
        "    a: Mode = Mode.FLYING\n"
        "    b: Mode = Mode.FLYING\n"
        "    @on(mode=Mode.FLYING)\n"
        "    def moved(self, event: Position, ctx): pass\n",
        5,
        ("the fields a and b are both of that type",),
    ),
    Mistake(
        "modes of two enums",
        "class Drone(Agent):\n"
        "    a: Mode = Mode.FLYING\n"
        "    b: Other = Other.A\n"
        "    @on(mode=Mode.FLYING)\n"
        "    def one(self, event: Position, ctx): pass\n"
        "    @on(mode=Other.A)\n"
        "    def two(self, event: Battery, ctx): pass\n",
        7,
        ("Drone.two has the mode Other.A", "one kind of mode"),
    ),
    Mistake(
        "guard that is no function",
        "class Drone(Agent):\n"
        "    @on(when=True)\n"
        "    def moved(self, event: Position, ctx): pass\n",
        3,
        ("Drone.moved has when=True", "a function of state and event"),
    ),
    Mistake(
        "guard of one parameter",
        "class Drone(Agent):\n"
        "    @on(when=lambda self: True)\n"
        "    def moved(self, event: Position, ctx): pass\n",
        3,
        ("guard that does not take (state, event)",),
    ),
    Mistake(
        "handler replaced by a plain method",
        "class Drone(Base):\n    def moved(self, event, ctx): pass\n",
        2,
        ("Drone.moved replaces a handler", "put `@on`", "`moved = None`"),
    ),
    Mistake(
        "inherited handler for the same event",
        "class Drone(Base):\n    @on\n    def flew(self, event: Position, ctx): pass\n",
        3,
        ("two handlers for Position", "Drone.flew (line", "Base.moved (line"),
    ),
    Mistake(
        "handler in a class that is no agent",
        "class Mixin:\n"
        "    @on(Position)\n"
        "    def moved(self, event, ctx): pass\n"
        "class Drone(Mixin, Agent):\n"
        "    pass\n",
        4,
        ("Mixin.moved is a handler, but Mixin is not an Agent",),
    ),
    Mistake(
        "handler in an event",
        "class Wind(Event):\n    @on(Position)\n    def moved(self, event, ctx): pass\n",
        3,
        ("Wind.moved is marked with `on`", "move it to an Agent"),
    ),
]


@pytest.mark.parametrize("future", [False, True], ids=["plain", "future"])
@pytest.mark.parametrize("mistake", MISTAKES + HANDLER_MISTAKES, ids=lambda each: each.name)
def test_a_mistake_is_named_with_its_place_and_the_way_out(mistake: Mistake, future: bool) -> None:
    first = "from __future__ import annotations\n" if future else "\n"
    before = first + PRELUDE
    line = before.count("\n") + mistake.line
    with pytest.raises(DefinitionError) as caught:
        run(before + mistake.source)
    message = str(caught.value)
    assert message.startswith(f"fleet.py:{line}: "), message
    for part in mistake.says:
        assert part in message
    assert "\n" not in message


def run(source: str) -> dict[str, object]:
    module = ModuleType("fleet")
    sys.modules["fleet"] = module  # dataclasses look there for string annotations
    try:
        exec(compile(source, "fleet.py", "exec", dont_inherit=True), module.__dict__)
    finally:
        del sys.modules["fleet"]
    return vars(module)


def test_a_definition_error_is_a_type_error_too() -> None:
    with pytest.raises(TypeError, match=re.escape("Wind.it")):
        run(PRELUDE + "class Wind(Event):\n    it: complex\n")


def test_an_error_inside_a_function_shows_the_line_in_this_file() -> None:
    from holdfast.model.agent import Agent

    with pytest.raises(DefinitionError) as caught:

        class Drone(Agent):
            lat: float = 0.0
            battery: float  # type: ignore[misc]

    line = test_an_error_inside_a_function_shows_the_line_in_this_file.__code__.co_firstlineno + 7
    assert str(caught.value).startswith(f"{__file__}:{line}: Drone.battery has no default")


def test_what_is_allowed_is_allowed() -> None:
    """The neighbours of the mistakes above, which must pass."""
    names = run(
        PRELUDE
        + "class Home(msgspec.Struct, frozen=True):\n    x: int = 0\n"
        + "class Drone(Base, unhandled='defer', on_error='pause', expire_after=60):\n"
        + "    LIMIT = 15.0\n"
        + "    bound: ClassVar[float] = 1.0\n"
        + "    home: Home = Home()\n"
        + "    track: list[int] = []\n"
        + "    seen: set[str] = set()\n"
        + "    made: list[int] = msgspec.field(default_factory=lambda: [1])\n"
        + "    moved = None\n"
        + "    @on(Position, when=lambda self, event: event.lat > self.bound)\n"
        + "    def far(self, event, ctx): pass\n"
        + "    @on(Position)\n"
        + "    def near(self, event, ctx): pass\n"
        + "    @property\n"
        + "    def high(self): return True\n"
        + "    @high.setter\n"
        + "    def high(self, value): pass\n"
        + "made = Drone()\n"
    )
    assert [*names["Drone"].__struct_fields__] == ["count", "home", "track", "seen", "made"]  # type: ignore[attr-defined]
    assert [each.name for each in names["Drone"].__holdfast__.handlers] == ["far", "near"]  # type: ignore[attr-defined]
    assert names["made"].made == [1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("base", ["Event", "Action", "Agent"])
def test_a_field_may_have_the_name_of_something_of_ours(base: str) -> None:
    names = run(PRELUDE + f"class Own({base}):\n    kind: str = ''\n")
    schema = names["Own"].__holdfast__.schema  # type: ignore[attr-defined]
    assert schema.kind == {"Agent": "state"}.get(base, base.lower())
    assert schema.fingerprint
