"""Consignments: events of many sources sent together, each under its own number.

A gateway gets what many devices have numbered themselves. What goes to one partition is appended in
one transaction, whoever it is from; what is refused of one source holds up no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias, TypeVar

from holdfast.engine.port import Parcel, Taken
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.keys import plain_text
from holdfast.runtime.reached import Reached
from holdfast.runtime.routing import Router
from holdfast.runtime.sending import (
    Receipt,
    check_count,
    check_numbers,
    check_source,
    make_parcel,
)
from holdfast.stepping.inputs import external_frame
from holdfast.stepping.rows import raw_payload
from holdfast.stepping.traces import trace_columns

# Of sources that stand for one send: forgotten like those of handles, ten minutes after it.
ONCE = "~once-"


def source_once(*words: str) -> str:
    """The source of a send that has a name of its own: the same name again is a repeat."""
    return ONCE + hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:40]


class Numbered(NamedTuple):
    """One event for one agent, packed, and how its source has numbered it."""

    agent: str
    key: str
    schema: int
    row: bytes
    source: str
    seq: int
    event_time: float | None = None
    previous: int | None = None
    trace: str = ""  # its context


@dataclass
class Outcome:
    """What became of a consignment. `refused` has the rows that are not stored, and why."""

    reached: Reached = field(default_factory=Reached)
    repeats: int = 0
    refused: list[tuple[list[int], HoldfastError]] = field(default_factory=list)

    def take(self, rows: list[int], result: list[tuple[int, Taken]] | HoldfastError) -> None:
        if isinstance(result, HoldfastError):
            self.refused.append((rows, result))
            return
        self.repeats += len(rows)
        for number, taken in result:
            for place in taken.places:
                self.reached.add(number, place)
            self.repeats -= taken.new

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.reached.positions, self.repeats)


# Of a parcel: its source, columns it lacks, and whether it is urgent. Who numbers by agent has all
# in one, to be judged in order.
_Form: TypeAlias = tuple[str, bool, bool, bool]
T = TypeVar("T")


class _Part(NamedTuple):
    """Rows of one source for one partition, by their index."""

    rows: list[int]
    parcel: Parcel


def consign(router: Router, rows: Sequence[Numbered], timeout: float) -> Outcome:
    """Append all that can be; a repeat is a no-op. What is wrong with a row itself is raised."""
    (outcome,) = consign_together(router, [rows], timeout)
    if isinstance(outcome, HoldfastError):
        raise outcome
    return outcome


def consign_together(
    router: Router, consignments: Sequence[Sequence[Numbered]], timeout: float
) -> list[Outcome | HoldfastError]:
    """Those of several senders, which share transactions and nothing else."""
    found: list[Outcome | HoldfastError] = []
    parts: dict[int, list[tuple[Outcome, _Part]]] = {}
    for rows in consignments:
        try:
            own = _parts(router, rows)
        except HoldfastError as error:
            found.append(error)
            continue
        outcome = Outcome()
        found.append(outcome)
        for partition, some in own.items():
            parts.setdefault(partition, []).extend((outcome, part) for part in some)
    for partition, given in parts.items():
        results = router.append_together(partition, [part.parcel for _, part in given], timeout)
        for (outcome, part), result in zip(given, results, strict=True):
            outcome.take(part.rows, result)
    return found


def _parts(router: Router, rows: Sequence[Numbered]) -> dict[int, list[_Part]]:
    """By partition; in each of them an agent's rows stand in the order they were given."""
    check_count(len(rows))
    for row in rows:
        check_numbers(row.seq, row.previous, row.event_time)
    if len({(row.source, row.seq) for row in rows}) != len(rows):
        raise UsageError("a source sends two events under one number: number each of them")
    urgent = router.urgent([row.schema for row in rows]) or [False] * len(rows)
    found: dict[int, list[_Part]] = {}
    for share in router.split([row.key for row in rows]):
        own = list(share.of(range(len(rows))))
        found[share.partition] = [
            _Part(indexes, _parcel([rows[i] for i in indexes], [urgent[i] for i in indexes]))
            for indexes in _groups(rows, own, urgent)
        ]
    return found


def _groups(
    rows: Sequence[Numbered], own: Sequence[int], urgent: Sequence[bool]
) -> list[list[int]]:
    """Rows of one source and form together; where that would put an agent's rows in another order,
    only those that follow each other. Urgent ones overtake others in any case."""
    groups: dict[_Form, list[int]] = {}
    forms: dict[str, _Form] = {}
    for index in own:
        row = rows[index]
        form = _form(row, urgent[index])
        if forms.setdefault(row.key, form)[:3] != form[:3]:
            return [list(run) for _, run in groupby(own, key=lambda i: _form(rows[i], urgent[i]))]
        groups.setdefault(form, []).append(index)
    return list(groups.values())


def _form(row: Numbered, urgent: bool) -> _Form:
    free = row.previous is None
    return row.source, row.event_time is None, free, free and urgent


def _parcel(rows: Sequence[Numbered], urgent: Sequence[bool]) -> Parcel:
    source = rows[0].source
    if not source.startswith(ONCE):
        check_source(source)
    seqs = _as_range([row.seq for row in rows])
    times, previous = [row.event_time for row in rows], [row.previous for row in rows]
    frame = external_frame(
        [row.agent for row in rows],
        [row.key for row in rows],
        raw_payload([row.schema for row in rows], [row.row for row in rows]),
        source=plain_text(source),
        seqs=seqs,
        event_times=_all(times),
        previous=_all(previous),
        urgent=urgent,
    )
    frame.columns |= trace_columns([row.trace for row in rows], len(rows))
    return make_parcel(frame, source, seqs)


def _all(values: Iterable[T | None]) -> list[T] | None:
    return [value for value in values if value is not None] or None


def _as_range(seqs: list[int]) -> range | list[int]:
    run = range(seqs[0], seqs[0] + len(seqs))
    if seqs == list(run):
        return run
    return seqs
