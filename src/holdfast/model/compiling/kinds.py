"""What compiled code can hold: numbers, truth, members of an Enum, short texts and short lists.

A `Kind` is the type of an expression. A `Part` is a field of a class with its kind; how it lies in
arrays is the `Slot` of `model.layout`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import msgspec
from msgspec import inspect

from holdfast.model.layout import NoLayout, Slot, slots_of


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

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.file = ""


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
    try:
        slots = slots_of(cls.__holdfast__.schema)  # type: ignore[attr-defined]
    except NoLayout as reason:
        raise CannotCompile(str(reason)) from None
    fields = msgspec.structs.fields(cls)
    return tuple(
        Part(slot, _kind(slot, field.type)) for slot, field in zip(slots, fields, strict=True)
    )


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
