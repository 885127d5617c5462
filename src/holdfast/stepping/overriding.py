"""An operator's override: an action that an agent issues now because he says so.

It takes a version of the agent, as an event does, so that its id is like any other and stays. The
state is not touched. It is issued during a ground stop too: the operator has the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import TryAgain, UsageError
from holdfast.model.effects import Emitted
from holdfast.model.event import Action
from holdfast.model.snapshot import snapshot
from holdfast.stepping.actionids import action_id
from holdfast.stepping.commit import Answer
from holdfast.stepping.reasons import reason_of

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.cell import Cell


def override_command(why: str, by: str, schema: int, row: bytes, hold: bool) -> list[object]:
    return ["override", why, by, schema, row, hold]


def override(fold: CarefulFold, cell: Cell, command: list[object]) -> bool:
    """Answers whoever asked, at the position of the command, with the id of the action."""
    _, why, by, schema, row, _ = command
    assert isinstance(schema, int)
    assert isinstance(row, bytes)
    who = f"{cell.agent_name}/{cell.key}"
    if not cell.known:
        _answer(fold, "failed", f"there is no {who}: no event has come to it yet")
        return False
    try:
        action = _made(fold, schema, row)
    except (MemoryError, TryAgain):
        raise
    except Exception as error:
        _answer(fold, "failed", reason_of(error))
        return False
    cell.wake()
    cell.version += 1
    cell.updated = fold.now
    fold.touch(cell)
    emitted = Emitted(cell, cell.version, snapshot(action), fold.now, "", str(why), str(by))
    fold.stepper.context._effects.actions.append(emitted)
    fleet = fold.stepper.fleet.name
    _answer(fold, "reply", action_id(fleet, cell.agent_name, cell.key, cell.version, 0))
    return True


def _made(fold: CarefulFold, schema: int, row: bytes) -> Action:
    codebook = fold.stepper.codebook
    made = codebook.reader_of(schema).row(row)
    if not isinstance(made, Action):
        raise UsageError(f"{type(made).__name__} is no Action: an override issues one")
    codebook.pack([made], type(made))
    return made


def _answer(fold: CarefulFold, status: str, text: str) -> None:
    fold.answers.append(Answer(fold.number, fold.now, status, text, 0, b""))
