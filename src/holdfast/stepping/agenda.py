"""The agenda: when the next timer or expiry of a partition is due.

Entries are hints: a cancelled or replaced timer leaves its entry behind, and the stepper looks at
the agent itself before it fires anything.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from holdfast.stepping.cell import Cell


class Entry(NamedTuple):
    due: float
    order: int
    cell: Cell
    name: str | None  # None: look whether the agent has expired


class Agenda:
    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._order = 0

    def add(self, due: float, cell: Cell, name: str | None) -> None:
        self._order += 1
        heapq.heappush(self._heap, Entry(due, self._order, cell, name))

    @property
    def next_due(self) -> float | None:
        return self._heap[0].due if self._heap else None

    def pop_due(self, until: float) -> Entry | None:
        if self._heap and self._heap[0].due <= until:
            return heapq.heappop(self._heap)
        return None

    def put_back(self, entry: Entry) -> None:
        heapq.heappush(self._heap, entry)
