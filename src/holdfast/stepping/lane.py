"""The urgent lane: events from outside and commands that overtake what waits in the inbox.

They stand beside the inbox, each in a frame of its own, under numbers from LANE on. The worker
folds them before the next event that waits. Which one that is depends on when it looked, so each
is journalled like a timer that fires, with its whole row: inbox and journal stay the full order.
Messages between agents never overtake each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from holdfast.model.event import Event
from holdfast.stepping.commit import Head
from holdfast.stepping.frame import RUNS, Column, Frame, codes, const, runs
from holdfast.stepping.rows import raw_payload, read_raw_payload, select

LANE = 1 << 52  # no inbox gets there, and programs that have floats only still count exactly
TAKEN_NAME = "~urgent"  # of these firings in the journal
URGENT = "urgent"  # the column that says which rows are
# Commands that overtake what waits, as urgent events do.
AT_ONCE = {"ground-stop", "lift-ground-stop", "override", "pause", "resume"}


def urgent_columns(flags: Sequence[bool]) -> dict[str, Column]:
    """Nothing where no row is urgent, which is nearly always."""
    return {URGENT: codes(flags)} if any(flags) else {}


def is_urgent(event: type[Event]) -> bool:
    return event.__holdfast__.priority == "urgent"


def urgent_among(events: Sequence[Event]) -> Sequence[bool]:
    """Which of them are; empty where none is, as nearly always."""
    classes = set(map(type, events))
    if not any(map(is_urgent, classes)):
        return ()
    return [len(classes) == 1 or is_urgent(type(event)) for event in events]


def in_lane(number: int) -> bool:
    """Whether this is a place in the lane, or what an append gave for one."""
    return number >= LANE


def is_folded(head: Head, following: int) -> bool:
    """Whether everything before a position, or before a place in the lane, is."""
    reached = LANE + head.urgent if in_lane(following) else head.position
    return reached >= following


def wholly_urgent(frame: Frame) -> bool:
    return frame.constant(URGENT) is True


def partly_urgent(frame: Frame) -> bool:
    return URGENT in frame and not wholly_urgent(frame)


def divided(frame: Frame) -> tuple[list[Frame], Frame | None]:
    """The urgent rows, one by one, and the frame of the others. Most frames are all others."""
    if URGENT not in frame:
        return [], frame
    flags = cast(list[bool], frame.values(URGENT))
    urgent = [row for row, flag in enumerate(flags) if flag]
    others = [row for row, flag in enumerate(flags) if not flag]
    if not urgent:
        return [], frame
    return list(_singles(select(frame, urgent))), select(frame, others) if others else None


def _singles(frame: Frame) -> Iterator[Frame]:
    names = [n for n in frame.columns if n != "schema" and not n.startswith(("rows.", "cols."))]
    values = {name: cast(list[object], frame.values(name)) for name in names}
    kinds = {name: frame.columns[name].kind for name in names}
    payloads = read_raw_payload(frame) if "schema" in frame else None
    for row in range(frame.count):
        columns = {name: _single(kinds[name], column[row]) for name, column in values.items()}
        if payloads is not None:
            schema, packed = payloads[row]
            columns |= raw_payload([schema], [packed])
        yield Frame(1, columns)


def _single(kind: str, value: object) -> Column:
    """Runs stay what they are, since who reads them expects nothing else."""
    return runs([value]) if kind == RUNS else const(value)
