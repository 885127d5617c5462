"""Goal: what cannot be compiled is an error while the class is made, in one line that names file,
line and the way out."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from holdfast import DefinitionError, Fleet

PRELUDE = """\
import functools, math, msgspec, numpy, statistics, time
from enum import Enum, IntFlag
from typing import Annotated
from holdfast import Action, Agent, Context, Event, on
from holdfast import Length, Width
class Mode(Enum):
    A = "a"
    B = "b"
class Tick(Event):
    n: int = 0
    x: float = 0.0
    s: Annotated[str, Width(8)] = ""
    xs: Annotated[list[float], Length(4)] = []
class Wide(Action):
    text: str = ""
class Done(Action):
    n: int = 0
class Unfit(Event):
    at: float = 0
def again(n: int) -> int:
    return again(n - 1)
def maybe(n: int) -> int:
    if n > 1:
        return 1
def spread(*numbers: int) -> int:
    return 1
@functools.wraps(maybe)
def wrapped(n: int) -> int:
    return 2
TABLE = {1: 2}
class Bits(IntFlag):
    A = 1
    B = 2
BOTH = Bits.A | Bits.B
"""
AGENT = """\
class Drone(Agent, compiled=True):
    n: int = 0
    x: float = 0.0
    flag: bool = False
    s: Annotated[str, Width(8)] = ""
    mode: Mode = Mode.A
    xs: Annotated[list[float], Length(4)] = []
    ys: Annotated[list[float], Length(4)] = []
    def reset(self) -> int:
        self.xs = []
        return 0
    def push(self) -> int:
        self.xs.append(1.0)
        return 0
    @property
    def total(self) -> float:
        return self.x
    @on
    def tick(self, event: Tick, ctx: Context) -> None:
