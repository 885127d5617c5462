"""The stepper of a fork: follows a script of recorded inputs, and its own agenda in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.runtime.partition import CONDEMNED
from holdfast.stepping.agenda import Entry
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Cell
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Head, Letter, Record
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.script import Firing
from holdfast.stepping.stepper import Stepper

TimerId = tuple[str, str, str, float]  # agent, key, name, due


class Rings(NamedTuple):
    """Journalled firings in front of one position, and the stamp of the input behind them."""

    firings: Sequence[Firing]
    stamp: float


class Tick(NamedTuple):
    """A moment with nothing recorded in it: our own timers fire, but for those that the journal
    will bring."""

    until: float
    upcoming: Collection[TimerId]


Item = Inputs | Rings | Tick


class ForkStepper(Stepper):
    def __init__(
        self,
        fleet: FleetModel,
        layout: Layout,
        codebook: Codebook,
        letter_of: Callable[[int], Letter | None],
        condemned: Collection[int],
    ) -> None:
        super().__init__(fleet, layout, codebook, letter_of)
        self._condemned = frozenset(condemned)  # positions of events that may not run
        self._before: dict[Cell, Record | None] = {}  # of what changed since `remember`
        self._origin: tuple[Head, dict[int, int]] = (self.head, {})
        self.unfired: list[Firing] = []  # by the last script: recorded, but not set here
        self.own: list[TimerId] = []  # by the last script: fired here, but not recorded

    def follow(self, script: Sequence[Item]) -> Commit:
        self.batch += 1

        def take(fold: CarefulFold, fast: bool) -> None:
            self.unfired, self.own = [], []
            for item in script:
                self._take_item(fold, item, fast)

        return self._fold(take, {})

    def _take_item(self, fold: CarefulFold, item: Item, fast: bool) -> None:
        if isinstance(item, Inputs):
            fold.position = item.first
            self._fire_own(fold, item.stamp, ())
            self._take_inputs(fold, item, fast)
        elif isinstance(item, Tick):
            self._fire_own(fold, item.until, item.upcoming)
        else:
            waiting = {(f.agent, f.key, f.name, f.due) for f in item.firings}
            for firing in item.firings:
                fold.position = firing.position
                # What is due at one moment fires in the order in which it is due.
                self._fire_own(fold, math.nextafter(firing.due, -math.inf), waiting)
                waiting.discard((firing.agent, firing.key, firing.name, firing.due))
                if not self._ring(fold, firing, item.stamp):
                    self.unfired.append(firing)

    def _take_inputs(self, fold: CarefulFold, inputs: Inputs, fast: bool) -> None:
        end = inputs.first + len(inputs)
        condemned = self._condemned and sorted(
            at for at in self._condemned if inputs.first <= at < end
        )
        if not condemned:
            self._take(fold, inputs, fast)
            return
        start = inputs.first
        for at in condemned:
            if at > start:
                self._take(fold, inputs.part(start - inputs.first, at - inputs.first), fast)
            fold._condemned = CONDEMNED
            fold.fold(inputs.part(at - inputs.first, at - inputs.first + 1))
            start = at + 1
        if start < end:
            self._take(fold, inputs.part(start - inputs.first, len(inputs)), fast)

    def _ring(self, fold: CarefulFold, firing: Firing, stamp: float) -> bool:
        """Fire what the journal says, if the candidate has the very same timer."""
        fold.now = max(fold.now, firing.now)
        kind = self.kinds.get(firing.agent)
        cell = (kind.cells.get(firing.key) or kind.paused.get(firing.key)) if kind else None
        if kind is None or cell is None:
            return False
        if firing.event is None:
            after = kind.expire_after
            if after is None or cell.extras or cell.updated + after != firing.due:
                return False
            fold.leave(cell, firing.due, fold.now)
            return True
        timer = cell.extras.timers.get(firing.name) if cell.extras is not None else None
        if timer is None or timer.due != firing.due:
            return False
        if timer.period and cell.beside().paused:
            return False
        again = firing._due_again(timer.period, stamp) if timer.period else 0.0
        fold.ring(cell, timer, fold.now, again)
        return True

    def _fire_own(self, fold: CarefulFold, until: float, upcoming: Collection[TimerId]) -> None:
        due = self.agenda.next_due
        if due is None or due > until:
            return
        kept: list[Entry] = []
        while (entry := self.agenda.pop_due(until)) is not None:
            fold.popped.append(entry)
            wanted = _timer_of(entry)
            if wanted in upcoming:
                kept.append(entry)
                continue
            fired, now = len(fold.fired), max(fold.now, entry.due)
            if entry.name is None:
                fold._expire(entry, now)
            else:
                fold._fire(entry, entry.name, now, entry.due)  # no period is skipped
            if len(fold.fired) > fired:
                self.own.append(wanted)
        for entry in kept:
            self.agenda.put_back(entry)

    # Going back to the beginning of a round.

    def remember(self) -> None:
        self._before.clear()
        self._origin = (self.head, dict(self.sent_next))

    def roll_back(self) -> None:
        for cell, saved in self._before.items():
            cell.saved, cell.batch = saved, -1
            cell.restore()
            cell.kind.place(cell)
            if saved is not None:
                self._schedule(cell)
        self._before.clear()
        self.head, self.sent_next = self._origin[0], dict(self._origin[1])

    def _commit(
        self, fold: CarefulFold, relayed: dict[int, int], condemned: str = ""
    ) -> Commit:
        for cell in (*self.touched, *fold.expired):
            self._before.setdefault(cell, cell.saved)
        return super()._commit(fold, relayed, condemned)

    def records(self) -> list[Record]:
        """All agents as they are committed."""
        return [
            cell.saved
            for kind in self.kinds.values()
            for cell in (*kind.cells.values(), *kind.paused.values())
            if cell.saved is not None
        ]


def _timer_of(entry: Entry) -> TimerId:
    """The timer or expiry itself; the entry's own time is only a hint."""
    cell, due = entry.cell, entry.due
    if entry.name is None:
        due = cell.updated + (cell.kind.expire_after or 0.0)
    elif cell.extras is not None and entry.name in cell.extras.timers:
        due = cell.extras.timers[entry.name].due
    return (entry.agent, entry.key, entry.label, due)
