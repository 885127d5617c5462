"""The stepper of a fork: follows a script of recorded inputs, and its own agenda in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.effects import OpenCall
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.runtime.partition import CONDEMNED
from holdfast.stepping.agenda import Entry
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Cell
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Fate, Head, Issued, Letter, Outgoing, Record
from holdfast.stepping.fates import Fates
from holdfast.stepping.grounding import TOLD_NAME
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.stepping.lane import TAKEN_NAME
from holdfast.stepping.outputs import dispatch, issue, request
from holdfast.stepping.overtaking import overtake
from holdfast.stepping.records import records_of
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
        fates: Iterable[Fate] = (),
    ) -> None:
        self.decided = Fates(fates)  # of actions: nobody decides them again
        super().__init__(fleet, layout, codebook, letter_of, self.decided.of)
        self.fired_max = 2**62  # a round is no commit
        self._condemned = frozenset(condemned)  # positions of events that may not run
        self._before: dict[Cell, Record | None] = {}  # of what changed since `remember`
        self._origin: tuple[Head, dict[int, int], int] = (self.head, {}, 0)
        self.strict = False  # a commit per step, because something failed
        self.spoiled = False  # what others were sent in this round may be wrong
        self._scripts: list[tuple[Sequence[Item], list[Outgoing], Issued | None]] = []
        self.unfired: list[Firing] = []  # by the last script: recorded, but not set here
        self.own: list[TimerId] = []  # by the last script: fired here, but not recorded

    # A round: states are packed once at its end, unless something fails.

    def follow(self, script: Sequence[Item]) -> Commit:
        """One step of a round, and what came of it but the states."""
        if not self.strict:
            try:
                made = self._follow_loosely(script)
            except (Exception, SystemExit):
                # Like any batch that fails: from the last images on, one undoable event at a time.
                self._be_strict()
            else:
                self._scripts.append((script, made.outgoing, made.issued))
                return made
        return self._follow_strictly(script)

    def _follow_strictly(self, script: Sequence[Item]) -> Commit:
        self.batch += 1

        def take(fold: CarefulFold, fast: bool) -> None:
            self.unfired, self.own = [], []
            for item in script:
                self._take_item(fold, item, fast)

        made = self._fold(take, {})
        self.decided.add(made.fates)
        return made

    def _follow_loosely(self, script: Sequence[Item]) -> Commit:
        """The fast way only. States stay in memory, unpacked and unchecked, to the round's end."""
        fold, effects, before = CarefulFold(self), self.context._effects, self.head
        self.unfired, self.own = [], []
        try:
            for item in script:
                self._take_item(fold, item, True)
        finally:
            for cell in fold.expired:
                self._before.setdefault(cell, cell.saved)
        sent_next = dict(self.sent_next)
        outgoing = dispatch(effects.messages, self.layout, sent_next, self.codebook)
        issued = issue(effects.actions, before.actions_next, fold.now, self.codebook)
        calls = request(effects.calls, before.calls_next, self.codebook)
        self.head = Head(
            position=fold.position,
            now=fold.now,
            actions_next=before.actions_next + (issued.count if issued else 0),
            letters_next=before.letters_next + len(fold.letters),
            journal_next=before.journal_next + len(fold.fired),
            commits=before.commits,
            calls_next=before.calls_next + len(calls),
            ground_stop=self.ground,
            urgent=fold.urgent,
        )
        self.sent_next = sent_next
        fold.fates.add(fold.noting.new())
        self.decided.add(fold.fates.all())
        effects.clear()
        return Commit(
            before,
            self.head,
            outgoing=outgoing,
            issued=issued,
            letters=fold.letters,
            redriven=fold.redriven,
            calls=calls,
            closed=fold.closed,
        )

    def _be_strict(self) -> None:
        """Fold the round again up to here, with a commit per step. What it sent already must come
        out again; if not, a state had a wrong type, and the whole round is spoiled."""
        scripts, self.strict = self._scripts, True
        self._go_back()
        for script, outgoing, issued in scripts:
            made = self._follow_strictly(script)
            if made.outgoing != outgoing or made.issued != issued or made.letters:
                self.spoiled = True

    def seal(self) -> bool:
        """The end of a round: images of all that changed. False if it has to be folded again."""
        if not self.strict:
            try:
                fold = CarefulFold(self)
                for cell in self.touched:
                    self._before.setdefault(cell, cell.saved)
                records, agents = records_of(self.touched, fold.now)
            except Exception:
                self.spoiled = self.strict = True
                return False
            for cell, record, agent in zip(self.touched, records, agents, strict=True):
                cell.saved, cell.agent, cell.updated = record, agent, record.updated
            self.touched = []
        return not self.spoiled

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
                if firing.taken is not None:
                    if firing.taken.first in self._condemned:
                        fold._condemned = CONDEMNED
                    overtake(self, fold, read_inputs(firing.taken, self.codebook), fast=False)
                    continue
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
        if firing.name == TAKEN_NAME:
            return True  # of an agent that is not folded: only its time passes
        if firing.name == TOLD_NAME:
            return True  # whom this program tells of a ground stop is found at its command
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

    def remember(self, *, strict: bool) -> None:
        self.strict, self.spoiled = strict, False
        self.batch += 1
        self._scripts = []
        self._before.clear()
        self._origin = (self.head, dict(self.sent_next), len(self.decided))

    def roll_back(self) -> None:
        self._go_back()
        self._scripts = []

    def _go_back(self) -> None:
        self.context._effects.clear()
        self.context._forget_draws()
        for cell in self.touched:
            self._before.setdefault(cell, cell.saved)
        for cell, saved in self._before.items():
            cell.saved, cell.batch = saved, -1
            cell.restore()
            cell.kind.place(cell)
            if saved is not None:
                self._schedule(cell)
        self._before.clear()
        self.touched = []
        self.batch += 1
        self._stand_on(self._origin[0])
        self.sent_next = dict(self._origin[1])
        self.decided.cut(self._origin[2])

    def _commit(self, fold: CarefulFold, relayed: dict[int, int], condemned: str = "") -> Commit:
        for cell in (*self.touched, *fold.expired):
            self._before.setdefault(cell, cell.saved)
        return super()._commit(fold, relayed, condemned)

    def open_calls(self, agent: str, key: str) -> Mapping[str, OpenCall]:
        kind = self.kinds.get(agent)
        cell = (kind.cells.get(key) or kind.paused.get(key)) if kind else None
        return cell.extras.calls if cell is not None and cell.extras is not None else {}

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
