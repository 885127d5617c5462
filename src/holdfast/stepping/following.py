"""A trace through a fold: what an event with a context makes carries that on, and what is told of
the fold once it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.model.effects import Traced
from holdfast.model.tracing import NONE, is_sampled
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.traces import runs_of

if TYPE_CHECKING:
    from holdfast.model.context import Context
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.cell import Cell, Held
    from holdfast.stepping.stepper import Stepper

R = TypeVar("R")


def following(stepper: Stepper, inputs: Inputs, rows: Iterator[R]) -> Iterator[R]:
    """The same rows; whoever folds them has the context of each while it is folded.

    What is behind a `yield` runs when the rows before it were folded, because the next one is asked
    for. So rows without a context cost nothing.
    """
    return chain.from_iterable(_parts(stepper, inputs, rows))


def _parts(stepper: Stepper, inputs: Inputs, rows: Iterator[R]) -> Iterator[Iterator[R]]:
    context, keys, kinds = stepper.context, inputs.keys, stepper.kinds
    done = 0
    for start, stop, value in runs_of(inputs):
        if start > done:
            yield islice(rows, start - done)
        stepper.carries = True
        context._given = given = cast(str, value)
        if is_sampled(given):
            for row in range(start, stop):
                cells, key = kinds[inputs.agent or inputs.agents[row]].cells, keys[row]
                cell = cells.get(key)
                before = 0 if cell is None else cell.version
                yield islice(rows, 1)
                cell = cells.get(key)
                if cell is not None and cell.version > before:  # it took the event
                    _note(context, inputs, row, given, cell)
        else:
            yield islice(rows, stop - start)
        context._given = NONE
        done = stop
    yield rows


def _note(context: Context, inputs: Inputs, row: int, given: str, cell: Cell) -> None:
    event = type(inputs.events[row]).__name__
    who = cell.agent_name, cell.key, cell.version, event
    place = inputs.first + row, inputs.origin, context.now
    context._effects.traced.append(Traced(given, *who, *place))


def note(fold: CarefulFold, cell: Cell, held: Held, error: str = "") -> None:
    """An event was folded carefully, or failed; of one that makes no span only that it failed."""
    if is_sampled(held.trace) or (held.trace and error):
        who = cell.agent_name, cell.key, cell.version, type(held.event).__name__
        traced = Traced(held.trace, *who, held.position, fold.origin, fold.now, error)
        fold.stepper.context._effects.traced.append(traced)
