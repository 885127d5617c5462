"""Deliberately broken variants of the code: small, believable mistakes, applied by patching.

`BROKEN` names them all, those of calls and of the urgent lane too.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engine import admission, inheritance, stamping
from holdfast.engine.memory import MemoryEngine, MemoryPartition
from holdfast.engine.memory import engine as memory
from holdfast.engine.port import Claim, Parcel, Taken
from holdfast.engine.stamping import NEVER, Instant
from holdfast.errors import AskFailed, TryAgain
from holdfast.model.context import Context
from holdfast.model.effects import Effects, Mark
from holdfast.runtime.handle import Handle
from holdfast.runtime.live import Live
from holdfast.runtime.partition import Partition
from holdfast.runtime.reading import DeadLetter, Reading
from holdfast.runtime.relay import Relay
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.sending import Receipt
from holdfast.runtime.supervisor import Post, Supervisor
from holdfast.runtime.waiting import SEND_SECONDS
from holdfast.stepping import records
from holdfast.stepping.careful import CarefulFold
from holdfast.stepping.cell import Cell, Extras, pack_extras
from holdfast.stepping.commit import Commit, Head, Issued, Letter, Outgoing, Record
from holdfast.stepping.stepper import Stepper
from holdfast.testing.simulation.engine import SimulatedEngine
from holdfast.testing.simulation.findings import Promise as P
from holdfast.testing.simulation.store import Operation, Store
from tests.simulation import broken_calls, broken_lane
from tests.simulation.variants import Patch, variants

BROKEN, found_by = variants()


# The engine.


@found_by(P.FOLD, P.ONE_WRITER, P.CONTIGUOUS, P.READS, P.RECEIPTS, seed=10)
def commit_is_not_atomic(patch: Patch) -> None:
    """A crash in the middle of a commit leaves its states, without its position."""
    perform = Store.perform

    def torn(
        self: Store, operation: Operation, *, crash: Callable[[], None] | None = None
    ) -> object:
        if crash is not None and operation.name == "commit":
            claim, commit = operation.arguments
            part = self.image.view(claim.partition)  # type: ignore[attr-defined]
            for record in commit.records:  # type: ignore[attr-defined]
                part.states[record.agent, record.key] = record
            crash()
        return perform(self, operation, crash=crash)

    patch.setattr(Store, "perform", torn)


@found_by(P.ONE_WRITER, P.FOLD, P.ONCE, P.CONTIGUOUS)
def fence_is_ignored(patch: Patch) -> None:
    """A worker that was taken over from can still commit."""
    commit_one = MemoryEngine._commit_one

    def unfenced(self: MemoryEngine, claim: Claim, commit: Commit) -> None:
        part = self._partitions[claim.partition]
        commit_one(
            self,
            dataclasses.replace(claim, epoch=part.epoch),
            dataclasses.replace(commit, before=part.committed),
        )

    patch.setattr(MemoryEngine, "_commit_one", unfenced)


@found_by(P.ONCE, P.MESSAGES, seed=3)
def dedupe_window_is_not_persisted(patch: Patch) -> None:
    """After a power loss nobody knows which numbers a source has sent."""
    recover = Store.recover

    def forgetful(self: Store, journal: list[Operation]) -> None:
        recover(self, journal)
        for part in self.image._partitions:
            part.ledger.named.clear()
            part.ledger.anonymous.clear()
            part.ledger.chunks.clear()

    patch.setattr(Store, "recover", forgetful)


@found_by(P.KEPT, P.FOLD, P.READS, P.RECEIPTS, P.ORDER, seed=2)
def acknowledged_before_the_sync(patch: Patch) -> None:
    """An append is acknowledged when it is written: a power loss takes the last ones away."""
    lose_power = Store.lose_power

    def lose_unsynced(self: Store) -> None:
        self._synced = max(0, len(self._journal) - 4)
        lose_power(self)

    patch.setattr(Store, "lose_power", lose_unsynced)


@found_by(P.KEPT, P.ONCE, P.ORDER, P.FOLD, seed=47)
def half_a_parcel_survives(patch: Patch) -> None:
    """A torn last write is taken for a whole one: the first half of its events is there."""
    recover, append = Store.recover, Store._append
    last: list[Operation] = []  # of the journal, while the image is built again

    def remember(self: Store, journal: list[Operation]) -> None:
        last[:] = journal[-1:]
        recover(self, journal)
        last.clear()

    def tear(self: Store, operation: Operation, partition: int, parcels: Sequence[Parcel]) -> Any:
        if any(operation is each for each in last):
            parcels = [p for p in parcels if p.frame.count < 2]
        return append(self, operation, partition, parcels)

    patch.setattr(Store, "recover", remember)
    patch.setattr(Store, "_append", tear)


@found_by(P.KEPT, P.ORDER, P.FOLD, P.SETTLES, P.ONCE, seed=1)
def position_is_derived_from_rows(patch: Patch) -> None:
    """The next position is counted from the rows that retention has left."""
    append_one = MemoryEngine._append_one

    def counted(
        self: MemoryEngine, part: MemoryPartition, parcel: Parcel, now: Instant
    ) -> Taken | Exception:
        part.next = part.inbox[-1].first + part.inbox[-1].count if part.inbox else 0
        return append_one(self, part, parcel, now)

    patch.setattr(MemoryEngine, "_append_one", counted)


@found_by(P.MESSAGES, P.ONCE, seed=38)
def mark_is_not_advanced_with_the_append(patch: Patch) -> None:
    """The mark of a stream of messages is written a moment later, and a crash forgets it."""
    perform = Store.perform

    def late_mark(
        self: Store, operation: Operation, *, crash: Callable[[], None] | None = None
    ) -> object:
        if crash is None or operation.name != "append":
            return perform(self, operation, crash=crash)
        part = self.image.view(operation.arguments[0])  # type: ignore[arg-type]
        marks = dict(part.ledger.marks)
        perform(self, operation)
        part.ledger.marks = marks
        crash()
        raise AssertionError("a crash does not return")

    patch.setattr(Store, "perform", late_mark)


@found_by(P.ONCE)
def a_repeat_is_taken(patch: Patch) -> None:
    """Numbers that were seen are taken again."""
    numbers = admission._admit_numbers

    def all_new(*arguments: Any) -> None:
        numbers(*arguments)

    patch.setattr(admission, "_admit_numbers", all_new)


@found_by(P.KEPT, seed=3)
def a_late_number_is_taken_for_a_repeat(patch: Patch) -> None:
    """Whatever is below the highest number seen is dropped as known."""
    numbers = admission._admit_numbers

    def only_higher(parcel: Parcel, name: str, ledger: Any, *rest: Any) -> list[int] | None:
        row = ledger.source(name)
        numbers(parcel, name, ledger, *rest)
        top = -1 if row is None else row.top
        return [i for i, seq in enumerate(parcel.seqs) if seq > top]

    patch.setattr(admission, "_admit_numbers", only_higher)


@found_by(P.ORDER, P.TIMERS, P.FOLD, seed=1)
def stamps_follow_the_clock_back(patch: Patch) -> None:
    """A clock that is set back takes the time of the partition along."""

    def as_told(previous: Instant, now: Instant, jump_seconds_max: float) -> Instant:
        return now

    patch.setattr(memory, "next_stamp", as_told)
    patch.setattr(stamping, "next_stamp", as_told)


# The worker and its partitions.


@found_by(P.MESSAGES, P.FOLD, P.ONCE, P.KEPT)
def outputs_are_relayed_before_the_commit(patch: Patch) -> None:
    """Messages leave before the commit that makes them true."""
    commit = Partition._commit

    def eager(self: Partition, pending: Commit) -> None:
        self._relay.add(pending.outgoing)
        self._relay.deliver(self._clock().wall)
        commit(self, dataclasses.replace(pending, outgoing=pending.outgoing))

    def add_once(self: Relay, outgoing: Sequence[Outgoing]) -> None:
        known = {(o.destination, o.first) for queue in self._waiting.values() for o in queue}
        done: set[tuple[int, int]] = getattr(self, "_done", set())
        fresh = [o for o in outgoing if (o.destination, o.first) not in known | done]
        self._done = done | {(o.destination, o.first) for o in fresh}  # type: ignore[attr-defined]
        add(self, fresh)

    add = Relay.add
    patch.setattr(Relay, "add", add_once)
    patch.setattr(Partition, "_commit", eager)


@found_by(P.TIMERS)
def timer_is_lost_at_takeover(patch: Patch) -> None:
    """A successor loads the agents, and not when their timers are due."""
    patch.setattr(Stepper, "_schedule", lambda self, cell: None)


@found_by(P.TIMERS)
def timer_fires_early(patch: Patch) -> None:
    """A timer fires up to half a second before it is due."""
    fire_due = CarefulFold.fire_due

    def early(self: CarefulFold, until: float, most: int, idle: bool = False) -> None:
        fire_due(self, until + 0.5, most, idle)

    patch.setattr(CarefulFold, "fire_due", early)


@found_by(P.TIMERS, P.FOLD)
def timer_fires_twice(patch: Patch) -> None:
    """A timer that has fired is still there, and a successor fires it again."""
    fire = CarefulFold._fire

    def kept(self: CarefulFold, entry: Any, name: str, now: float, until: float) -> None:
        timer = entry.cell.timers().get(name)
        fire(self, entry, name, now, until)
        if timer is not None and not timer.period:
            entry.cell.timers().setdefault(name, timer)

    patch.setattr(CarefulFold, "_fire", kept)


@found_by(P.TIMERS, P.FOLD)
def cancelled_timer_fires(patch: Patch) -> None:
    """`ctx.cancel` does nothing."""
    patch.setattr(Context, "cancel", lambda self, name: None)


@found_by(P.MESSAGES, P.SETTLES, seed=71)
def refused_message_is_forgotten(patch: Patch) -> None:
    """A message that its receiver could not take now is counted as delivered."""
    append = Relay._append

    def careless(self: Relay, destination: int, batch: list[Outgoing]) -> TryAgain | None:
        append(self, destination, batch)
        return None

    patch.setattr(Relay, "_append", careless)


@found_by(P.MESSAGES, P.SETTLES, seed=6)
def outbox_is_not_loaded(patch: Patch) -> None:
    """A successor does not look for messages that its predecessor left."""
    load = MemoryEngine.load
    patch.setattr(MemoryEngine, "load", lambda self, claim: load(self, claim)._replace(outbox=[]))


@found_by(P.FOLD, P.CONTIGUOUS, seed=4)
def failed_event_leaves_its_outputs(patch: Patch) -> None:
    """An event that failed is undone, but what it emitted goes out."""
    rewind = Effects.rewind

    def keep_actions(self: Effects, mark: Mark) -> None:
        emitted = self.actions[mark[0] :]
        rewind(self, mark)
        if any(mark):  # at the start of a batch all of it is undone
            self.actions += emitted

    patch.setattr(Effects, "rewind", keep_actions)


@found_by(P.FOLD, P.CONTIGUOUS)
def failed_event_counts(patch: Patch) -> None:
    """An event that failed still moves the version of its agent."""
    revert = Cell.revert

    def partly(self: Cell, image: tuple[bytes, int, float, Extras | None]) -> None:
        version = self.version
        revert(self, image)
        self.version = version

    patch.setattr(Cell, "revert", partly)


@found_by(P.FOLD, P.KEPT)
def held_events_are_lost_at_takeover(patch: Patch) -> None:
    """What an agent defers or holds while it is paused lives in memory only."""

    def without_held(some: list[Extras | None], codebook: Any) -> list[bytes]:
        return pack_extras(
            [each and Extras(each.paused, [], each.timers, each.calls) for each in some], codebook
        )

    patch.setattr(records, "pack_extras", without_held)


@found_by(P.SETTLES, P.FOLD, P.ORDER)
def a_frame_is_read_from_its_start(patch: Patch) -> None:
    """A worker that takes over in the middle of a frame folds it from its first event."""
    read = Partition._read

    def careless(self: Partition) -> Any:
        batch = read(self)
        if batch and self._events_max > 2:
            self._events_max = 2
        return batch

    def restart(self: Partition, stored: Any) -> Any:
        inputs = decode(self, stored)
        return inputs.at(max(inputs.first, self.position))

    decode = Partition._decode
    patch.setattr(Partition, "_read", careless)
    patch.setattr(Partition, "_decode", restart)


@found_by(P.SETTLES, seed=1)
def a_dead_worker_is_not_replaced(patch: Patch) -> None:
    """The supervisor notes that a worker has ended, and leaves it at that."""

    def forget(self: Supervisor, post: Post, code: int | None, now: float) -> None:
        post.process = None
        post.start_after = float("inf")

    patch.setattr(Supervisor, "_ended", forget)


# Reading.


@found_by(P.RECEIPTS, seed=1)
def a_read_does_not_wait_for_its_receipt(patch: Patch) -> None:
    """`state(after=receipt)` reads at once."""
    patch.setattr(Handle, "wait_for", lambda self, receipt, *, timeout=0.0: None)


@found_by(P.READS, P.RECEIPTS, seed=1)
def a_read_goes_back(patch: Patch) -> None:
    """A head is read from a replica that may be behind."""
    view = SimulatedEngine.view
    heads: dict[tuple[str, int], list[Head]] = {}

    def behind(self: SimulatedEngine, partition: int, _: float = 0.0) -> MemoryPartition:
        part = view(self, partition)
        if not self._process.patient:
            return part
        seen = heads.setdefault((self._process.author.process, partition), [])
        seen.append(part.committed)
        stale = copy.copy(part)
        stale.committed = seen[-3] if len(seen) % 3 == 0 else seen[-1]
        return stale

    patch.setattr(SimulatedEngine, "view", behind)


@found_by(P.READS, seed=15)
def a_read_is_remembered(patch: Patch) -> None:
    """A handle looks at an agent once, and again only when it has waited for a receipt."""
    record, wait_for = Reading.record, Handle.wait_for

    def remembered(self: Reading, agent: str, key: str) -> Record | None:
        kept: dict[tuple[str, str], Record | None] = self.__dict__.setdefault("_kept", {})
        if (agent, key) not in kept:
            kept[agent, key] = record(self, agent, key)
        return kept[agent, key]

    def forget(self: Handle, receipt: Receipt, *, timeout: float = SEND_SECONDS) -> None:
        wait_for(self, receipt, timeout=timeout)
        self._reading.__dict__.pop("_kept", None)

    patch.setattr(Reading, "record", remembered)
    patch.setattr(Handle, "wait_for", forget)


@found_by(P.READS)
def a_replica_is_behind(patch: Patch) -> None:
    """A client sees heads from a replica that stands still after its first look."""
    view = SimulatedEngine.view

    def still(self: SimulatedEngine, partition: int, _: float = 0.0) -> MemoryPartition:
        part = view(self, partition)
        if not self._process.patient:
            return part
        kept: dict[int, Head] = self.__dict__.setdefault("_kept", {})
        stale = copy.copy(part)
        stale.committed = kept.setdefault(partition, part.committed)
        return stale

    patch.setattr(SimulatedEngine, "view", still)


@found_by(P.CONTIGUOUS)
def the_newest_actions_are_not_shown(patch: Patch) -> None:
    """Pages of actions end before the last commit that has some."""
    actions = MemoryPartition.actions

    def all_but_one(self: MemoryPartition, first: int, most: int) -> list[Issued]:
        return actions(self, first, most)[:-1]

    patch.setattr(MemoryPartition, "actions", all_but_one)


@found_by(P.CONTIGUOUS, seed=7)
def actions_of_retired_partitions_are_forgotten(patch: Patch) -> None:
    """Behind a rescale, pages of actions begin in the new partitions."""
    actions = MemoryPartition.actions

    def while_it_lives(self: MemoryPartition, first: int, most: int) -> list[Issued]:
        return [] if self.closed else actions(self, first, most)

    patch.setattr(MemoryPartition, "actions", while_it_lives)


@found_by(P.FOLD, P.RECEIPTS, seed=85)
def an_answer_belongs_to_another_question(patch: Patch) -> None:
    """The reply to an ask is looked up one position off."""
    answer = MemoryPartition.answer

    def neighbour(self: MemoryPartition, position: int) -> Any:
        return answer(self, position) and (answer(self, position - 1) or answer(self, position))

    patch.setattr(MemoryPartition, "answer", neighbour)


@found_by(P.FOLD, seed=11)
def a_reply_is_told_as_a_failure(patch: Patch) -> None:
    """Whoever asks is told that there is no reply, whatever the answer is."""
    reply_to = Handle._reply_to

    def careless(self: Handle, receipt: Receipt, who: str, *rest: float) -> object:
        reply_to(self, receipt, who, *rest)
        raise AskFailed(f"{who}: no reply")

    patch.setattr(Handle, "_reply_to", careless)


@found_by(P.READS, seed=2)
def a_list_ends_early(patch: Patch) -> None:
    """`states` leaves out the last agent of the class."""
    states = Live.states
    patch.setattr(Live, "states", lambda self, agent: iter(list(states(self, agent))[:-1]))


@found_by(P.READS, seed=13)
def idle_pauses_are_not_listed(patch: Patch) -> None:
    """`paused` leaves out the agents that hold nothing."""
    paused = Reading.paused
    patch.setattr(Reading, "paused", lambda self: [p for p in paused(self) if p.held])


@found_by(P.READS, seed=2)
def a_redriven_letter_looks_new(patch: Patch) -> None:
    """Nobody is told that a dead letter was redriven."""
    made = Reading._dead_letter

    def unmarked(self: Reading, number: int, letter: Letter, redriven: bool) -> DeadLetter:
        return made(self, number, letter, False)

    patch.setattr(Reading, "_dead_letter", unmarked)


# Operating.


@found_by(P.KEPT)
def a_command_is_not_written(patch: Patch) -> None:
    """An operator gets a receipt for a command that never reaches the inbox."""

    def nothing(self: Handle, partition: int, *arguments: Any, **options: Any) -> Receipt:
        return Receipt(((partition, self._engine.view(partition).inbox_next()),))

    patch.setattr(Handle, "_control", nothing)


@found_by(P.ONCE)
def a_command_is_written_twice(patch: Patch) -> None:
    """An operator's command is appended twice."""
    control = Handle._control

    def twice(self: Handle, *arguments: Any, **options: Any) -> Receipt:
        control(self, *arguments, **options)
        return control(self, *arguments, **options)

    patch.setattr(Handle, "_control", twice)


