"""A compiled class of agents: its table, and the cells it lends to the interpreter.

Whatever the kernel does not know runs on a cell: made from the row, changed by the interpreter, and
taken back before the kernel runs again. What a row cannot hold of an agent stands aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from holdfast.model.agent import Agent
from holdfast.model.compiling.module import COUNTS
from holdfast.model.compiling.program import CONTROLS, QUEUE_DESCR, Program
from holdfast.model.effects import Timer
from holdfast.stepping.blocks import Block
from holdfast.stepping.cell import Cell, Extras, Kind
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.compiled import storing
from holdfast.stepping.compiled.agenda import RowAgenda
from holdfast.stepping.compiled.codec import Codec, DoesNotFit
from holdfast.stepping.compiled.following import Contexts
from holdfast.stepping.compiled.reading import Reader
from holdfast.stepping.compiled.table import Table
from holdfast.stepping.record import Record

_OUTPUTS_AT_FIRST = 4096
_SCRATCH = 2**16
_ENOUGH = 10_000  # events to judge a kernel by
_TOO_MANY = 0.1  # a larger share given back costs more than the kernel gains
_pack = msgspec.msgpack.Encoder().encode


class Kernel(NamedTuple):
    """A class as compiled: what was lowered, and the function it became."""

    program: Program
    fold: Callable[..., None]


class Aside(NamedTuple):
    """What a row cannot hold. A state with an integer of more than 64 bits is here as a whole."""

    extras: Extras
    state: bytes = b""


class CompiledKind(Kind):
    compiled = True

    def __init__(self, cls: type[Agent], codebook: Codebook, fleet: str, kernel: Kernel) -> None:
        super().__init__(cls, codebook)
        self.program = program = kernel.program
        self.fold = kernel.fold
        self.codec = Codec(program, codebook)
        self.table = Table(program.state_descr())
        self.codec.put_agent(self.table.default[0], cls())
        self.agenda = RowAgenda(self, [each.name for each in program.timers])
        self.reader = Reader(self)
        self.aside: dict[int, Aside] = {}
        self._aside_before: dict[int, Aside | None] = {}  # of those changed in this batch
        self._lent: dict[int, Cell] = {}
        self._changed: set[int] = set()  # rows of lent cells
        self.folded = self.given_up = 0  # events that came to the kernel, and that it gave back
        self._judged = False
        # What the kernel works with, as `model.compiling.program` says.
        self.batch = 0
        self.controls = np.zeros(CONTROLS, np.int64)
        self.clock = np.array([0.0, 0.0, 1.0])
        self.before = np.zeros(_OUTPUTS_AT_FIRST, self.table.dtype)
        self.touched = np.zeros(_OUTPUTS_AT_FIRST, np.int64)
        self.undo = np.zeros(1, self.table.dtype)
        self.random = np.zeros(64, np.uint64)
        self.queue = np.zeros(_OUTPUTS_AT_FIRST, QUEUE_DESCR)
        self.outputs = [np.zeros(_OUTPUTS_AT_FIRST, out.descr()) for out in program.outputs]
        texts = np.frombuffer("".join(program.texts).encode("utf-32-le"), np.uint32)
        self.scratch = np.zeros(_SCRATCH + len(texts), np.uint32)
        self.scratch[: len(texts)] = texts
        self.contexts = Contexts()
        self.prefix = np.frombuffer(f"{fleet}\0{self.name}\0".encode(), np.uint8).copy()

    # Lending.

    def find(self, key: str) -> Cell | None:
        """None unless it is an agent: one that took an event, or is stored, or is lent."""
        row = self.table.find(key)
        if row is None:
            return None
        record = self.table.rows[row]
        if record["version"] or record["updated"] or row in self.aside:
            return self.lend(row)
        return self._lent.get(row)

    def known_keys(self) -> Iterator[str]:
        self.settle()
        rows = self.table.rows[: self.table.count]
        agents = (rows["version"] != 0) | (rows["updated"] != 0.0)
        agents[list(self.aside)] = True
        return map(self.table.key_of, np.flatnonzero(agents).tolist())

    def lend(self, row: int) -> Cell:
        cell = self._lent.get(row)
        if cell is None:
            cell = self._lent[row] = self._make_cell(row)
        return cell

    def _make_cell(self, row: int) -> Cell:
        record = self.table.rows[row]
        cell = Cell(self, self.table.key_of(row), None)
        cell.row = row
        cell.version, cell.updated = int(record["version"]), float(record["updated"])
        cell.batch = int(record["batch"])
        aside = self.aside.get(row)
        if aside is not None and aside.state:
            cell.agent = self.codebook.reader_of(self.schema).row(aside.state)  # type: ignore[assignment]
        else:
            cell.agent = self.codec.agent(record)
        extras = aside.extras.copy() if aside is not None else Extras()
        extras.timers = {**self.codec.timers(record), **extras.timers}
        cell.extras = extras if extras else None
        return cell

    def touch(self, cell: Cell, batch: int, touched: list[Cell]) -> None:
        """The interpreter has changed it."""
        if cell.row < 0:
            cell.row = self.table.row_for(cell.key)
            self._lent[cell.row] = cell
        cell.batch = batch
        self._changed.add(cell.row)
        self.touch_row(cell.row)

    def touch_row(self, row: int) -> None:
        record = self.table.rows[row]
        if record["batch"] == self.batch:
            return
        count = int(self.controls[1])
        self.make_room(1)
        self.before[count] = record
        self.touched[count] = row
        self.controls[1] = count + 1
        record["batch"] = self.batch

    def make_room(self, events: int) -> None:
        """For the images of as many agents as these events can change."""
        needed = int(self.controls[1]) + min(events, self.table.count)
        if needed > len(self.touched):
            size = max(needed, 2 * len(self.touched))
            self.before = _enlarged(self.before, size)
            self.touched = _enlarged(self.touched, size)

    def place(self, cell: Cell) -> None:
        """A paused agent stands where it stood."""

    def settle(self) -> None:
        """Take back what was lent."""
        for row in sorted(self._changed):
            self.take(self._lent[row])
        self._changed.clear()
        self._lent.clear()

    def take(self, cell: Cell) -> None:
        """What a cell holds, into its row."""
        row = cell.row
        record = self.table.rows[row]
        record["version"], record["updated"] = cell.version, cell.updated
        state = b""
        try:
            self.codec.put_agent(record, cell.wake())
        except DoesNotFit:
            state = _pack(cell.agent)
        extras = cell.extras.copy() if cell.extras is not None else Extras()
        record["timers"] = len(extras.timers)
        extras.timers = self.codec.put_timers(record, extras.timers)
        self.put_aside(row, Aside(extras, state) if extras or state else None)
        for number in range(len(self.program.timers)):
            self.agenda.add_slot(row, number)

    def put_aside(self, row: int, aside: Aside | None) -> None:
        self._aside_before.setdefault(row, self.aside.get(row))
        self.table.rows[row]["flags"] = 0
        if aside is None:
            self.aside.pop(row, None)
            return
        self.aside[row] = aside
        extras = aside.extras
        # A timer without a slot, but with the name of one, is not seen by the kernel.
        unseen = any(name in self.codec.timer_numbers for name in extras.timers)
        if extras.paused or extras.held or aside.state or unseen:
            self.table.rows[row]["flags"] = 1
        for name, timer in extras.timers.items():
            self.agenda.add_beside(row, name, timer.due)

    def timers_beside(self, row: int) -> dict[str, Timer]:
        aside = self.aside.get(row)
        return aside.extras.timers if aside is not None else {}

    def complaint(self) -> str | None:
        """Told once: an event that the kernel gives back costs many times an interpreted one."""
        if self._judged or self.folded < _ENOUGH:
            return None
        self._judged = True
        share = self.given_up / self.folded
        if share < _TOO_MANY:
            return None
        return (
            f"{self.name} is compiled, but {share:.0%} of its first {self.folded:,} events were "
            "folded by the interpreter, because they fail, log, call or reply: without "
            "compiled=True it is faster"
        )

    # Batches.

    def begin(self, batch: int) -> None:
        self.batch = batch

    def end(self) -> None:
        """What was changed is committed."""
        self._aside_before.clear()
        self._forget_outputs()

    def take_all_back(self) -> None:
        """Forget this batch: every row is again what is committed."""
        self._lent.clear()
        self._changed.clear()
        count = int(self.controls[1])
        self.table.put(self.touched[:count], self.before[:count])
        for row, aside in self._aside_before.items():
            if aside is None:
                self.aside.pop(row, None)
            else:
                self.aside[row] = aside
        self._aside_before.clear()
        # Which hints the agenda still has of these is not known: each timer gets a new one.
        for number in range(len(self.program.timers)):
            self.table.rows[f"t{number}_queued"][self.touched[:count]] = 0.0
            for row in self.touched[:count].tolist():
                self.agenda.add_slot(row, number)
        self._forget_outputs()

    def _forget_outputs(self) -> None:
        self.controls[:] = 0
        self.contexts.clear()

    def loaded(self) -> None:
        """Everything is there: what stands in rows is committed, and its timers wait."""
        self._aside_before.clear()
        rows = self.table.rows[: self.table.count]
        for number in range(len(self.program.timers)):
            due = rows[f"t{number}_due"]
            waiting = np.flatnonzero((due != 0.0) & (rows[f"t{number}_queued"] == 0.0))
            rows[f"t{number}_queued"][waiting] = due[waiting]
            self.agenda.add_many(waiting, np.full(len(waiting), number), due[waiting])

    def load(self, item: Record | Block) -> None:
        storing.load(self, item)

    def record(self, key: str) -> Record | None:
        row = self.table.find(key)
        found = storing.records(self, np.array([row])) if row is not None else []
        return next(iter(found), None)

    def records(self) -> Iterator[Record]:
        return iter(storing.records(self, np.arange(self.table.count)))

    def committed(self, now: float) -> tuple[list[Cell], Block | None]:
        return storing.committed(self, now)

    def images(self, buckets: Iterable[int]) -> Iterator[tuple[int, Block | None]]:
        return storing.images(self, buckets)

    @property
    def changed_rows(self) -> np.ndarray:
        self.settle()
        return self.touched[: int(self.controls[1])]

    def records_of_output(self, number: int) -> np.ndarray:
        return self.outputs[number][: int(self.controls[COUNTS + number])]


def _enlarged(array: np.ndarray, size: int) -> Any:
    enlarged = np.zeros(size, array.dtype)
    enlarged[: len(array)] = array
    return enlarged
