"""The stepper: folds a batch of inputs into agents and makes the commit.

A batch runs fast first: no copies, no checks between events. If any event fails, all of it is
undone from the committed images and the batch runs again carefully, one undoable event at a time.
User code is deterministic, so the second run differs only in what becomes of the failed events.
Agents of compiled classes run in a kernel either way, which hands over what it cannot do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.fates import ActionExpired
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.stepping.agenda import Agenda, NoAgenda
from holdfast.stepping.blocks import Block, records_in
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Cell
from holdfast.stepping.codebook import Codebook, UnknownSchema
from holdfast.stepping.commit import Commit, Fate, Head, Letter, Record
from holdfast.stepping.fast import fits, run
from holdfast.stepping.grounding import read_ground, reason_in
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.kinds import compiled_among, make_kinds, runs
from holdfast.stepping.lane import LANE
from holdfast.stepping.outputs import dispatch, issue, journal, request
from holdfast.stepping.overtaking import check_follows, overtake
from holdfast.stepping.records import delta_frame, records_of
from holdfast.stepping.script import Firing, interleaved

if TYPE_CHECKING:
    from holdfast.stepping.compiled.following import TracedRows
    from holdfast.stepping.compiled.kind import CompiledKind, Kernel

FIRED_PER_COMMIT_MAX = 10_000  # timers, expiries, and agents that are told of a ground stop

_CLASS = itemgetter(0)  # of a record


def _none(ids: Sequence[str]) -> Sequence[Fate]:
    return ()


class Stepper:
    def __init__(
        self,
        fleet: FleetModel,
        layout: Layout,
        codebook: Codebook,
        letter_of: Callable[[int], Letter | None],
        fates_of: Callable[[Sequence[str]], Sequence[Fate]] = _none,
        *,
        scripted: bool = False,
        kernels: Mapping[str, Kernel] | None = None,
    ) -> None:
        self.fleet = fleet
        self.layout = layout
        self.codebook = codebook
        self.letter_of = letter_of
        self.fates_of = fates_of  # of actions by their ids, as committed
        self.kinds = make_kinds(fleet, codebook, kernels or {})
        self.compiled = compiled_among(self.kinds.values())
        self.context = Context(fleet.name, frozenset(fleet.agents))
        watched = [kind.name for kind in self.kinds.values() if ActionExpired in kind.routes]
        self.context._watched = frozenset(watched)
        self.awaiting = frozenset(kind.name for kind in self.kinds.values() if kind.awaits)
        self.scripted = scripted
        self.fired_max = FIRED_PER_COMMIT_MAX
        self.ground = ""  # stop: as the head has it, with this batch
        self.agenda = NoAgenda() if scripted else Agenda(self.compiled)
        self.unfired: list[Firing] = []  # of the last script: what this program has not set
        self.head = Head()
        self.sent_next: dict[int, int] = {}
        self.batch = 0
        self.touched: list[Cell] = []
        self.carries = False  # contexts of traces, in this batch
        self.traced_rows: list[TracedRows] = []  # of the newest commit, beside its own `traced`
        self.tries = 0  # moves with every event that is folded carefully
        self.order = 0  # of the next output of a kernel
        self.orders: list[tuple[int, int, int]] = []  # how many others there were by then

    # Loading: what is committed, before the first step.

    def load(self, head: Head, sent_next: dict[int, int], items: Iterable[Record | Block]) -> None:
        """Later items win."""
        self._stand_on(head)
        self.sent_next = dict(sent_next)
        newest: dict[tuple[str, str], Record] = {}
        for item in items:
            kind = self.kinds.get(item.agent)
            if kind is None:
                raise UnknownSchema(item.schema, f"agent {item.agent}")
            if kind.compiled:
                cast("CompiledKind", kind).load(item)
                continue
            for record in (item,) if isinstance(item, Record) else records_in(item):
                newest[record.agent, record.key] = record
        for kind in self.compiled:
            kind.loaded()
        for record in newest.values():
            if not record.gone:
                cell = Cell(self.kinds[record.agent], record.key, record)
                cell.kind.place(cell)
                self._schedule(cell)

    def _stand_on(self, head: Head) -> None:
        self.head, self.ground = head, head.ground_stop
        self.context._ground = reason_in(read_ground(head.ground_stop))

    def _schedule(self, cell: Cell) -> None:
        if cell.extras is not None:
            for timer in cell.extras.timers.values():
                self.agenda.add(timer.due, cell, timer.name)
        if cell.kind.expire_after is not None:
            self.agenda.add(cell.updated + cell.kind.expire_after, cell, None)

    @property
    def all_compiled(self) -> bool:
        return len(self.compiled) == len(self.kinds)

    @property
    def rows(self) -> int:
        """How many agents of compiled classes there are."""
        return sum(kind.table.count for kind in self.compiled)

    # Stepping.

    def step(
        self,
        batch: Sequence[Inputs],
        clock: float | None = None,
        relayed: dict[int, int] | None = None,
        *,
        urgent: Sequence[Inputs] = (),
        alone: bool = False,
        condemned: str | None = None,
        overtaken: Callable[[], bool] = lambda: False,
    ) -> Commit:
        """Fold what is `urgent`, `batch`, and the timers due at `clock` (None: more inputs wait,
        so not yet).

        `alone` takes one input only, whatever its origin; `condemned` is the reason why that
        input may not run at all. As soon as it is `overtaken`, the rest of the batch is left.
        """
        check_follows(batch, self.head.position)
        check_follows(urgent, LANE + self.head.urgent)
        self._begin()
        if alone:
            fold = CarefulFold(self, condemned)
            self._take_one(fold, urgent, batch, clock)
            return self._commit(fold, relayed or {}, condemned or "")

        def take(fold: CarefulFold, fast: bool) -> None:
            if all(overtake(self, fold, inputs, fast=fast) for inputs in urgent):
                self._take_all(fold, batch, clock, overtaken, fast=fast)

        return self._fold(take, relayed or {})

    def repeat(
        self, batch: Sequence[Inputs], script: Sequence[Firing], condemned: str | None = None
    ) -> Commit:
        """Fold what was folded before: these inputs, and exactly these firings among them.

        Positions are taken as they are, so that the inputs of one agent can be folded alone.
        `condemned` is why the first input may not run: it ended its worker.
        """
        self._begin()

        def take(fold: CarefulFold, fast: bool) -> None:
            self._take_scripted(fold, batch, script, fast=fast)

        if condemned:
            fold = CarefulFold(self, condemned)
            take(fold, False)
            return self._commit(fold, {}, condemned)
        return self._fold(take, {})

    def _begin(self) -> None:
        self.batch += 1
        self.carries = False
        for kind in self.compiled:
            kind.begin(self.batch)

    def note_order(self) -> None:
        """Between kernels and interpreter: what the one makes comes before the other's."""
        effects = self.context._effects
        self.orders.append((self.order, len(effects.actions), len(effects.messages)))

    def _fold(self, take: Callable[[CarefulFold, bool], None], relayed: dict[int, int]) -> Commit:
        fold = CarefulFold(self)
        try:
            take(fold, True)
            return self._commit(fold, relayed)
        except (Exception, SystemExit):
            # Whatever it was, the careful fold meets it again and knows which event it is.
            self._undo(fold)
        fold = CarefulFold(self)
        take(fold, False)
        return self._commit(fold, relayed)

    def _undo(self, fold: CarefulFold) -> None:
        """Forget this batch: every agent it met is again what is committed."""
        self.context._effects.clear()
        self.context._forget_draws()
        self._stand_on(self.head)
        for kind in self.compiled:
            kind.take_all_back()
        self.order, self.orders = 0, []
        for entry in fold.popped:
            self.agenda.put_back(entry)
        for cell in (*self.touched, *fold.expired):
            cell.batch = -1
            cell.restore()
            cell.kind.place(cell)
        self.touched = []

    def _take_all(
        self,
        fold: CarefulFold,
        batch: Sequence[Inputs],
        clock: float | None,
        overtaken: Callable[[], bool],
        *,
        fast: bool,
    ) -> None:
        for inputs in batch:
            if inputs is not batch[0] and overtaken():
                return
            fold.fire_due(inputs.stamp, fold.fired_max)
            if len(fold.fired) >= fold.fired_max:
                return
            self._take(fold, inputs, fast)
            if fold.position < inputs.first + len(inputs):
                return  # agents are still being told of a ground stop
        if clock is not None:
            fold.fire_due(clock, fold.fired_max, idle=True)

    def _take(self, fold: CarefulFold, inputs: Inputs, fast: bool) -> None:
        kernels = self.compiled and not (fold.condemns or self.context._ground is not None)
        if kernels and self._take_compiled(fold, inputs, fast):
            return
        if fast and fits(self.kinds, inputs):
            fold.now = max(fold.now, inputs.stamp)
            run(self, inputs, fold.now)
            fold.check_timers()
            fold.schedule()
            fold.position += len(inputs)
        else:
            fold.fold(inputs)

    def _take_compiled(self, fold: CarefulFold, inputs: Inputs, fast: bool) -> bool:
        """Whether a kernel has folded this frame, or those rows of it that are for its agents."""
        from holdfast.stepping.compiled import folding

        if not folding.fits(inputs):
            return False
        if inputs.agent is not None:
            kind = self.kinds.get(inputs.agent)
            if kind is None or not kind.compiled:
                return False
            folding.run(cast("CompiledKind", kind), fold, inputs)
            return True
        if not any(kind.name in inputs.agents for kind in self.compiled):
            return False
        for part in runs(inputs):
            self._take(fold, part, fast)
        return True

    def _take_scripted(
        self, fold: CarefulFold, batch: Sequence[Inputs], script: Sequence[Firing], *, fast: bool
    ) -> None:
        self.unfired = []
        stamps = {inputs.first: inputs.stamp for inputs in batch}
        for each in interleaved(batch, script):
            if isinstance(each, Inputs):
                fold.position = each.first
                self._take(fold, each, fast)
            elif not each.repeat(fold, stamps.get(each.position, 0.0)):
                self.unfired.append(each)

    def _take_one(
        self,
        fold: CarefulFold,
        urgent: Sequence[Inputs],
        batch: Sequence[Inputs],
        clock: float | None,
    ) -> None:
        fold.fired_max = 1
        if urgent:
            overtake(self, fold, urgent[0], fast=False)
        elif batch:
            fold.fire_due(batch[0].stamp, 1)
            if not fold.fired:
                fold.fold(batch[0].part(0, 1))
        elif clock is not None:
            fold.fire_due(clock, 1, idle=True)

    # The commit.

    def _commit(self, fold: CarefulFold, relayed: dict[int, int], condemned: str = "") -> Commit:
        """Encode all that changed. Fails (and so leads to care) if a state has a wrong type."""
        effects = self.context._effects
        before = self.head
        own, agents = records_of(self.touched, fold.now)
        records = [*own, *fold.gone.values()]
        blocks: list[Block] = []
        sent_next = dict(self.sent_next)
        if self.compiled:
            from holdfast.stepping.compiled.outputs import dispatch_merged, issue_merged

            outgoing = dispatch_merged(self, sent_next)
            issued = issue_merged(self, before.actions_next, fold.now)
            for kind in self.compiled:
                cells, block = kind.committed(fold.now)
                records += records_of(cells, fold.now)[0]
                blocks += [block] if block is not None else []
        else:
            traced = self.carries
            outgoing = dispatch(effects.messages, self.layout, sent_next, self.codebook, traced)
            issued = issue(effects.actions, before.actions_next, fold.now, self.codebook, traced)
        if len(self.kinds) > 1:
            # Kernels come after the interpreter: whoever folds a class, the sum is the same.
            records.sort(key=_CLASS)
        fold.fates.add(fold.noting.new())
        fold.fates.add(fold.noting.compiled(issued))
        journalled = journal(fold.fired, before.journal_next, self.codebook)
        calls = request(effects.calls, before.calls_next, self.codebook)
        changed = records or blocks
        moved = fold.position != before.position or changed or issued or outgoing or journalled
        head = Head(
            position=fold.position,
            now=fold.now,
            actions_next=before.actions_next + (issued.count if issued else 0),
            letters_next=before.letters_next + len(fold.letters),
            journal_next=before.journal_next + (journalled.count if journalled else 0),
            commits=before.commits + 1,
            calls_next=before.calls_next + len(calls),
            ground_stop=self.ground,
            urgent=fold.urgent,
        )
        commit = Commit(
            before=before,
            head=head if moved else before,
            records=records,
            blocks=blocks,
            delta=delta_frame(records, blocks).encode() if changed else b"",
            outgoing=outgoing,
            sent_next={d: n for d, n in sent_next.items() if self.sent_next.get(d) != n},
            issued=issued,
            answers=fold.answers,
            letters=fold.letters,
            redriven=fold.redriven,
            fates=fold.fates.all(),
            journalled=journalled,
            relayed=relayed,
            calls=calls,
            closed=fold.closed,
            logs=list(effects.logs),
            traced=list(effects.traced),
            condemned=condemned,
        )
        self.traced_rows = [rows for kind in self.compiled for rows in kind.contexts.traced]
        self._keep(commit, own, agents)
        return commit

    def _keep(self, commit: Commit, records: list[Record], agents: list[Agent]) -> None:
        """From here on memory is what the commit will make true on disk, and nothing else.

        A handler may leave an int in a float field, or one list in two: read back they differ, so
        what was read back is kept, as after a restart.
        """
        effects = self.context._effects
        for cell, record, agent in zip(self.touched, records, agents, strict=True):
            cell.saved, cell.agent, cell.updated = record, agent, record.updated
        effects.clear()
        self.context._held_back = False
        for kind in self.compiled:
            kind.end()
        self.order, self.orders = 0, []
        self.sent_next.update(commit.sent_next)
        self.head = commit.head
        self.touched = []

    # Compaction: what is committed, as blocks.

    def images(
        self, agent: str, buckets: Iterable[int]
    ) -> Iterator[tuple[int, Block | None]] | None:
        """The whole of some buckets of a compiled class; None for one that is none."""
        kind = self.kinds.get(agent)
        if kind is None or not kind.compiled:
            return None
        return cast("CompiledKind", kind).images(buckets)
