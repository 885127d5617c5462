"""What kernels put into their buffers, as the outputs of a commit.

Outputs of one class of agents go out as columns. Where others are between them, all become objects
and take the interpreter's way, in the order in which they were made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from holdfast.model.context import Emitted, OpenCall, Sent, Timer
from holdfast.model.event import Action, Event
from holdfast.stepping import outputs as interpreted
from holdfast.stepping.columns import integers_column, payload_columns
from holdfast.stepping.commit import Issued
from holdfast.stepping.compiled.storing import arrays_from, names_of
from holdfast.stepping.frame import Column, Frame, const

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array
    from holdfast.stepping.compiled.kind import CompiledKind
    from holdfast.stepping.stepper import Stepper

Orders = Sequence[tuple[int, int, int]]  # order, actions and messages of the interpreter by then


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made an output. One per agent and commit, so that outputs of one event stay together."""

    agent_name: str
    key: str
    version: int = 0

    def timers(self) -> dict[str, Timer]:
        return {}

    def calls(self) -> dict[str, OpenCall]:
        return {}


def has_outputs(kind: CompiledKind, way: str) -> bool:
    return any(
        output.way == way and len(kind.records_of_output(number))
        for number, output in enumerate(kind.program.outputs)
    )


def merged_actions(
    kinds: Sequence[CompiledKind], own: Sequence[Emitted], orders: Orders
) -> list[Emitted]:
    """With those of the interpreter, in the order in which they were made."""
    found: list[tuple[tuple[int, int], Emitted]] = _placed(own, orders, 1)
    for kind in kinds:
        origins: dict[int, Origin] = {}
        for number, output in enumerate(kind.program.outputs):
            for record in kind.records_of_output(number) if output.way == "emit" else ():
                action = cast(Action, kind.codec.event_of(output.cls, output.slots, record))
                origin = _origin(kind, origins, record)
                emitted = Emitted(origin, int(record["version"]), action, float(record["now"]))
                found.append(((int(record["order"]), -1), emitted))
    return [emitted for _, emitted in sorted(found, key=lambda each: each[0])]


def merged_messages(
    kinds: Sequence[CompiledKind], own: Sequence[Sent], orders: Orders
) -> list[Sent]:
    found: list[tuple[tuple[int, int], Sent]] = _placed(own, orders, 2)
    for kind in kinds:
        origins: dict[int, Origin] = {}
        names = [agent.__name__ for agent in kind.program.destinations]
        for number, output in enumerate(kind.program.outputs):
            for record in kind.records_of_output(number) if output.way == "send" else ():
                event = cast(Event, kind.codec.event_of(output.cls, output.slots, record))
                sent = Sent(
                    _origin(kind, origins, record),
                    names[int(record["to"])],
                    record["key"][: record["key__n"]].tobytes().decode(),
                    event,
                    int(record["hops"]),
                    float(record["now"]),
                )
                found.append(((int(record["order"]), -1), sent))
    return [sent for _, sent in sorted(found, key=lambda each: each[0])]


def _placed(own: Sequence[Any], orders: Orders, which: int) -> list[tuple[tuple[int, int], Any]]:
    """Outputs of the interpreter: each in front of the first kernel output that came after it."""
    counts = [each[which] for each in orders]
    found = []
    for at, output in enumerate(own):
        place = bisect_right(counts, at)
        order = orders[place][0] if place < len(orders) else 1 << 62
        found.append(((order, at - (1 << 62)), output))
    return found


def _origin(kind: CompiledKind, origins: dict[int, Origin], record: Any) -> Origin:
    row = int(record["row"])
    if row not in origins:
        origins[row] = Origin(kind.name, kind.table.key_of(row))
    return origins[row]


def issue_merged(stepper: Stepper, first: int, now: float) -> Issued | None:
    own = stepper.context._effects.actions
    makers = [kind for kind in stepper.compiled if has_outputs(kind, "emit")]
    if len(makers) == 1 and not own:
        return issue(makers[0], first, now)
    merged = merged_actions(makers, own, stepper.orders) if makers else own
    return interpreted.issue(merged, first, now, stepper.codebook)


# As columns.


def issue(kind: CompiledKind, first: int, now: float) -> Issued:
    """The actions of one class of agents, when nobody else made any."""
    classes = [
        (output, kind.records_of_output(number))
        for number, output in enumerate(kind.program.outputs)
        if output.way == "emit"
    ]
    classes = [(output, records) for output, records in classes if len(records)]
    ids = [kind.codebook.id_of(output.cls) for output, _ in classes]
    payload: dict[str, Column] = {}
    for schema, (output, records) in zip(ids, classes, strict=True):
        payload |= payload_columns(schema, output.slots, arrays_from(output.slots, records, "f_"))
    order = np.argsort(np.concatenate([records["order"] for _, records in classes]))

    def column(name: str) -> Array:
        return cast("Array", np.concatenate([records[name] for _, records in classes])[order])

    row, version = column("row"), column("version")
    count = len(order)
    frame = Frame(
        count,
        {
            "agent": const(kind.name),
            "key": names_of(kind, row),
            "version": integers_column(version),
            "index": integers_column(_indexes(row, version)),
            "now": _floats(column("now")),
            "schema": _schemas(ids, [len(records) for _, records in classes], order),
            **payload,
        },
    )
    return Issued(first, count, now, frame.encode())


def _indexes(row: Array, version: Array) -> Array:
    """0, 1, 2, … within the actions of one event, which stand together."""
    places = np.arange(len(row))
    begins = np.ones(len(row), bool)
    begins[1:] = (row[1:] != row[:-1]) | (version[1:] != version[:-1])
    return cast("Array", places - np.maximum.accumulate(np.where(begins, places, 0)))


def _schemas(ids: Sequence[int], counts: Sequence[int], order: Array) -> Column:
    from holdfast.stepping.frame import coded

    if len(ids) == 1:
        return const(ids[0])
    codes = np.repeat(np.arange(len(ids), dtype=np.uint8), counts)[order]
    return coded(ids, codes.tobytes())


def _floats(values: Array) -> Column:
    same = (values == values[0]).all()
    return const(float(values[0])) if same else Column("f64", values.tobytes())
