"""When timers of a compiled class are due. Entries are hints, as in `stepping.agenda`.

Most entries belong to timers in slots of rows: they stand in arrays sorted by time, and a watchdog
that was put off is found and put back without an object of Python. The others are in a heap.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from holdfast.stepping.compiled.kind import CompiledKind

_FEW = 64  # so many new entries are cheaper in the heap than a merge of the arrays
_LINE = np.dtype([("due", "<f8"), ("row", "<i8"), ("timer", "<i8")])
Hint = tuple[float, int, str]  # due, row, name


class RowAgenda:
    def __init__(self, kind: CompiledKind, names: list[str]) -> None:
        self._kind = kind
        self._names = names  # of the timers in slots
        self._numbers = {name: number for number, name in enumerate(names)}
        self._heap: list[Hint] = []
        self._line = np.zeros(0, _LINE)  # sorted by time, from `_at` on
        self._at = 0
        self._beside: dict[tuple[int, str], float] = {}  # valid hints of timers without a slot
        self._ready: list[tuple[str, Hint]] = []  # due at one time, with their keys, first last

    def __len__(self) -> int:
        return len(self._heap) + len(self._line) - self._at

    @property
    def next_due(self) -> float | None:
        self._kind.settle()
        dues = [self._heap[0][0]] if self._heap else []
        dues += [self._ready[-1][1][0]] if self._ready else []
        if self._at < len(self._line):
            dues.append(float(self._line["due"][self._at]))
        return min(dues, default=None)

    def add_many(self, rows: np.ndarray, timers: np.ndarray, dues: np.ndarray) -> None:
        """Timers in slots, whose rows say already that they are queued."""
        if len(rows) <= _FEW:
            for due, row, timer in zip(dues.tolist(), rows.tolist(), timers.tolist(), strict=True):
                heapq.heappush(self._heap, (due, row, self._names[timer]))
            return
        added = np.zeros(len(rows), _LINE)
        added["due"], added["row"], added["timer"] = dues, rows, timers
        line = np.concatenate([self._line[self._at :], added])
        self._line, self._at = line[np.argsort(line["due"], kind="stable")], 0

    def add_slot(self, row: int, number: int) -> None:
        """A timer in a slot, unless an earlier hint will find it."""
        record = self._kind.table.rows[row]
        due, queued = float(record[f"t{number}_due"]), float(record[f"t{number}_queued"])
        if due and (queued == 0.0 or queued > due):
            record[f"t{number}_queued"] = due
            heapq.heappush(self._heap, (due, row, self._names[number]))

    def add_beside(self, row: int, name: str, due: float) -> None:
        earlier = self._beside.get((row, name))
        if earlier is None or earlier > due:
            self._beside[row, name] = due
            heapq.heappush(self._heap, (due, row, name))

    def put_back(self, hint: Hint) -> None:
        """It was taken in a batch that is undone: what it stood for may be set, or due later."""
        due, row, name = hint
        number = self._numbers.get(name)
        if number is None or not self._kind.table.rows[row][f"t{number}_due"]:
            self.add_beside(row, name, due)
            return
        queued = float(self._kind.table.rows[row][f"t{number}_queued"])
        if queued == 0.0 or queued > due:
            self._kind.table.rows[row][f"t{number}_queued"] = due
            heapq.heappush(self._heap, hint)

    def first(self, until: float) -> tuple[float, str, str] | None:
        """Due, key and name of the timer that fires first, of those due by then."""
        self._kind.settle()
        self._unload(until)
        while True:
            self._line_up(until)
            if not self._ready or self._ready[-1][1][0] > until:
                return None
            key, (due, row, name) = self._ready[-1]
            if self._holds((due, row, name)):
                return due, key, name
            self._ready.pop()

    def take(self) -> Hint:
        """The one that `first` has found."""
        _, found = self._ready.pop()
        self._forget(found)
        return found

    def _line_up(self, until: float) -> None:
        """What is due at one time, by key and name: every process fires in one order."""
        due = self._ready[-1][1][0] if self._ready else until
        if not self._heap or self._heap[0][0] > due:
            return
        due = self._heap[0][0]
        if self._ready and self._ready[-1][1][0] > due:
            for _, hint in self._ready:
                heapq.heappush(self._heap, hint)
            self._ready = []
        found = {hint for _, hint in self._ready}
        while self._heap and self._heap[0][0] == due:
            found.add(heapq.heappop(self._heap))
        key_of = self._kind.table.key_of
        ready = [(key_of(hint[1]), hint) for hint in found]
        self._ready = sorted(ready, key=lambda each: (each[0], each[1][2]), reverse=True)

    def _holds(self, hint: Hint) -> bool:
        """Whether a timer stands behind it. One that was put off gets a new hint."""
        due, row, name = hint
        record = self._kind.table.rows[row]
        number = self._numbers.get(name)
        if number is not None and float(record[f"t{number}_queued"]) == due:
            set_for = float(record[f"t{number}_due"])
            if set_for and set_for <= due:
                return True
            record[f"t{number}_queued"] = 0.0
            self.add_slot(row, number)
            # The timer may have left its slot, and be due beside it at the same time.
        if self._beside.get((row, name)) != due:
            return False
        timer = self._kind.timers_beside(row).get(name)
        if timer is not None and timer.due <= due:
            return True
        del self._beside[row, name]
        if timer is not None:
            self.add_beside(row, name, timer.due)
        return False

    def _forget(self, hint: Hint) -> None:
        due, row, name = hint
        number = self._numbers.get(name)
        record = self._kind.table.rows[row]
        if number is not None and float(record[f"t{number}_queued"]) == due:
            record[f"t{number}_queued"] = 0.0
        if self._beside.get((row, name)) == due:
            del self._beside[row, name]

    def _unload(self, until: float) -> None:
        """Move what is due by then to the heap. What was put off goes back, and may be due too."""
        stop = int(np.searchsorted(self._line["due"][self._at :], until, "right")) + self._at
        if stop == self._at:
            return
        due = self._line[self._at : stop]
        self._at = stop
        rows = self._kind.table.rows
        later: list[np.ndarray] = []
        for number, name in enumerate(self._names):
            mine = due[due["timer"] == number]
            own = rows[f"t{number}_queued"][mine["row"]] == mine["due"]
            mine = mine[own]
            set_for = rows[f"t{number}_due"][mine["row"]]
            for each in mine[(set_for != 0.0) & (set_for <= mine["due"])]:
                heapq.heappush(self._heap, (float(each["due"]), int(each["row"]), name))
            rows[f"t{number}_queued"][mine["row"][set_for == 0.0]] = 0.0
            off = mine[set_for > mine["due"]]
            off["due"] = rows[f"t{number}_due"][off["row"]]
            rows[f"t{number}_queued"][off["row"]] = off["due"]
            later.append(off)
        put_off = np.concatenate(later) if later else np.zeros(0, _LINE)
        if len(put_off):
            self.add_many(put_off["row"], put_off["timer"], put_off["due"])
            self._unload(until)
