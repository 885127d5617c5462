"""The declared undo of an action: a method of its class that makes the action which takes it back.

    class Lock(Action):
        door: str

        def undo(self) -> Unlock:
            return Unlock(door=self.door)

It sees the action alone, and does no I/O. When it runs is decided by an operator.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from types import FunctionType

from holdfast.errors import DefinitionError, UsageError
from holdfast.model.annotations import Body
from holdfast.model.keys import shortened

_EXAMPLE = "as in `def undo(self) -> Unlock`"


def check_undo(body: Body, is_action: typing.Callable[[object], bool]) -> None:
    """What a class body declares; a class that is defined further down is checked by the fleet."""
    undo = body.get("undo")
    if undo is None or "undo" in body.fields:
        return
    name, place = f"{body.class_name}.undo", body.place("undo")
    if not isinstance(undo, FunctionType):
        raise place.error(f"{name} has to be a plain method, {_EXAMPLE}")
    if list(inspect.signature(undo).parameters) != ["self"]:
        raise place.error(f"{name} takes nothing but self, {_EXAMPLE}")
    if "return" not in undo.__annotations__:
        raise place.error(f"{name} has to say which Action it returns, {_EXAMPLE}")
    try:
        found = body.scope.resolve(undo.__annotations__["return"], name, place, own=body)
    except DefinitionError as error:
        if isinstance(error.__cause__, NameError):
            return
        raise
    if not is_action(found):
        raise place.error(f"{name} returns {shortened(found)}: it has to be an Action, {_EXAMPLE}")
    undo.__annotations__["return"] = found  # resolved now, while the names around it are at hand


def undo_of(cls: type) -> FunctionType | None:
    found = getattr(cls, "undo", None)
    return found if isinstance(found, FunctionType) else None


def result_of(cls: type, known: Mapping[str, type]) -> object:
    """The class that an action's undo returns; None if it has none, or it cannot be told yet."""
    undo = undo_of(cls)
    if undo is None:
        return None
    try:
        return typing.get_type_hints(undo, localns=dict(known)).get("return")
    except NameError:
        return None


def undone(action: object) -> object:
    """The action that takes this one back."""
    undo = undo_of(type(action))
    if undo is None:
        name = type(action).__name__
        raise UsageError(f"{name} declares no undo: write `def undo(self) -> …` in the class")
    return undo(action)
