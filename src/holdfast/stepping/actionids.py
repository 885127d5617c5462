"""The ids of actions: the same at every re-execution, wherever the agent lives."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.keys import is_key

_DIGITS_MAX = 18
_UNDO = "/undo"


class ActionName(NamedTuple):
    """What an id says of its action."""

    fleet: str
    agent: str
    key: str
    version: int
    number: int  # among those of the same event
    undoes: bool


def action_id(fleet: str, agent: str, key: str, version: int, index: int) -> str:
    """The stable id of an action."""
    return f"{fleet}/{agent}/{key}/{version}/{index}"


def undo_id(action_id: str) -> str:
    """The id of the action that takes another one back. There is one at most."""
    return f"{action_id}{_UNDO}"


def read_action_id(text: str) -> ActionName | None:
    """FLEET/AGENT/KEY/VERSION/INDEX, or that and /undo; None for anything else."""
    plain = text
    while plain.endswith(_UNDO):
        plain = plain.removesuffix(_UNDO)
    parts = plain.split("/")
    if len(parts) != 5 or not all(map(is_key, parts[:3])):
        return None
    if not all(_is_number(part) for part in parts[3:]):
        return None
    fleet, agent, key, version, number = parts
    return ActionName(fleet, agent, key, int(version), int(number), plain != text)


def _is_number(text: str) -> bool:
    """As we write it: another spelling would be another id."""
    return (
        text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and str(int(text)) == text
    )
