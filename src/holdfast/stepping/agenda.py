"""The agenda: when the next timer or expiry of a partition is due.

Entries are hints: a timer that was cancelled or put off leaves its entry behind, and whoever takes
an entry looks at the agent itself before it fires anything. An agent has one valid entry per timer,
never later than the timer is due, so that a watchdog set anew by every event costs one entry.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from holdfast.stepping.cell import Cell

if TYPE_CHECKING:
    from holdfast.stepping.compiled.kind import CompiledKind


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
    def __init__(self, compiled: Sequence[CompiledKind] = ()) -> None:
        self._compiled = compiled  # kinds that keep their own
        self._heap: list[Entry] = []
        self._valid: dict[tuple[Cell, str | None], float] = {}
        self._order = 0

    def add(self, due: float, cell: Cell, name: str | None) -> None:
        if cell.kind.compiled:
            return  # it adds its timers when it takes the cell back
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
        dues = [self._heap[0].due] if self._heap else []
        dues += [due for kind in self._compiled if (due := kind.agenda.next_due) is not None]
        return min(dues, default=None)

    def pop_due(self, until: float) -> Entry | None:
        own = self._own_first(until)
        for kind in self._compiled:
            found = kind.agenda.first(until)
            if found is None or (own is not None and own < (found[0], kind.name, *found[1:])):
                continue
            return self._pop_compiled(until)
        if own is not None:
            heapq.heappop(self._heap)
            del self._valid[own.cell, own.name]
        return own

    def _own_first(self, until: float) -> Entry | None:
        while self._heap and self._heap[0].due <= until:
            entry = self._heap[0]
            if self._valid.get((entry.cell, entry.name)) == entry.due:
                return entry
            heapq.heappop(self._heap)
        return None

    def _pop_compiled(self, until: float) -> Entry:
        """One of a compiled kind comes first: the first of them all."""
        firsts = [(found, kind) for kind in self._compiled if (found := kind.agenda.first(until))]
        _, kind = min(firsts, key=lambda each: (each[0][0], each[1].name, *each[0][1:]))
        due, row, name = kind.agenda.take()
        cell = kind.lend(row)
        return Entry(due, cell.agent_name, cell.key, name, 0, cell, name)

    def put_back(self, entry: Entry) -> None:
        if entry.cell.kind.compiled:
            kind = cast("CompiledKind", entry.cell.kind)
            kind.agenda.put_back((entry.due, entry.cell.row, entry.label))
        else:
            self.add(entry.due, entry.cell, entry.name)


class NoAgenda(Agenda):
    """For a fold that follows a script: what is due is what the script says."""

    def add(self, due: float, cell: Cell, name: str | None) -> None:
        pass