# Rescaling.


@found_by(P.ONCE, seed=7)
def windows_are_not_inherited_at_rescale(patch: Patch) -> None:
    """New partitions do not know which numbers the old ones have seen."""
    patch.setattr(inheritance, "union", lambda parents: inheritance.Dedupe({}, {}, {}))


@found_by(P.ONCE, seed=7)
def windows_are_inherited_from_one_parent(patch: Patch) -> None:
    """A new partition gets the window of one old one, though a source has sent to all of them."""
    union = inheritance.union
    patch.setattr(inheritance, "union", lambda parents: union(list(parents)[:1]))


@found_by(P.KEPT, P.FOLD, P.SETTLES, seed=7)
def a_retired_partition_takes_events(patch: Patch) -> None:
    """The intake of the old partitions is opened again behind a rescale."""
    rescale = MemoryEngine.rescale

    def open_behind(self: MemoryEngine, claims: Sequence[Claim], partitions: int) -> None:
        rescale(self, claims, partitions)
        for claim in claims:
            self._partitions[claim.partition].closed = False

    patch.setattr(MemoryEngine, "rescale", open_behind)


@found_by(P.TIMERS, P.FOLD, seed=7)
def the_clock_starts_anew_at_rescale(patch: Patch) -> None:
    """New partitions begin at time zero, and at what the clock says now."""

    def timeless(parents: object, letters: list[object], calls: list[object]) -> Head:
        return Head(letters_next=len(letters) + 1, calls_next=len(calls) + 1)

    patch.setattr(inheritance, "first_head", timeless)
    patch.setattr(inheritance, "latest", lambda stamps: NEVER)


@found_by(P.FOLD, P.MESSAGES, P.KEPT, seed=15)
def a_rescale_does_not_wait_for_the_drain(patch: Patch) -> None:
    """New partitions take over while events and messages wait in the old ones."""
    patch.setattr(inheritance, "check_drained", lambda parents: None)
    patch.setattr(Rescale, "_drain", Rescale._switch)


BROKEN += broken_calls.BROKEN
BROKEN += broken_lane.BROKEN