"""


class Refusal(NamedTuple):
    code: str  # of the handler; the last line is the one that is wrong
    says: str
    line: int = -1  # counted from the end of the code, if it is another


REFUSALS = [
    # Statements.
    Refusal("try:\n    self.n = 1\nexcept ValueError:\n    pass", "`try`: check before", -4),
    Refusal("with open('x'):\n    pass", "`with`: handlers do no I/O", -2),
    Refusal("match self.n:\n    case 1:\n        pass", "`match`: write if and elif", -3),
    Refusal("global TABLE", "`global`: keep it in a field"),
    # Functions that have no compiled form.
    Refusal("self.x = time.time()", "use ctx.now"),
    Refusal("print(self.n)", "handlers do no I/O; use ctx.log"),
    Refusal("self.x = numpy.sqrt(self.x)", "use math, or a loop"),
    Refusal("self.x = math.fsum(self.xs)", "use math, or a loop"),
    Refusal("self.s = str(self.x)", "let the event bring the value as it is needed"),
    Refusal("del self.xs[0]", "`del`: use pop or clear"),
    Refusal("import os", "`import` inside a function: move it to the top"),
    Refusal("def inner(): pass", "`def` inside a function: move it to the module"),
    Refusal("class Inner: pass", "`class` inside a function: move it to the module"),
    Refusal("for a, b in ((1, 2),):\n    pass", "a loop over several names: use range", -2),
    Refusal("for c in self.s:\n    pass", "a loop over str cannot be compiled", -2),
    Refusal("for x in list(self.xs):\n    pass", "loop over the list itself", -2),
    Refusal("for k in range(1.5):\n    pass", "range of float cannot be compiled: use int", -2),
    Refusal(
        "for k in range(3):\n    while self.flag:\n        pass\n    else:\n        break",
        "`break` and `continue` in the `else` of a loop: use a variable",
        -4,
    ),
    # Expressions.
    Refusal("self.n = len([x for x in self.xs])", "a comprehension: write a loop"),
    Refusal("self.n = sum(k for k in range(3))", "a generator: write a loop"),
    Refusal("self.n = (lambda: 1)()", "a lambda: write it as a function"),
    Refusal("self.n = {1: 2}[1]", "a dict: use an if"),
    Refusal("self.n = TABLE[1]", "dict cannot be used as a value"),
    Refusal("self.n = (1, 2)[0]", "a tuple: use a name for each"),
    Refusal("if (k := self.n) > 1:\n    pass", "`:=`: use a line of its own", -2),
    Refusal("self.s = f'{self.x}'", "only plain str and int inside an f-string"),
    Refusal("self.s = f'{self.n:03d}'", "not a format: send the number itself"),
    Refusal("self.s = self.s * 2", "str * int cannot be compiled: convert one"),
    Refusal("self.n = None", "None cannot be compiled: use numbers, str or an Enum"),
    Refusal("self.n = 2 ** 64 + 18446744073709551616", "does not fit into 64 bits: use a float"),
    Refusal("self.n = self.x & 1", "& of a float cannot be compiled: use int"),
    Refusal("self.flag = self.n is 1", "`is` compiles for members of an Enum only: use =="),
    Refusal("self.flag = self.mode == 'a'", "Mode == str cannot be compiled: compare what is of"),
    Refusal("if self.mode:\n    pass", "the truth of Mode cannot be compiled: compare it", -2),
    Refusal("self.n = self.n or self.x", "one side is int, the other float: make them the same"),
    Refusal("self.x = 1.0 if self.flag else self.n", "one side is float, the other int"),
    Refusal("self.x = self.xs[:2][0]", "a slice of a list cannot be compiled"),
    Refusal("self.s = self.s[::2]", "a slice with a step cannot be compiled"),
    Refusal("self.x = self.xs[self.x]", "an index that is float cannot be compiled"),
    Refusal("self.flag = self.n in (1, 2) == True", "a comparison behind `in` cannot be compiled"),
    # Names and kinds.
    Refusal("self.n = k\nk = 1", "k may have no value here", -2),
    Refusal("if self.flag:\n    k = 1\nself.n = k", "k may have no value here: give it one above"),
    Refusal("k = 1\nk = 1.5", "k is int elsewhere and float here: use two names"),
    Refusal("event = 1", "event cannot be given another value: use another name"),
    Refusal("event.n = 1", "the event itself cannot be changed"),
    Refusal("self.m = 1", "m is no field of Drone: add it"),
    Refusal("self.n = event.m", "Tick has no m: add it or rename this"),
    Refusal("self.x = self.total", "total is a property: write it as a plain method"),
    Refusal("track = self.xs", "a list in a variable cannot be compiled: use the field"),
    # What fits into which field.
    Refusal("self.x = 5", "an int is given where x is a float: write 5.0"),
    Refusal("self.x = self.n", "an int is given where x is a float: write float(…)"),
    Refusal("self.xs.append(1)", "an int is given where it is a float: write 1.0"),
    Refusal("self.n = self.x", "float is given where n is int: convert it"),
    Refusal("self.n = self.flag", "bool is given where n is int: convert it"),
    Refusal("self.s = 5", "int is given where s is str: convert it"),
    Refusal("self.xs = self.ys", "one list in two fields: write list(…) for a copy"),
    Refusal("self.xs = self.ys = []", "a list made here: only [a, b] or list"),
    Refusal("self.xs = [1.0, 2.0, 3.0, 4.0, 5.0]", "this list is longer than the 4 that fit"),
    Refusal("self.xs = event.xs\nself.xs.append(1.0)", "write list(…)", -2),
    Refusal(
        "self.xs = event.xs\nself.ys = event.xs",
        "event.xs becomes self.xs and self.ys: write list(event.xs)",
    ),
    Refusal("self.flag = BOTH == Bits.A", "is no member of Bits: use an int"),
    Refusal("event.xs.append(1.0)", "only lists of the agent can be changed"),
    Refusal("for x in self.xs:\n    self.xs = []", "becomes another list inside a loop over it"),
    Refusal("for x in self.xs:\n    self.reset()", "reset changes self.xs while this line uses it"),
    Refusal("self.x = self.xs[self.reset()]", "call it on a line of its own"),
    Refusal("ctx.emit(Done(len(list(self.xs)) + self.push()))", "push changes self.xs"),
    # Calls.
    Refusal("self.n = again(3)", "again calls itself: write a loop", 21),
    Refusal("self.n = maybe(3)", "maybe may end without a value: end it with a return", 22),
    Refusal("self.n = spread(1, 2)", "only plain parameters can be compiled"),
    Refusal("self.n = wrapped(1)", "has a decorator around it: take it off", 27),
    Refusal("self.n = maybe(m=3)", "maybe takes n"),
    Refusal("self.x = sum(self.xs)", "sum of floats differs between versions of Python"),
    Refusal("self.x = min(self.x, self.n)", "min and max take numbers of one type"),
    Refusal("self.x = math.gamma(self.x)", "gamma(float) cannot be compiled"),
    Refusal("self.n = int(self.s)", "int(str) cannot be compiled"),
    Refusal("self.s = self.s.upper()", "str.upper cannot be compiled: use ==, +"),
    Refusal("self.xs.sort()", "list.sort cannot be compiled: use append, pop or clear"),
    Refusal("self.flag = isinstance(self.n, int)", "isinstance compiles for the event only"),
    Refusal("self.x = max(self.xs, default=0.0)", "arguments by name cannot be compiled here"),
    # The context.
    Refusal("self.s = ctx.sender.key", "ctx.sender cannot be compiled: let the event carry"),
    Refusal("ctx.emit(event)", "make the action inside the call"),
    Refusal("ctx.emit(Tick())", "Tick is no action class"),
    Refusal("ctx.emit(Done(m=1))", "Done has the fields n"),
    Refusal("ctx.send(Tick, 'k', Tick())", "Tick is no agent: name its class"),
    Refusal("ctx.send(Drone, 5, Tick())", "a key that is int cannot be compiled: make it a str"),
    Refusal("ctx.after(5, Tick(), name=self.s)", "the name of a timer has to be a constant"),
    Refusal("ctx.after(5, Tick(), name='~1')", "begins with no ~"),
    Refusal("self.x = ctx.random.choice(self.xs)", "use random(), uniform(a, b)"),
    Refusal("ctx.emit(Wide())", "Wide.text has no fixed width: write Annotated[str, Width", 14),
    Refusal("ctx.after(1, Unfit())", "Unfit.at is a float with the default 0: write 0.0", 18),
]


def load(source: str, folder: Path) -> ModuleType:
    """A module from a file: without its source nothing can be compiled."""
    file = folder / "drones.py"
    file.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location("drones", file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drones"] = module
    try:
        # Not through the loader, which would take a source of the same length, written within the
        # same second, for the one before, which it has compiled.
        exec(compile(source, file, "exec"), module.__dict__)
    finally:
        del sys.modules["drones"]
    return module


def refusal_of(source: str, folder: Path) -> str:
    with pytest.raises(DefinitionError) as caught:
        load(source, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.code.splitlines()[-1].strip())
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_what_cannot_be_compiled_says_where_and_what_to_do(
    refusal: Refusal, tmp_path: Path
) -> None:
    body = "".join(f"        {line}\n" for line in refusal.code.splitlines())
    source = PRELUDE + AGENT + body
    message = refusal_of(source, tmp_path)
    line = refusal.line if refusal.line > 0 else source.count("\n") + 1 + refusal.line
    assert message.startswith(f"{tmp_path / 'drones.py'}:{line}: "), message
    assert refusal.says in message


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("name: str = ''", "Drone.name has no fixed width: write Annotated[str, Width(16)]"),
        ("names: list[str] = []", "Drone.names has no fixed width: use bool, int, float"),
        ("track: list[float] = []", "Drone.track has no fixed width: write Annotated[list[float]"),
        ("best: int | None = None", "Drone.best has no fixed width"),
        ("table: dict[str, int] = {}", "Drone.table has no fixed width"),
        ("big: Annotated[str, Width(5000)] = ''", "a compiled field holds 1 to 1024"),
    ],
)
def test_a_field_without_a_fixed_width_is_named_with_its_line(
    field: str, says: str, tmp_path: Path
) -> None:
    source = PRELUDE + f"class Drone(Agent, compiled=True):\n    n: int = 0\n    {field}\n"
    message = refusal_of(source, tmp_path)
    assert message.startswith(f"{tmp_path / 'drones.py'}:{source.count(chr(10))}: ")
    assert says in message


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("x: float = msgspec.field(default_factory=lambda: 0)", "with the default 0: write 0.0"),
        (
            "name: Annotated[str, Width(2)] = msgspec.field(default_factory=lambda: 'abc')",
            "Drone.name has a default of 3, 2 is the most: shorten it",
        ),
        (
            "path: Annotated[list[int], Length(1)] = msgspec.field(default_factory=lambda: [1, 2])",
            "Drone.path has a default of 2, 1 is the most: shorten it",
        ),
    ],
)
def test_what_a_factory_makes_has_to_fit(field: str, says: str, tmp_path: Path) -> None:
    source = PRELUDE + f"class Drone(Agent, compiled=True):\n    {field}\n"
    assert says in refusal_of(source, tmp_path)


def test_guards_only_look(tmp_path: Path) -> None:
    source = PRELUDE + AGENT.replace(
        "    @on\n", "    @on(when=lambda self, event: self.push() > 0)\n"
    )
    assert "a guard may only look" in refusal_of(source + "        pass\n", tmp_path)


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ("lambda self, event, least=3: event.n > least", "has 3 parameters and gets 2: write a"),
        ("functools.partial(max, 1)", "partial is not a plain function: write it as one"),
    ],
)
def test_guards_are_plain_functions(guard: str, says: str, tmp_path: Path) -> None:
    source = PRELUDE + AGENT.replace("    @on\n", f"    @on(when={guard})\n") + "        pass\n"
    message = refusal_of(source, tmp_path)
    assert message.startswith(f"{tmp_path / 'drones.py'}:")
    assert says in message


@pytest.mark.parametrize("branches", [70, 400])
def test_too_many_branches_are_told(branches: int, tmp_path: Path) -> None:
    """Each elif is inside the one before, in Python's own tree too."""
    lines = "".join(
        f"        elif event.n == {n}:\n            self.n = {n}\n" for n in range(branches)
    )
    source = PRELUDE + AGENT + "        if event.n < 0:\n            pass\n" + lines
    assert "move some into a function of their own" in refusal_of(source, tmp_path)


