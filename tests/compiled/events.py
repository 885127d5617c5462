"""What the agents of `agents` are told, and what they do: enums, events and actions."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Annotated

from holdfast import Action, Event
from holdfast.model.marks import Length, Width


class Op(Enum):
    """Not in the order of their values."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR = "//"
    REST = "%"
    POWER = "**"
    LEFT = "<<"
    RIGHT = ">>"
    BITS = "&|^"
    NEGATE = "neg"
    CONVERT = "int"
    ROUND = "round"
    ROUND_TO = "round2"
    COMPARE = "<"
    EXTREME = "min"
    LOGIC = "and"
    LOOP = "for"
    ROOT = "sqrt"
    WAVES = "sin"
    LOGS = "log"
    HYPERBOLIC = "sinh"
    WHOLE = "floor"
    SIZE = "hypot"


class Gear(IntEnum):
    HIGH = 2**40
    LOW = -7
    NONE = 0


class Mode(Enum):
    IDLE = "zzz"
    BUSY = "busy"
    BROKEN = "aaa"


Name = Annotated[str, Width(8)]
Words = Annotated[str, Width(96)]
Whole = Annotated[list[int], Length(4)]
Parts = Annotated[list[float], Length(5)]
Gears = Annotated[list[Gear], Length(3)]
Flags = Annotated[list[bool], Length(3)]


class Calc(Event):
    op: Op
    a: int = 0
    b: int = 0
    x: float = 0.0
    y: float = 0.0
    flag: bool = False


class Write(Event):
    what: int
    text: Words = ""
    number: int = 0
    item: float = 0.0
    gear: Gear = Gear.NONE
    items: Parts = []
    flag: bool = False


class Do(Event):
    """For agents that keep timers, write to others, draw and so on."""

    what: int
    seconds: float = 1.0
    number: int = 0
    to: Name = "d-1"
    gear: Gear = Gear.LOW


class Ring(Event):
    number: int = 0
    text: Name = ""
    part: float = 0.0
    items: Whole = []


class Tick(Event):
    pass


class Told(Event):
    number: int
    item: float = 0.0
    name: Words = ""
    mode: Mode = Mode.IDLE


class Question(Event):
    number: int


class Stranger(Event):
    """Nobody has a handler for it."""

    number: int = 0


class Computed(Action):
    n: int
    x: float
    up: bool
    op: Op


class Said(Action):
    text: Words
    gear: Gear = Gear.LOW
    items: Parts = []
    whole: Whole = []
    modes: Annotated[list[Mode], Length(2)] = []
    flag: bool = False


class Landed(Action):
    pass


class Raised(Action):
    number: int

    def undo(self) -> Raised:
        return Raised(-self.number)
