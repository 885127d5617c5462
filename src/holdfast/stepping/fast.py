"""The fast fold: whole frames in tight loops, without a copy or a check between events.

Anything out of the ordinary raises, the stepper undoes the batch and folds it carefully instead.
So handlers get snapshots: what they do to a list inside an event must not be seen the second time.
The types of a state are checked once per batch, when it is stored: a value of a wrong type that a
later event of the same batch replaces is not noticed.
Two loops, because most frames are telemetry: one class of agents, and nothing differs from row to
row but key and event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.model.context import Context
from holdfast.model.effects import Sender
from holdfast.model.event import Event
from holdfast.model.handlers import HandlerFunction
from holdfast.model.snapshot import snapshots
from holdfast.model.tracing import NONE
from holdfast.stepping.cell import Cell, Kind
from holdfast.stepping.following import following
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.traces import has_contexts

if TYPE_CHECKING:
    from holdfast.stepping.stepper import Stepper


_PlainRow = tuple[str, Cell | None, Event]
_Row = tuple[str, str, Event, float, Sender | None, int]  # agent, key, …, hops


class NeedsCare(Exception):
    """Only the careful fold handles this."""


def fits(kinds: dict[str, Kind], inputs: Inputs) -> bool:
    """Whether a frame may run here: asks, commands, replies and agents that defer or expire may
    not."""
    if inputs.asks or inputs.refused or inputs.commands is not None or inputs.calls is not None:
        return False
    names = {inputs.agent} if inputs.agent is not None else set(inputs.agents)
    return all(name in kinds and kinds[name].simple for name in names)


def run(stepper: Stepper, inputs: Inputs, now: float) -> None:
    context = stepper.context
    context.now = now
    context.event_time = inputs.stamp
    context._sender, context._hops, context._ask, context._given = None, 0, -1, NONE
    if inputs.plain and inputs.agent is not None:
        _run_plain(stepper, stepper.kinds[inputs.agent], inputs, context)
    else:
        _run_each(stepper, inputs, context)


def _run_plain(stepper: Stepper, kind: Kind, inputs: Inputs, context: Context) -> None:
    """The hot loop: one dictionary look-up, one call and little else per event."""
    keys, events = inputs.keys, inputs.events
    classes = set(map(type, events))
    events = snapshots(events, classes)
    always = {cls: route.always for cls in classes if (route := kind.routes.get(cls))}
    handler = next(iter(always.values()), None)
    cells, batch, touch = kind.cells, stepper.batch, stepper.touched.append
    rows: Iterator[_PlainRow] = zip(keys, map(cells.get, keys), events, strict=True)
    if has_contexts(inputs):
        rows = following(stepper, inputs, rows)
    if len(classes) > 1 or handler is None:
        _run_mixed(stepper, kind, rows, always, context)
        return
    for key, cell, event in rows:
        if cell is None:
            cell = cells[key] = _meet(kind, key)
        if cell.batch != batch:
            cell.batch = batch
            touch(cell)
        cell.version += 1
        context._subject = cell
        agent = cell.agent
        handler(cell.wake() if agent is None else agent, event, context)


def _run_mixed(
    stepper: Stepper,
    kind: Kind,
    rows: Iterable[_PlainRow],
    always: dict[type[Event], HandlerFunction | None],
    context: Context,
) -> None:
    """Several classes of events, or such as have different handlers in different modes."""
    batch, touch = stepper.batch, stepper.touched.append
    for key, cell, event in rows:
        handler = always.get(type(event))
        if cell is None or handler is None:
            cell = cell or _meet(kind, key)
            handler = _choose(kind, cell, event)
            if handler is None:
                continue
        if cell.batch != batch:
            cell.batch = batch
            touch(cell)
        cell.version += 1
        context._subject = cell
        agent = cell.agent
        handler(cell.wake() if agent is None else agent, event, context)


def _run_each(stepper: Stepper, inputs: Inputs, context: Context) -> None:
    """Messages, claimed event times, several classes: what differs is set row by row."""
    kinds, batch, touched = stepper.kinds, stepper.batch, stepper.touched
    count = len(inputs)
    senders: Sequence[Sender | None] = inputs.senders or [None] * count
    rows: Iterator[_Row] = zip(
        inputs.agents,
        inputs.keys,
        snapshots(inputs.events),
        inputs.event_times or [inputs.stamp] * count,
        senders,
        inputs.hops or [0] * count,
        strict=True,
    )
    if has_contexts(inputs):
        rows = following(stepper, inputs, rows)
    for name, key, event, event_time, sender, hops in rows:
        kind = kinds[name]
        cell = kind.cells.get(key) or _meet(kind, key)
        agent = cell.wake()
        handler = _choose(kind, cell, event)
        if handler is None:
            continue
        if cell.batch != batch:
            cell.batch = batch
            touched.append(cell)
        cell.version += 1
        context._subject = cell
        context.event_time, context._sender, context._hops = event_time, sender, hops
        handler(agent, event, context)


def _meet(kind: Kind, key: str) -> Cell:
    """An agent that is not in memory: new, unless it is paused."""
    if key in kind.paused:
        raise NeedsCare
    return Cell(kind, key, None)


def _choose(kind: Kind, cell: Cell, event: Event) -> HandlerFunction | None:
    """The handler, or None for an event that is ignored. A taken event makes an agent known."""
    route = kind.routes.get(type(event))
    handler = route.choose(cell.wake(), event) if route is not None else None
    if handler is not None:
        kind.cells[cell.key] = cell
    elif kind.definition.unhandled != "ignore":
        raise NeedsCare
    return handler
