"""The in-memory engine: the readable reference for what an engine does. Gone with its process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from holdfast.engine import inheritance
from holdfast.engine.admission import admit, taken_at
from holdfast.engine.contents import Contents, HeldContents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.local import OneMachine
from holdfast.engine.memory import capturing
from holdfast.engine.memory.catalog import MemoryCatalog
from holdfast.engine.memory.partition import MemoryPartition, child_of
from holdfast.engine.port import (
    APPEND_SECONDS,
    VIEW_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Images,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.stamping import Clock, Instant, next_stamp, system_clock
from holdfast.errors import Backlog, Busy, Fenced, HoldfastError, OutdatedCode, UsageError
from holdfast.model.keys import Layout
from holdfast.stepping.commit import Commit
from holdfast.stepping.fates import Fates
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE, URGENT, divided, wholly_urgent
from holdfast.stepping.rows import select

COMPACT_FROM = 128  # blocks and records that lie as they came


class MemoryEngine(OneMachine):
    capabilities = Capabilities(
        several_processes=False,
        survives_exit=False,
        refuses_at_append=True,
        delivers_messages=False,
        rescales=True,
        captures=True,
    )

    def __init__(
        self,
        fleet: str,
        partitions: int = 1,
        limits: Limits | None = None,
        clock: Clock = system_clock,
        faults: FaultPoints = no_faults,
    ) -> None:
        self.limits = limits or Limits()
        self.catalog = MemoryCatalog(fleet, partitions)
        self._clock = clock
        self._faults = faults
        self._partitions = [MemoryPartition() for _ in range(partitions)]
        self._granted: set[int] = set()
        self._changed = threading.Condition()
        self._woken = False
        self._closed = False

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        with self._turn(partition, wait_seconds):
            self._faults("append.before")
            self._faults("append.inside")  # nothing is durable here: there is no more to it
            results = self._take(partition, parcels, self._clock())
            self._faults("append.after")
        self._tell(partition)
        return results

    @contextmanager
    def _turn(self, partition: int, seconds: float) -> Iterator[None]:
        whole = self._part(partition).whole
        if not whole.acquire(timeout=seconds):
            raise Busy(f"partition {partition}: other threads append without a pause: try again")
        try:
            yield
        finally:
            whole.release()

    def _take(
        self, partition: int, parcels: Sequence[Parcel], now: Instant
    ) -> list[Taken | Exception]:
        part = self._partitions[partition]
        with part.whole:
            return [self._append_one(part, parcel, now) for parcel in parcels]

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        try:
            if part.closed and parcel.mark is None:
                raise inheritance.refuses("this partition")
            if parcel.external:
                self._check_backlog(part, parcel.frame)
            jump = self.limits.clock_jump_seconds_max
            stamp = part.stamp if part.closed else next_stamp(part.stamp, now, jump)
            fresh = admit(parcel, part.ledger, stamp.wall, self.limits)
        except HoldfastError as refusal:
            return refusal
        frame = parcel.frame if fresh is None else select(parcel.frame, fresh)
        urgent, others = divided(frame)
        for one in urgent:
            stored = StoredFrame(LANE + part.urgent, 1, stamp.wall, one.encode())
            part.lane.append(stored)
            part.urgent += 1
        if others is not None and others.count:
            encoded = parcel.encoded if others is parcel.frame else others.encode()
            part.inbox.append(StoredFrame(part.next, others.count, stamp.wall, encoded))
            part.next += others.count
        if frame.count:
            part.stamp = stamp
        return taken_at(parcel.frame, frame.count, part.next, LANE + part.urgent, stamp.wall)

    def _check_backlog(self, part: MemoryPartition, frame: Frame) -> None:
        bounds: list[tuple[int, int, str]] = []
        if URGENT in frame:
            waiting = part.urgent - part.committed.urgent
            bounds.append((waiting, self.limits.urgent_events_max, "urgent events"))
        if not wholly_urgent(frame):
            waiting = part.next - part.committed.position
            bounds.append((waiting, self.limits.backlog_events_max, "events"))
        for waiting, most, what in bounds:
            if waiting >= most:
                raise Backlog(f"{waiting:,} {what} wait to be folded, the bound: send slower")

    def _tell(self, partition: int) -> None:
        """An append ends the wait of whoever folds the partition."""
        if partition in self._granted:
            self.wake()

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return self._part(partition).frames(position, events_max)

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        for number in wanted or ():
            with self._turn(number, APPEND_SECONDS):
                if number in self._granted:
                    continue
                claim = self._claim(number, generation)
                self._granted.add(number)
            yield Granted(claim)

    def _claim(self, number: int, generation: int) -> Claim:
        part = self._partitions[number]
        if number in self.catalog.retired:
            raise Fenced(f"partition {number} is retired: the fleet was rescaled")
        if part.generation > generation:
            raise OutdatedCode(
                f"partition {number}: newer classes have folded here (schema generation "
                f"{part.generation}, this program has {generation})"
            )
        part.generation = generation
        part.epoch += 1
        part.closed = False
        return Claim(number, part.epoch, part.born, attempts=0, alone=False)

    def load(self, claim: Claim) -> Loaded:
        part = self._part(claim.partition)
        with part.whole:
            outbox = [(to, first, n, f) for (to, first), (n, f) in sorted(part.outbox.items())]
            numbers = dict(part.numbers)
            states = iter([*part.states.values(), *part.layers()])
            return Loaded(part.committed, numbers, outbox, states, part.stamp)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            self._faults("commit.before")
            with self._turn(claim.partition, APPEND_SECONDS):
                self._faults("commit.inside")
                self._commit_one(claim, commit)
                self._faults("commit.after")

    def _commit_one(self, claim: Claim, commit: Commit) -> None:
        part = self._partitions[claim.partition]
        with part.whole:
            if not self._stands(part, claim, commit):
                self._write(part, commit)

    def _stands(self, part: MemoryPartition, claim: Claim, commit: Commit) -> bool:
        """Whether it was made before, by one who heard of some trouble and repeats it."""
        if part.epoch != claim.epoch:
            raise Fenced(f"partition {claim.partition} was claimed again")
        if part.committed == commit.before:
            return False
        if part.committed == commit.head:
            return True
        raise Fenced(f"partition {claim.partition} is at {part.committed}: somebody committed")

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        part.put(commit)
        for out in commit.outgoing:
            part.outbox[out.destination, out.first] = (out.count, out.frame)
        for destination, last in commit.relayed.items():
            for at in [k for k in part.outbox if k[0] == destination and k[1] <= last]:
                del part.outbox[at]
        part.numbers.update(commit.sent_next)
        part.dead.update({letter.id: (letter, False) for letter in commit.letters})
        for letter_id in part.dead.keys() & set(commit.redriven):
            part.dead[letter_id] = (part.dead[letter_id][0], True)
        part.answers.update({a.position: a for a in commit.answers})
        part.opened.update({call.id: call for call in commit.calls})
        for call_id in commit.closed:
            part.opened.pop(call_id, None)
        if commit.issued is not None:
            part.issued.append(commit.issued)
        if commit.journalled is not None:
            part.journalled.append(commit.journalled)
        part.decided.add(commit.fates)
        if commit.note is not None:
            part.notes.append(commit.note)
        part.committed = commit.head

    def compact(self, claim: Claim, images: Images) -> None:
        part = self._part(claim.partition)
        with part.whole:
            if part.epoch == claim.epoch and len(part.fresh) > COMPACT_FROM:
                part.compact(images)

    # Rescaling.

    def close_intake(self, claim: Claim) -> None:
        with self._turn(claim.partition, APPEND_SECONDS):
            part = self._held_by(claim)
            if not part.closed:
                jump = self.limits.clock_jump_seconds_max
                part.stamp = next_stamp(part.stamp, self._clock(), jump)
            part.closed = True

    def open_intake(self, claim: Claim) -> None:
        with self._turn(claim.partition, APPEND_SECONDS):
            self._held_by(claim).closed = False

    def _held_by(self, claim: Claim) -> MemoryPartition:
        part = self._partitions[claim.partition]
        if part.epoch != claim.epoch:
            raise Fenced(f"partition {claim.partition} was claimed again")
        return part

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        """1 check claims, 2 check that nothing waits, 3 make children, 4 let them take over."""
        with ExitStack() as turns:
            for claim in claims:
                turns.enter_context(self._turn(claim.partition, APPEND_SECONDS))
            before = self.catalog.layout
            parents = {claim.partition: self._held_by(claim) for claim in claims}
            if parents.keys() != set(before.numbers):
                raise inheritance.not_claimed(before, parents)
            for number, part in parents.items():
                if not part.closed:
                    raise inheritance.intake_open(number)
                if part.outbox:
                    raise inheritance.not_drained(number, "its outbox is not empty")
            inheritance.check_drained(parents)
            dedupe = inheritance.union(part.ledger.dedupe() for part in parents.values())
            stamp = inheritance.latest(part.stamp for part in parents.values())
            dedupe = inheritance.within_bounds(dedupe, stamp.wall, self.limits)
            layout = Layout.even(partitions, first=before.numbers.stop)
            self._partitions += [child_of(parents.values(), s, dedupe) for s in layout.partitions]
            for part in parents.values():
                part.epoch += 1
            self._granted.difference_update(parents)
            self.catalog.retired = {**self.catalog.retired, **before.slots_by_number}
            self.catalog.layout = layout

    # Capturing.

    def capture(self) -> HeldContents:
        with ExitStack() as turns:
            for number in self.catalog.layout.numbers:
                turns.enter_context(self._turn(number, APPEND_SECONDS))
            return capturing.capture(self.catalog, self._partitions)

    @classmethod
    def plant(
        cls,
        contents: Contents,
        limits: Limits | None = None,
        clock: Clock = system_clock,
        faults: FaultPoints = no_faults,
    ) -> Self:
        faults("plant.inside")
        planted = cls(contents.fleet, len(contents.layout.partitions), limits, clock, faults)
        planted.catalog = capturing.planted_catalog(contents)
        planted._partitions = capturing.planted_partitions(contents)
        faults("plant.after")
        return planted

    def folding(self, claim: Claim, position: int | None) -> None:
        """An event that kills this process takes the data along: there is nobody to tell."""

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> MemoryPartition:
        return self._part(partition)

    def wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._woken, seconds)
            self._woken = False

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def maintain(self) -> None:
        """Forget what retention no longer keeps, as the engines on disk do."""
        oldest = self._clock().wall - self.limits.retain_seconds
        for part in self._partitions:
            with part.whole:
                folded = [f for f in part.inbox if f.first + f.count <= part.committed.position]
                past = sum(1 for frame in folded if frame.stamp < oldest)
                size = sum(len(frame.frame) for frame in folded[past:])
                while past < len(folded) and size > self.limits.retain_bytes:
                    size -= len(folded[past].frame)
                    past += 1
                del part.inbox[:past]
                done = LANE + part.committed.urgent
                part.lane = [frame for frame in part.lane if frame.first >= done]
                part.issued = [one for one in part.issued if one.now >= oldest]
                part.decided = Fates(one for one in part.fates() if one.now >= oldest)
                self._forget_notes(part, oldest)

    def _forget_notes(self, part: MemoryPartition, oldest: float) -> None:
        """Notes of commits, and with them what they say was journalled."""
        past = [note for note in part.notes if note.now < oldest]
        if past:
            fired = past[-1].fired
            del part.notes[: len(past)]
            part.journalled = [j for j in part.journalled if j.first + j.count > fired]

    def _part(self, partition: int) -> MemoryPartition:
        if self._closed:
            raise UsageError("this handle is closed: open another")
        return self._partitions[partition]

    def close(self) -> None:
        self._closed = self.catalog.closed = True
        self._granted.clear()