def test_code_that_is_no_file_cannot_be_compiled() -> None:
    with pytest.raises(DefinitionError, match="the source of tick is not at hand: put it into"):
        exec(compile(PRELUDE + AGENT + "        pass\n", "<typed>", "exec"), {"__name__": "typed"})


def test_what_is_defined_below_the_class_is_found_when_the_fleet_is_made(tmp_path: Path) -> None:
    source = PRELUDE + AGENT + "        self.x = later(self.x)\n"
    module = load(source + "def later(x):\n    return x + SHIFT\nSHIFT = 1.5\n", tmp_path)
    Fleet("drones", agents=[module.Drone])


def test_a_mistake_below_the_class_is_told_when_the_fleet_is_made(tmp_path: Path) -> None:
    source = PRELUDE + AGENT + "        self.x = later(self.x)\n"
    module = load(source, tmp_path)
    with pytest.raises(DefinitionError, match="later is not known: define or import it"):
        Fleet("drones", agents=[module.Drone])


def test_compiled_is_inherited_and_no_schema_knows_it(tmp_path: Path) -> None:
    module = load(
        PRELUDE + AGENT + "        self.n += 1\n"
        "class Plain(Agent):\n    n: int = 0\n"
        "    @on\n    def tick(self, event: Tick, ctx: Context) -> None:\n        self.n += 1\n"
        "class Fast(Plain, compiled=True):\n    pass\n"
        "class Slow(Fast, compiled=False):\n    pass\n"
        "class Faster(Fast):\n    pass\n",
        tmp_path,
    )
    compiled = {
        name: getattr(module, name).__holdfast__.compiled
        for name in ("Drone", "Plain", "Fast", "Slow", "Faster")
    }
    assert compiled == {"Drone": True, "Plain": False, "Fast": True, "Slow": False, "Faster": True}
    options = [getattr(module, name).__holdfast__.schema.options for name in ("Fast", "Slow")]
    assert options[0] == options[1]
    assert "compiled" not in options[0]


def test_a_class_handles_as_many_classes_of_events_as_a_code_tells_apart(tmp_path: Path) -> None:
    names = [f"E{n}" for n in range(256)]
    events = "".join(f"class {name}(Event):\n    pass\n" for name in names)
    union = " | ".join(names)
    handler = (
        f"    @on\n    def any(self, event: {union}, ctx: Context) -> None:\n        self.n += 1\n"
    )
    source = f"{PRELUDE}{events}class Drone(Agent, compiled=True):\n    n: int = 0\n{handler}"
    assert "256 classes of events, 255 is the most: merge some" in refusal_of(source, tmp_path)
