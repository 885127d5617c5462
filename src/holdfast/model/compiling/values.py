"""What names and expressions stand for while a handler is lowered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, TEXT, CannotCompile, Kind


@dataclass(frozen=True)
class Value:
    """An expression: the code that computes it, and its kind.

    A text is a row of code points. A list is its whole room, with `count` items in use.
    """

    code: str
    kind: Kind
    constant: object = None
    count: str = ""
    place: str = ""  # of a list: whose field it is, "self" or "event"
    raw: str = ""  # of a field: the word or the room in its record


@dataclass(frozen=True)
class Self:
    cls: type


@dataclass(frozen=True)
class Given:
    """The event a handler was given."""

    cls: type


@dataclass(frozen=True)
class Ctx:
    pass


@dataclass(frozen=True)
class Dice:
    """`ctx.random`."""


@dataclass(frozen=True)
class Thing:
    """A class, module, function or other object of Python that only some places accept."""

    object: object


@dataclass(frozen=True)
class Bound:
    """A method about to be called: of the agent, of a list, of the context."""

    owner: Self | Ctx | Dice | Value
    name: str
    function: FunctionType | None = None


Meaning = Value | Self | Given | Ctx | Dice | Thing | Bound


def constant(value: object, program: object) -> Value | None:
    """A value of Python that is known now, as code; None if it is no such value."""
    if isinstance(value, Enum):
        members = list(type(value))
        return Value(str(members.index(value)), Kind("enum", enum=type(value)), value)
    if isinstance(value, bool):
        return Value(repr(value), BOOL, value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise CannotCompile(f"{value} does not fit into 64 bits")
        return Value(f"({value})" if value < 0 else str(value), INT, value)
    if isinstance(value, float):
        return Value(_float(value), FLOAT, value)
    if isinstance(value, str):
        return Value(program.text(value), TEXT, value)  # type: ignore[attr-defined]
    return None


def _float(value: float) -> str:
    if value != value:
        return "math.nan"
    if value in (float("inf"), float("-inf")):
        return "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})" if value < 0 or str(value).startswith("-") else repr(value)


def shown(meaning: Meaning) -> str:
    """For messages."""
    if isinstance(meaning, Value):
        return str(meaning.kind)
    if isinstance(meaning, Self):
        return "the agent itself"
    if isinstance(meaning, Given):
        return "the event itself"
    if isinstance(meaning, Ctx | Dice):
        return "the context"
    if isinstance(meaning, Bound):
        return f"the method {meaning.name}"
    found = meaning.object
    if isinstance(found, ModuleType):
        return f"the module {found.__name__}"
    return f"{getattr(found, '__name__', type(found).__name__)}"
