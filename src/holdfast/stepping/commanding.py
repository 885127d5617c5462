"""Commands, which travel through the inbox like everything else: an operator's, and what those
who carry actions out tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import OutdatedCode
from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.stepping import grounding
from holdfast.stepping.cell import Cell, Held
from holdfast.stepping.compensating import compensate
from holdfast.stepping.overriding import override
from holdfast.stepping.settling import SETTLES, settle

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold


def obey(fold: CarefulFold, agent: str, key: str, command: list[object]) -> bool:
    """False for one that is not done yet: it comes again in the next commit."""
    name = command[0]
    if name in (grounding.GROUND, grounding.LIFT):
        return grounding.take(fold, command)
    cell = fold.cell(agent, key)
    if name in SETTLES:
        settle(fold, cell, command)
    elif name == "pause":
        pause(fold, cell, str(command[1]))
    elif name == "resume":
        _resume(fold, cell)
    elif name == "redrive":
        _redrive(fold, cell, int(str(command[1])))
    elif name == "compensate":
        compensate(fold, cell, command, fold.take_condemned())
    elif name == "override":
        if override(fold, cell, command) and command[5]:
            pause(fold, cell, str(command[1]))
    else:
        raise OutdatedCode(
            f"unknown command {name!r} for {agent}/{key}: run the release that sent it"
        )
    return True


def pause(fold: CarefulFold, cell: Cell, reason: str) -> None:
    cell.wake()
    cell.beside().paused = reason or "by an operator"
    fold.touch(cell)


def _resume(fold: CarefulFold, cell: Cell) -> None:
    if cell.extras is None or not cell.extras.paused:
        return
    cell.wake()
    # Which of the held events ends the worker is not known: all of them stay held.
    cell.extras.paused = fold.take_condemned() or ""
    fold.touch(cell)
    if cell.extras.paused:
        return
    for timer in cell.timers().values():
        fold.stepper.agenda.add(timer.due, cell, timer.name)
    fold.redeliver(cell)


def _redrive(fold: CarefulFold, cell: Cell, letter_id: int) -> None:
    letter = fold.stepper.letter_of(letter_id)
    if letter is None or letter_id in fold.redriven:
        return  # already redriven: a letter comes back once
    fold.redriven.append(letter_id)
    event = fold.stepper.codebook.reader_of(letter.schema).row(letter.row)
    assert isinstance(event, Event)
    sender = Sender(*letter.sender) if letter.sender else None
    held = Held(event, fold.number, letter.event_time, sender, letter.hops, -1)
    fold.deliver(cell, held)
