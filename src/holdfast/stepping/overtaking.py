"""Overtaking: how the fold takes an event of the urgent lane before its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import DamagedData
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.lane import LANE, TAKEN_NAME
from holdfast.stepping.outputs import Fired

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.stepper import Stepper


def overtake(stepper: Stepper, fold: CarefulFold, inputs: Inputs, *, fast: bool) -> bool:
    """One event of the lane, before the position that the fold has reached. Timers that are due
    by then wait for the events that they belong behind.

    False for a command that is not done yet: it comes again, and is journalled then.
    """
    position = fold.position
    stepper._take(fold, inputs, fast)
    if fold.position == position:
        return False
    fold.position = position
    fold.urgent = inputs.first - LANE + 1
    assert inputs.frame is not None
    taken = (inputs.first, inputs.frame.encode())
    about = (inputs.agents[0], inputs.keys[0], TAKEN_NAME, inputs.stamp, fold.now)
    fold.fired.append(Fired(position, *about, None, taken=taken))
    return True


def check_follows(batch: Sequence[Inputs], expected: int) -> None:
    for inputs in batch:
        if inputs.first != expected:
            raise DamagedData(f"inputs continue at {inputs.first}, expected {expected}")
        expected += len(inputs)
