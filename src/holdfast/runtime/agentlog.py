"""The log of one agent: every input it took that retention has kept, in the order of the fold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.engine.port import Catalog, Engine, View
from holdfast.errors import DamagedData
from holdfast.model.keys import slot_of
from holdfast.stepping.inputs import StoredFrame, rows_of
from holdfast.stepping.script import read_firings

_FRAMES_AT_ONCE = 256
_EVENTS_AT_ONCE = 65_536


class Rows(NamedTuple):
    """Rows of an inbox frame that one agent took, with nothing in between."""

    partition: int
    stored: StoredFrame
    rows: list[int]
    before: int | None = None  # of an urgent event: the inbox position that it overtook


class Rang(NamedTuple):
    """A timer (or, without an event, an expiry) as it was journalled before an inbox position."""

    partition: int
    position: int
    name: str
    due: float
    now: float
    event: tuple[int, bytes] | None  # schema, row


def partitions_of(catalog: Catalog, key: str) -> list[int]:
    """Where an agent has lived: the retired partitions, then the one it lives in."""
    layout, slot = catalog.layout, slot_of(key)
    before = (n for n, slots in catalog.retired.items() if n < layout.first and slot in slots)
    return [*sorted(before), layout.partition_of(key)]


def inputs_of(engine: Engine, agent: str, key: str) -> Iterator[Rows | Rang]:
    """Every input of one agent that retention has kept, in the order it was folded."""
    for number in partitions_of(engine.catalog, key):
        yield from _inputs_in(number, engine.view(number), agent, key)


def _inputs_in(number: int, view: View, agent: str, key: str) -> Iterator[Rows | Rang]:
    end = view.head().position
    journal = deque(_journal_of(number, view, agent, key))
    position = view.inbox_first()
    while position < end:
        batch = view.frames(position, _EVENTS_AT_ONCE)
        if not batch and view.inbox_first() > position:
            position = view.inbox_first()  # retention went past us
            continue
        if not batch:
            raise DamagedData(
                f"p{number:03d}: {end} events were folded, but the "
                f"inbox ends at {position}: `holdfast doctor --salvage` lists what is intact"
            )
        for stored in batch:
            position = stored.first + stored.count
            mine = deque(i for i in rows_of(stored, agent, key) if stored.first + i < end)
            while mine:
                while journal and journal[0][0] <= stored.first + mine[0]:
                    yield journal.popleft()[1]
                until = journal[0][0] if journal else end
                rows = []
                while mine and stored.first + mine[0] < until:
                    rows.append(mine.popleft())
                yield Rows(number, stored, rows)
    yield from (each for before, each in journal if before <= end)


def _journal_of(number: int, view: View, agent: str, key: str) -> Iterator[tuple[int, Rows | Rang]]:
    """What came from no inbox, or before its turn, with the position it came before."""
    first = 0
    while batch := view.journal(first, _FRAMES_AT_ONCE):
        for journalled in batch:
            first = journalled.first + journalled.count
            for each in read_firings(journalled):
                if (each.agent, each.key) != (agent, key):
                    continue
                if (stored := each.taken) is not None:
                    yield each.position, Rows(number, stored, [0], each.position)
                else:
                    about = (each.position, each.name, each.due, each.now, each.event)
                    yield each.position, Rang(number, *about)
