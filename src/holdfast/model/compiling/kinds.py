"""What compiled code can hold: numbers, truth, members of an Enum, short texts and short lists.

A `Kind` is the type of an expression. A `Part` is a field of a class with its kind; how it lies in
arrays is the `Slot` of `model.layout`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

from holdfast.model.layout import NoLayout, Slot, slots_of

if TYPE_CHECKING:
    from holdfast.model.definition import Definition


@dataclass(frozen=True)
class Kind:
    name: str  # "int", "float", "bool", "enum", "text", "list" or "nothing"
    enum: type[Enum] | None = None
    most: int = 0  # characters of a text, items of a list
    item: Kind | None = None

    def __str__(self) -> str:
        if self.enum is not None:
            return self.enum.__name__
        if self.item is not None:
            return f"list[{self.item}]"
        return {"text": "str", "nothing": "None"}.get(self.name, self.name)

    @property
    def wide(self) -> bool:
        """Takes more than one word: a text or a list."""
        return self.name in ("text", "list")

    @property
    def numeric(self) -> bool:
        return self.name in ("int", "float", "bool")


INT = Kind("int")
FLOAT = Kind("float")
BOOL = Kind("bool")
TEXT = Kind("text")
NOTHING = Kind("nothing")


class CannotCompile(Exception):
    """Why a type or a line has no compiled form, and the way out. Its place is added outside."""

    def __init__(self, message: str, line: int = 0, file: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.file = file

    def inside(self, function: FunctionType) -> CannotCompile:
        """With the place, if it is known no better."""
        if not self.file:
            self.file = function.__code__.co_filename
            self.line = self.line or function.__code__.co_firstlineno
        return self


@dataclass(frozen=True)
class Part:
    """One field of a class."""

    slot: Slot
    kind: Kind

    @property
    def name(self) -> str:
        return self.slot.name


def parts_of(cls: type) -> tuple[Part, ...]:
    """The fields of an event, action or agent class; CannotCompile names the first misfit."""
    definition: Definition = cls.__holdfast__  # type: ignore[attr-defined]
    place = definition.place
    try:
        _check_plain(cls)
        slots = slots_of(definition.schema)
        fields = msgspec.structs.fields(cls)
        _check_names(cls, slots)
        return tuple(_part(cls, slot, each) for slot, each in zip(slots, fields, strict=True))
    except NoLayout as reason:
        raise CannotCompile(str(reason), place.line, place.file) from None


# What Python would call at each construction, look-up or change. A kernel calls none of it.
_HOOKS = ("__post_init__", "__getattribute__", "__getattr__", "__setattr__")


def _check_plain(cls: type) -> None:
    base = next(each for each in cls.__mro__ if each.__module__.startswith("holdfast."))
    for name in _HOOKS:
        if getattr(cls, name, None) is not getattr(base, name, None):
            raise NoLayout(f"{cls.__name__} has {name}, which kernels do not call: leave it out")


def _check_names(cls: type, slots: Iterable[Slot]) -> None:
    lengths = {f"{slot.name}__n" for slot in slots if slot.wide}
    for slot in slots:
        if slot.name in lengths:
            raise NoLayout(
                f"{cls.__name__}.{slot.name} is the name under which kernels keep the length of "
                f"another field: rename it"
            )


def _part(cls: type, slot: Slot, field: msgspec.structs.FieldInfo) -> Part:
    kind = _kind(slot, field.type)
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if isinstance(default, (str, list)) and kind.wide and len(default) > slot.most:
        raise NoLayout(
            f"{cls.__name__}.{slot.name} has a default of {len(default)}, {slot.most} is the most: "
            f"shorten it"
        )
    for each in default if isinstance(default, list) else [default]:
        if FLOAT in (kind, kind.item) and type(each) is int:
            # Until it is stored it would be a whole number in the interpreter.
            raise NoLayout(
                f"{cls.__name__}.{slot.name} is a {kind} with the default {default}: write "
                f"{float(each)}"
            )
        if type(each) is int and not -(2**63) <= each < 2**63:
            raise NoLayout(
                f"{cls.__name__}.{slot.name} has the default {default}: it has to fit into 64 bits"
            )
    for each in (kind, kind.item):
        enum = each.enum if each is not None else None
        if enum is not None and enum.__eq__ not in (object.__eq__, int.__eq__, str.__eq__):
            raise NoLayout(
                f"{cls.__name__}.{slot.name} is {enum.__name__}, which has its own __eq__: leave "
                f"that out"
            )
    return Part(slot, kind)


def _kind(slot: Slot, type_: object) -> Kind:
    info = inspect.type_info(type_)
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.ListType):
        item = info.item_type
        inner = Kind(slot.item, item.cls if isinstance(item, inspect.EnumType) else None)
        return Kind("list", most=slot.most, item=inner)
    if isinstance(info, inspect.EnumType):
        return Kind("enum", info.cls)
    return Kind(slot.kind, most=slot.most)


_CODES = {"int": "<i8", "float": "<f8", "bool": "<i8", "enum": "<i8"}


def descr(slots: Iterable[Slot], prefix: str) -> list[tuple[object, ...]]:
    """Fields of a record as numpy describes them. A text or list has its length in front, as
    `<name>__n`; an odd text has room for one more, so that words stay aligned."""
    found: list[tuple[object, ...]] = []
    for slot in slots:
        name = f"{prefix}{slot.name}"
        if slot.kind == "text":
            found += [(f"{name}__n", "<i8"), (name, "<u4", (slot.most + slot.most % 2,))]
        elif slot.kind == "list":
            found += [(f"{name}__n", "<i8"), (name, _CODES[slot.item], (slot.most,))]
        else:
            found.append((name, _CODES[slot.kind]))
    return found


def columns_of(slots: Iterable[Slot]) -> dict[str, int]:
    """Where the column of a field is in the tuple of an event class; a text or list takes two."""
    found: dict[str, int] = {}
    at = 0
    for slot in slots:
        found[slot.name] = at
        at += 2 if slot.wide else 1
    return found
