"""The agenda: when the next timer or expiry of a partition is due.

Entries are hints: a timer that was cancelled or put off leaves its entry behind, and whoever takes
an entry looks at the agent itself before it fires anything. An agent has one valid entry per timer,
never later than the timer is due, so that a watchdog set anew by every event costs one entry.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from holdfast.stepping.cell import Cell


class Entry(NamedTuple):
    """Compared from left to right: what is due at one time has one order, in every process."""

    due: float
    agent: str
    key: str
    label: str
    order: int
    cell: Cell
    name: str | None  # None: look whether the agent has expired


class Agenda:
    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._valid: dict[tuple[Cell, str | None], float] = {}
        self._order = 0

    def add(self, due: float, cell: Cell, name: str | None) -> None:
        earlier = self._valid.get((cell, name))
        if earlier is not None and earlier <= due:
            return  # whoever takes that one finds the timer put off, and adds it again
        self._valid[cell, name] = due
        self._order += 1
        entry = Entry(due, cell.agent_name, cell.key, name or "", self._order, cell, name)
        heapq.heappush(self._heap, entry)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_due(self) -> float | None:
        return self._heap[0].due if self._heap else None

    def pop_due(self, until: float) -> Entry | None:
        while self._heap and self._heap[0].due <= until:
            entry = heapq.heappop(self._heap)
            if self._valid.get((entry.cell, entry.name)) == entry.due:
                del self._valid[entry.cell, entry.name]
                return entry
        return None

    def put_back(self, entry: Entry) -> None:
        self.add(entry.due, entry.cell, entry.name)


class NoAgenda(Agenda):
    """For a fold that follows a script: what is due is what the script says."""

    def add(self, due: float, cell: Cell, name: str | None) -> None:
        pass
