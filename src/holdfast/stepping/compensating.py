"""An operator's compensation: the declared undo of an issued action, issued by the same agent.

The command carries the action itself. Whether it was compensated before is decided here, in the
order of the inbox, so that of two operators one has his way. The agent's state is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import TryAgain, UsageError
from holdfast.model.effects import Emitted
from holdfast.model.event import Action
from holdfast.model.snapshot import snapshot
from holdfast.model.undoing import undone
from holdfast.stepping.actionids import undo_id
from holdfast.stepping.commit import Answer, Fate
from holdfast.stepping.reasons import reason_of

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.cell import Cell


def compensate(fold: CarefulFold, cell: Cell, command: list[object], condemned: str | None) -> None:
    """Answers whoever asked, at the position of the command, with the id of the new action."""
    _, action_id, why, schema, row = command
    assert isinstance(schema, int)
    assert isinstance(row, bytes)
    id, reason = str(action_id), str(why)
    earlier = [one for one in fold.fates_of(id) if one.kind == "compensated"]
    if earlier:
        _answer(fold, "failed", f"{id} was compensated before: {earlier[0].why}")
        return
    if condemned is not None:
        _answer(fold, "failed", f"its undo may not run: {condemned}")
        return
    try:
        made = _made(fold, schema, row)
    except (MemoryError, TryAgain):
        raise  # not the undo's fault: the same command again may succeed
    except (Exception, SystemExit) as error:
        _answer(fold, "failed", reason_of(error))
        return
    emitted = Emitted(cell, cell.version, snapshot(made), fold.now, id, reason)
    fold.stepper.context._effects.actions.append(emitted)
    fold.fates.add([Fate(id, cell.key, fold.now, reason)])
    _answer(fold, "reply", undo_id(id))


def _made(fold: CarefulFold, schema: int, row: bytes) -> Action:
    codebook = fold.stepper.codebook
    made = undone(codebook.reader_of(schema).row(row))
    if not isinstance(made, Action):
        raise UsageError(f"undo returned {type(made).__name__}: it has to return an Action")
    codebook.pack([made], type(made))
    return made


def _answer(fold: CarefulFold, status: str, text: str) -> None:
    fold.answers.append(Answer(fold.number, fold.now, status, text, 0, b""))
