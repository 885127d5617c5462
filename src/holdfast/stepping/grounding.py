"""A ground stop: while it is in force agents issue no actions but those declared for it.

It stands in the head of its partition, so it goes wherever a head goes. It comes as a command of
its own row. Agents that have a handler for `GroundStop` or `GroundStopLifted` are told before the
position moves past that row, some in every commit: what comes later finds all of them told. Who
was told is journalled like a timer that fired.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.model.event import Event
from holdfast.model.fates import GroundStop, GroundStopLifted
from holdfast.stepping.cell import Cell, Held
from holdfast.stepping.outputs import Fired

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold

TOLD_NAME = "~ground-stop"  # of these firings in the journal
GROUND, LIFT = "ground-stop", "lift-ground-stop"


class Ground(NamedTuple):
    """A ground stop as a head has it."""

    in_force: bool  # False while agents are told that it is lifted
    now: float
    why: str
    by: str
    told: tuple[str, str] | None = None  # the last agent that was told; None: all were


_decode = msgspec.json.Decoder(Ground).decode


def read_ground(text: str) -> Ground | None:
    return _decode(text) if text else None


def write_ground(ground: Ground | None) -> str:
    return "" if ground is None else msgspec.json.encode(ground).decode()


def reason_in(ground: Ground | None) -> tuple[str, str] | None:
    """Why and by whom actions are withheld now; None if they are not."""
    return (ground.why, ground.by) if ground is not None and ground.in_force else None


def command_of(ground: bool, why: str, by: str) -> list[object]:
    return [GROUND if ground else LIFT, why, by]


def take(fold: CarefulFold, command: list[object]) -> bool:
    """Whether all were told: only then the command is done. Of a script, the journal tells who."""
    stepper = fold.stepper
    before = read_ground(stepper.ground)
    stops, why, by = command[0] == GROUND, str(command[1]), str(command[2])
    telling = before is not None and before.told is not None and before.in_force == stops
    if not telling:
        if stops == (before is not None and before.in_force):
            return True  # it is in force already, or there is none to lift
        before = Ground(stops, fold.now, why, by, ("", ""))
        _stand(fold, before)
    assert before is not None
    if not stepper.scripted:
        room = fold.fired_max - len(fold.fired)
        next_ones = _next_to_tell(fold, before, room)
        for cell in next_ones:
            tell(fold, cell, _event(before))
            before = before._replace(told=(cell.agent_name, cell.key))
        _stand(fold, before)
        if len(next_ones) >= room:
            return False  # whether there are more is seen in the next commit
    _stand(fold, before._replace(told=None) if stops else None)
    return True


def tell(fold: CarefulFold, cell: Cell, event: Event) -> None:
    name, key, now = cell.agent_name, cell.key, fold.now
    fold.fired.append(Fired(fold.position, name, key, TOLD_NAME, now, now, event))
    fold.deliver(cell, Held(event, fold.position, now, None, 0, -1))


def hear(fold: CarefulFold, event: Event, cell: Cell) -> None:
    """In a script: somebody was told, so the stop, or its end, had come by then."""
    stops = isinstance(event, GroundStop)
    assert isinstance(event, GroundStop | GroundStopLifted)
    before = read_ground(fold.stepper.ground)
    if before is None or before.in_force != stops:
        before = Ground(stops, fold.now, event.why, event.by)
    _stand(fold, before._replace(told=(cell.agent_name, cell.key)))
    tell(fold, cell, event)


def _event(ground: Ground) -> Event:
    return (GroundStop if ground.in_force else GroundStopLifted)(why=ground.why, by=ground.by)


def _stand(fold: CarefulFold, ground: Ground | None) -> None:
    fold.stepper.ground = write_ground(ground)
    fold.stepper.context._ground = reason_in(ground)


def _next_to_tell(fold: CarefulFold, ground: Ground, most: int) -> list[Cell]:
    """In the order of class and key, which every process sees alike."""
    event, told = type(_event(ground)), ground.told or ("", "")
    found: list[tuple[str, str]] = []
    for kind in fold.stepper.kinds.values():
        if event in kind.routes:
            every = ((kind.name, key) for key in kind.known_keys())
            found += (each for each in every if told < each)
    cells = []
    for name, key in nsmallest(most, found):
        cell = fold.stepper.kinds[name].find(key)
        assert cell is not None
        cells.append(cell)
    return cells
