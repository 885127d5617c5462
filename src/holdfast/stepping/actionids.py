"""The ids of actions: the same at every re-execution, wherever the agent lives."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = r"([A-Za-z0-9][A-Za-z0-9._:-]{0,127})"  # as keys are: see model/keys.py
_NUMBER = r"(0|[1-9][0-9]{0,17})"  # as we write it: another spelling would be another id
_matches = re.compile(rf"{_NAME}/(\w{{1,128}})/{_NAME}/{_NUMBER}/{_NUMBER}((?:/undo)*)").fullmatch
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
    """FLEET/AGENT/KEY/VERSION/NUMBER, or that and /undo; None for anything else."""
    found = _matches(text)
    if found is None:
        return None
    fleet, agent, key, version, number, undoes = found.groups()
    return ActionName(fleet, agent, key, int(version), int(number), bool(undoes))
