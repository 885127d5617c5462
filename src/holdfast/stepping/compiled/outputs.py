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

from holdfast.model.effects import Emitted, OpenCall, Sent, Timer
from holdfast.model.event import Action, Event
from holdfast.model.keys import Layout
from holdfast.stepping import outputs as interpreted
from holdfast.stepping.columns import integers_column, payload_columns
from holdfast.stepping.commit import Issued, Outgoing
from holdfast.stepping.compiled.storing import arrays_from, names_of
from holdfast.stepping.compiled.table import Table
from holdfast.stepping.frame import Column, Frame, coded, const
from holdfast.stepping.traces import trace_columns

if TYPE_CHECKING:
    from holdfast.model.compiling.program import Output
    from holdfast.stepping.arrays import Array
    from holdfast.stepping.compiled.kind import CompiledKind
    from holdfast.stepping.stepper import Stepper

Orders = Sequence[tuple[int, int, int]]  # order, actions and messages of the interpreter by then


@dataclass(slots=True)
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
                version, trace = int(record["version"]), _trace(kind, record)
                emitted = Emitted(origin, version, action, float(record["now"]), trace=trace)
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
                    _trace(kind, record),
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


def _trace(kind: CompiledKind, record: Any) -> str:
    place = int(record["row"]), int(record["version"]), int(record["order"])
    return kind.contexts.of(kind, *place)


def issue_merged(stepper: Stepper, first: int, now: float) -> Issued | None:
    own = stepper.context._effects.actions
    makers = [kind for kind in stepper.compiled if has_outputs(kind, "emit")]
    if len(makers) == 1 and not own:
        return _issue(Made(makers[0], "emit"), first, now)
    merged = merged_actions(makers, own, stepper.orders) if makers else own
    return interpreted.issue(merged, first, now, stepper.codebook, stepper.carries)


def dispatch_merged(stepper: Stepper, sent_next: dict[int, int]) -> list[Outgoing]:
    own = stepper.context._effects.messages
    makers = [kind for kind in stepper.compiled if has_outputs(kind, "send")]
    if len(makers) == 1 and not own:
        return _dispatch(Made(makers[0], "send"), stepper.layout, sent_next)
    merged = merged_messages(makers, own, stepper.orders) if makers else own
    return interpreted.dispatch(
        merged, stepper.layout, sent_next, stepper.codebook, stepper.carries
    )


# As columns.


class Made:
    """Outputs of one kernel that go one way, in the order in which they were made."""

    def __init__(self, kind: CompiledKind, way: str) -> None:
        found = [
            (output, kind.records_of_output(number))
            for number, output in enumerate(kind.program.outputs)
            if output.way == way
        ]
        self.kind = kind
        self._classes = [(output, records) for output, records in found if len(records)]
        counts = [len(records) for _, records in self._classes]
        self._count = sum(counts)
        self._mixed = len(counts) > 1  # those of one class are in order as they are
        if self._mixed:
            self._order = np.argsort(np.concatenate([r["order"] for _, r in self._classes]))
            self._code = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)[self._order]

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Array:
        if not self._mixed:
            return np.ascontiguousarray(self._classes[0][1][name])
        return np.concatenate([r[name] for _, r in self._classes])[self._order]

    def contexts(self) -> Sequence[str]:
        """Of each; "" where none has any."""
        if not self.kind.contexts:
            return ""
        columns = (self.column(name) for name in ("row", "version", "order"))
        return self.kind.contexts.of_all(self.kind, *columns)

    def payload(self, members: Array | None = None) -> dict[str, Column]:
        """Of all, or of some, which are given by their places in ascending order."""
        if not self._mixed:
            output, records = self._classes[0]
            schema, columns = self._payload_of(
                output, records if members is None else records[members]
            )
            return {"schema": const(schema), **columns}
        code = self._code if members is None else self._code[members]
        ids: list[int] = []
        merged: dict[str, Column] = {}
        for number, (output, records) in enumerate(self._classes):
            if not (code == number).any():
                continue
            if members is not None:
                place = np.cumsum(self._code == number) - 1
                records = records[place[members[code == number]]]
            schema, columns = self._payload_of(output, records)
            ids.append(schema)
            merged |= columns
        _, codes = np.unique(code, return_inverse=True)
        return {"schema": _coded(ids, codes), **merged}

    def _payload_of(self, output: Output, records: Array) -> tuple[int, dict[str, Column]]:
        schema = self.kind.codebook.id_of(output.cls)
        arrays = arrays_from(output.slots, records, "f_")
        return schema, payload_columns(schema, output.slots, arrays)


def _issue(made: Made, first: int, now: float) -> Issued:
    """The actions of one class of agents, when nobody else made any."""
    row, version = made.column("row"), made.column("version")
    frame = Frame(
        len(made),
        {
            "agent": const(made.kind.name),
            "key": names_of(made.kind.table, row),
            "version": integers_column(version),
            "index": integers_column(_indexes(row, version)),
            "now": _floats(made.column("now")),
            **made.payload(),
            **trace_columns(made.contexts(), len(made)),
        },
    )
    return Issued(first, len(made), now, frame.encode())


def _indexes(row: Array, version: Array) -> Array:
    """0, 1, 2, … within the actions of one event, which stand together."""
    places = np.arange(len(row))
    begins = np.ones(len(row), bool)
    begins[1:] = (row[1:] != row[:-1]) | (version[1:] != version[:-1])
    return cast("Array", places - np.maximum.accumulate(np.where(begins, places, 0)))


def _dispatch(made: Made, layout: Layout, sent_next: dict[int, int]) -> list[Outgoing]:
    """The messages of one class of agents, when nobody else sent any."""
    kind = made.kind
    length = made.column("key__n")
    bounds = np.zeros(len(made) + 1, np.uint32)
    np.cumsum(length, out=bounds[1:])
    keys = made.column("key")
    names = keys[np.arange(keys.shape[1]) < length[:, None]]
    table = Table([("version", "<i8")])
    to = table.place(names, bounds)
    partition = np.array(layout.partition_by_slot)[table.slots[to]]
    row, agent, hops, now = (made.column(name) for name in ("row", "to", "hops", "now"))
    agents = [cls.__name__ for cls in kind.program.destinations]
    contexts = made.contexts()
    outgoing = []
    for destination in np.unique(partition).tolist():
        members = np.flatnonzero(partition == destination)
        frame = Frame(
            len(members),
            {
                "origin": const("message"),
                "agent": _coded(agents, agent[members]),
                "key": names_of(table, to[members]),
                "from_agent": const(kind.name),
                "from_key": names_of(kind.table, row[members]),
                "hops": integers_column(hops[members]),
                "event_time": Column("f64", now[members].tobytes()),
                **made.payload(members),
                **trace_columns(_chosen(contexts, members), len(members)),
            },
        )
        first = sent_next.get(destination, 1)
        sent_next[destination] = first + len(members)
        outgoing.append(Outgoing(destination, first, len(members), frame.encode()))
    return outgoing


def _chosen(contexts: Sequence[str], members: Array) -> Sequence[str]:
    return [contexts[place] for place in members.tolist()] if contexts else ""


def _coded(table: Sequence[Any], codes: Array) -> Column:
    """The value of every row, by its place in the table."""
    if (codes == codes[0]).all():
        return const(table[int(codes[0])])
    return coded(table, codes.astype(np.uint8).tobytes())


def _floats(values: Array) -> Column:
    same = (values == values[0]).all()
    return const(float(values[0])) if same else Column("f64", values.tobytes())
