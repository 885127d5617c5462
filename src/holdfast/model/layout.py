"""Layouts: how the fields of a class lie in columns and records, where all have a fixed width.

What is known of a class here comes from its schema alone, so that whoever has the data can read it.

    int     64 bits, signed             float   64 bits
    bool    0 or 1                      enum    the ordinal of a member, in the order of its class
    text    a length and code points    list    a length and items of one of the four above
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from holdfast.model.schema import Schema
from holdfast.model.types import TypeTree, limits_of, part, values_of

WIDTH_MAX = 1024  # characters of a text, items of a list: records are copied at every event
_SCALARS = ("int", "float", "bool")


class NoLayout(Exception):
    """Why a field has no fixed width, and the way out."""


@dataclass(frozen=True)
class Slot:
    """One field. `values` are an enum's, or those of the enum that a list holds."""

    name: str
    kind: str  # "int", "float", "bool", "enum", "text" or "list"
    most: int = 0  # characters of a text, items of a list
    item: str = ""  # the kind of a list's items
    values: tuple[str | int, ...] = ()

    @property
    def wide(self) -> bool:
        return self.kind in ("text", "list")


def slots_of(schema: Schema) -> tuple[Slot, ...]:
    """Raises NoLayout for the first field that has none."""
    found = []
    for each in schema.fields:
        try:
            found.append(_slot(each.name, each.type))
        except NoLayout as reason:
            raise NoLayout(f"{schema.name}.{each.name} {reason}") from None
    return tuple(found)


def _slot(name: str, tree: TypeTree) -> Slot:
    limits: dict[str, object] = {}
    if isinstance(tree, dict) and "limited" in tree:
        limits = limits_of(tree)
        tree = part(tree, "limited")
    if tree == "str":
        return Slot(name, "text", _most(limits, "str", "Width"))
    if isinstance(tree, dict) and "list" in tree:
        kind, values = _scalar(part(tree, "list"))
        return Slot(name, "list", _most(limits, f"list[{kind}]", "Length"), kind, values)
    for limit in limits:
        raise NoLayout(f"has the limit {limit}: compiled fields have none, check it in the handler")
    kind, values = _scalar(tree)
    return Slot(name, kind, values=values)


def _scalar(tree: TypeTree) -> tuple[str, tuple[str | int, ...]]:
    if isinstance(tree, str) and tree in _SCALARS:
        return tree, ()
    if isinstance(tree, dict) and "enum" in tree:
        return "enum", tuple(values_of(tree, "values"))
    raise NoLayout(
        "has no fixed width: use bool, int, float, an Enum, Annotated[str, Width(16)] or "
        "Annotated[list[float], Length(8)]"
    )


def _most(limits: dict[str, object], shown: str, mark: str) -> int:
    for limit in limits:
        if limit != "max_length":
            raise NoLayout(
                f"has the limit {limit}: compiled fields have none, check it in the handler"
            )
    most = cast("int | None", limits.get("max_length"))
    if most is None:
        raise NoLayout(
            f"has no fixed width: write Annotated[{shown}, {mark}(16)] with the most it may hold"
        )
    if not 1 <= most <= WIDTH_MAX:
        raise NoLayout(f"may hold {most}: a compiled field holds 1 to {WIDTH_MAX}")
    return most
