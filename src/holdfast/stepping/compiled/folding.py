"""Frames through the kernel, and the events it gives up through the careful fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from holdfast.model.compiling.module import COUNTS, MARKS
from holdfast.model.compiling.program import Output
from holdfast.model.effects import Timer
from holdfast.model.event import Event
from holdfast.model.layout import NoLayout
from holdfast.stepping.cell import Extras, Held
from holdfast.stepping.compiled.following import Following
from holdfast.stepping.compiled.kernels.jit import Unusual
from holdfast.stepping.compiled.kind import Aside, CompiledKind
from holdfast.stepping.compiled.reading import Events
from holdfast.stepping.traces import contexts_of

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.inputs import Inputs


def fits(inputs: Inputs) -> bool:
    """Whether a frame may run here: asks, commands, replies and what is refused may not."""
    usual = inputs.origin in ("external", "message")
    return usual and not inputs.asks and not inputs.refused


def run(kind: CompiledKind, fold: CarefulFold, inputs: Inputs) -> None:
    """Fold a frame whose rows are all for this class."""
    kind.settle()
    fold.now = max(fold.now, inputs.stamp)
    kind.clock[0] = fold.now
    events = _read(kind, inputs)
    if events is None:
        fold.fold(inputs)
        return
    kind.make_room(len(events.rows))
    fold.stepper.note_order()
    controls = kind.controls
    controls[0] = 0
    controls[6] = inputs.origin == "message"
    following = Following(kind, inputs)
    while True:
        controls[2] = fold.stepper.order
        try:
            _fold(kind, events, following.versions)
            break
        except Unusual:
            _undo_event(kind, events)
            if controls[5]:
                _enlarge(kind, int(controls[5]))
                controls[5] = 0
                continue
        finally:
            fold.stepper.order = int(controls[2])
        kind.given_up += 1
        _keep_timers(kind)
        _fold_carefully(kind, fold, inputs, int(controls[0]), int(events.rows[controls[0]]))
        controls[0] += 1
    _keep_timers(kind)
    following.note(fold, events)
    fold.position = inputs.first + len(inputs)
    kind.folded += len(inputs)


def _read(kind: CompiledKind, inputs: Inputs) -> Events | None:
    """None where a value has no place in columns. What fails later must not name that."""
    try:
        return kind.reader.read(inputs)
    except NoLayout:
        return None


def _fold(kind: CompiledKind, events: Events, versions: np.ndarray) -> None:
    kind.fold(
        kind.table.rows,
        kind.undo,
        kind.before,
        kind.touched,
        events.rows,
        events.codes,
        events.times,
        events.hops,
        events.at,
        kind.batch,
        versions,
        kind.controls,
        kind.clock,
        kind.table.blob,
        kind.table.offsets,
        kind.random,
        kind.queue,
        kind.scratch,
        kind.prefix,
        *events.columns,
        *kind.outputs,
    )


def _undo_event(kind: CompiledKind, events: Events) -> None:
    controls = kind.controls
    kind.table.rows[events.rows[controls[0]]] = kind.undo[0]
    controls[2], controls[8] = controls[9], controls[10]
    count = len(kind.outputs)
    controls[COUNTS : COUNTS + count] = controls[MARKS : MARKS + count]


def _enlarge(kind: CompiledKind, full: int) -> None:
    if full == -1:
        kind.queue = _twice(kind.queue)
    elif full == -2:
        kind.make_room(len(kind.touched))
    else:
        kind.outputs[full - 1] = _twice(kind.outputs[full - 1])


def _twice(array: np.ndarray) -> Any:
    larger = np.zeros(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


def _fold_carefully(
    kind: CompiledKind, fold: CarefulFold, inputs: Inputs, at: int, row: int
) -> None:
    position = inputs.first + at
    fold.position = position
    held = Held(
        inputs.events[at],
        position,
        inputs.event_times[at] if inputs.event_times else inputs.stamp,
        inputs.senders[at] if inputs.senders else None,
        inputs.hops[at] if inputs.hops else 0,
        -1,
        contexts_of(inputs.part(at, at + 1)).get(0, ""),
    )
    fold.origin = inputs.origin
    fold.deliver(kind.lend(row), held)
    kind.settle()
    fold.stepper.note_order()


def _keep_timers(kind: CompiledKind) -> None:
    """What was armed goes to the agenda; timers without a slot stand aside."""
    queued = kind.queue[: int(kind.controls[8])]
    if len(queued):
        kind.agenda.add_many(queued["row"], queued["timer"], queued["due"])
        kind.controls[8] = 0
    for number, output in enumerate(kind.program.outputs):
        if output.way == "arm":
            for record in kind.records_of_output(number):
                _keep_nameless(kind, output, record)
            kind.controls[COUNTS + number] = 0


def _keep_nameless(kind: CompiledKind, output: Output, record: Any) -> None:
    row = int(record["row"])
    name = f"~{record['version']}.{record['serial']}"
    event = cast(Event, kind.codec.event_of(output.cls, output.slots, record))
    timer = Timer(name, float(record["due"]), event, float(record["period"]))
    aside = kind.aside.get(row, Aside(Extras()))
    extras = aside.extras.copy()
    extras.timers[name] = timer
    kind.put_aside(row, aside._replace(extras=extras))
