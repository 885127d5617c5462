"""What names and expressions stand for while a handler is lowered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeAlias

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, TEXT, CannotCompile, Kind

if TYPE_CHECKING:
    from holdfast.model.compiling.program import Program


@dataclass(frozen=True)
class Value:
    """An expression: code that computes it, and its kind.

    The code has no effects and means the same until its statement ends: whatever could change was
    read into a variable when Python would have read it. Only lists are what they are at that
    moment, as in Python: `code` is their whole room, `count` how many items of it are in use.
    """

    code: str
    kind: Kind
    constant: object = None
    count: str = ""
    field: str = ""  # of a list: whose it is, "self.track", "event.track" or ""


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
class Log:
    """`ctx.log`."""


@dataclass(frozen=True)
class Thing:
    """A class, module, function or other object of Python that only some places accept."""

    object: object


@dataclass(frozen=True)
class Bound:
    """A method about to be called: of the agent, of the event, of a list, of the context."""

    owner: Self | Given | Ctx | Dice | Log | Value
    name: str
    function: FunctionType | None = None


Meaning: TypeAlias = Value | Self | Given | Ctx | Dice | Log | Thing | Bound


def constant(value: object, program: Program) -> Value | None:
    """A value of Python that is known now, as code; None if it is no such value."""
    if isinstance(value, Enum):
        members = list(type(value))
        if value not in members:  # flags that were put together, or none
            raise CannotCompile(f"{value!r} is no member of {type(value).__name__}: use an int")
        return Value(str(members.index(value)), Kind("enum", type(value)), value)
    if type(value) is bool:
        return Value(repr(value), BOOL, value)
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise CannotCompile(f"{value} does not fit into 64 bits: use a float")
        return Value(f"({value})" if value < 0 else str(value), INT, value)
    if type(value) is float:
        return Value(_float(value), FLOAT, value)
    if type(value) is str:
        return Value(program.text(value), TEXT, value)
    return None


def _float(value: float) -> str:
    if value != value:
        return "math.nan"
    if value in (float("inf"), float("-inf")):
        return "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})" if repr(value).startswith("-") else repr(value)


def as_float(value: Value) -> str:
    """A number as a float. A whole number that no float equals is given up."""
    if value.kind == FLOAT:
        return value.code
    if isinstance(value.constant, int) and abs(value.constant) <= 2**53:
        return _float(float(value.constant))
    return f"exact({as_int(value)})"


def as_int(value: Value) -> str:
    """A whole number or truth as a whole number; truth is stored as one."""
    return f"int({value.code})" if value.kind == BOOL else value.code


def loaded(code: str, kind: Kind) -> Value:
    """A word of a record or column as a value."""
    return Value(f"({code} != 0)" if kind == BOOL else code, kind)


def shown(meaning: Meaning) -> str:
    """For messages."""
    if isinstance(meaning, Value):
        return str(meaning.kind)
    if isinstance(meaning, Self):
        return "the agent itself"
    if isinstance(meaning, Given):
        return "the event itself"
    if isinstance(meaning, Ctx | Dice | Log):
        return {"Ctx": "ctx", "Dice": "ctx.random"}.get(type(meaning).__name__, "ctx.log")
    if isinstance(meaning, Bound):
        return f"the method {meaning.name}"
    found = meaning.object
    if isinstance(found, ModuleType):
        return f"the module {found.__name__}"
    return f"{getattr(found, '__name__', type(found).__name__)}"
