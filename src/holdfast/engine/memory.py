"""The in-memory engine: the readable reference for what an engine does. Gone with its process."""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.engine import inheritance
from holdfast.engine.admission import SourceRow, admit
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.port import (
    APPEND_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.stamping import NEVER, Clock, Instant, next_stamp, system_clock
from holdfast.errors import Backlog, Busy, Fenced, HoldfastError, OutdatedCode, UsageError
from holdfast.model.keys import Layout, slot_of
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Answer, Commit, Head, Issued, Journalled, Letter, Record
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.rows import select

R = TypeVar("R", StoredFrame, Journalled, Issued)


class MemoryCatalog:
    def __init__(self, fleet: str, partitions: int) -> None:
        self.fleet = fleet
        self.layout = Layout.even(partitions)
        self.retired: dict[int, range] = {}
        self._schemas: dict[int, Schema] = {}
        self._lock = threading.Lock()
        self.closed = False

    def schemas(self) -> dict[int, Schema]:
        return dict(self._schemas)

    def register(self, schemas: Sequence[Schema]) -> dict[str, int]:
        if self.closed:
            raise UsageError("this handle is closed: open another")
        with self._lock:
            known = {s.fingerprint: i for i, s in self._schemas.items()}
            for schema in schemas:
                if schema.fingerprint not in known:
                    known[schema.fingerprint] = len(self._schemas) + 1
                    self._schemas[len(self._schemas) + 1] = schema
            return known


class MemoryLedger:
    """Dedupe rows in dictionaries."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceRow] = {}
        self.chunks: dict[tuple[str, int], int] = {}
        self.marks: dict[str, int] = {}
        self.last_by_key: dict[tuple[str, str], int] = {}

    def source(self, name: str) -> SourceRow | None:
        return self.sources.get(name)

    def put_source(self, name: str, row: SourceRow) -> None:
        self.sources[name] = row

    def source_count(self) -> int:
        return len(self.sources)

    def forget_idle_anonymous(self, before: float) -> int:
        idle = [n for n, row in self.sources.items() if n.startswith("~") and row.stamp < before]
        for name in idle:
            del self.sources[name]
            self.chunks = {k: bits for k, bits in self.chunks.items() if k[0] != name}
        return len(idle)

    def chunk(self, name: str, number: int) -> int:
        return self.chunks.get((name, number), 0)

    def put_chunk(self, name: str, number: int, bits: int) -> None:
        self.chunks[name, number] = bits

    def drop_chunks_below(self, name: str, number: int) -> None:
        for key in [k for k in self.chunks if k[0] == name and k[1] < number]:
            del self.chunks[key]

    def mark(self, source: str) -> int:
        return self.marks.get(source, 0)

    def put_mark(self, source: str, last: int) -> None:
        self.marks[source] = last

    def last_of_key(self, name: str, key: str) -> int:
        return self.last_by_key.get((name, key), 0)

    def put_last_of_key(self, name: str, key: str, seq: int) -> None:
        self.last_by_key[name, key] = seq

    def dedupe(self) -> Dedupe:
        return Dedupe(self.sources, self.chunks, self.last_by_key)


@dataclass
class MemoryPartition:
    """One partition, and the committed view of it."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    inbox: list[StoredFrame] = field(default_factory=list)
    next: int = 0
    stamp: Instant = NEVER
    closed: bool = False  # to everything but messages
    epoch: int = 0
    generation: int = 0
    committed: Head = field(default_factory=Head)
    states: dict[tuple[str, str], Record] = field(default_factory=dict)
    outbox: dict[tuple[int, int], tuple[int, bytes]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    issued: list[Issued] = field(default_factory=list)
    journalled: list[Journalled] = field(default_factory=list)
    dead: dict[int, tuple[Letter, bool]] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    born: str = field(default_factory=lambda: uuid.uuid4().hex)
    whole: threading.RLock = field(default_factory=threading.RLock)  # nothing in it is half done

    def head(self) -> Head:
        with self.whole:
            return self.committed

    def inbox_next(self) -> int:
        with self.whole:
            return self.next

    def inbox_first(self) -> int:
        with self.whole:
            return self.inbox[0].first if self.inbox else self.next

    def record(self, agent: str, key: str) -> Record | None:
        with self.whole:
            return self.states.get((agent, key))

    def records(self, agent: str | None = None) -> Iterator[Record]:
        with self.whole:
            return iter([r for r in self.states.values() if agent in (None, r.agent)])

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        with self.whole:
            start = stop = _holding(self.inbox, first)
            events = 0
            while stop < len(self.inbox) and events < most:
                events += self.inbox[stop].count
                stop += 1
            return self.inbox[start:stop]

    def journal(self, first: int, most: int) -> list[Journalled]:
        with self.whole:
            start = _holding(self.journalled, first)
            return self.journalled[start : start + most]

    def actions(self, first: int, most: int) -> list[Issued]:
        with self.whole:
            start = _holding(self.issued, first)
            return self.issued[start : start + most]

    def letters(self) -> list[tuple[Letter, bool]]:
        with self.whole:
            return list(self.dead.values())

    def letter(self, letter_id: int) -> Letter | None:
        with self.whole:
            letter, redriven = self.dead.get(letter_id, (None, False))
            return None if redriven else letter

    def answer(self, position: int) -> Answer | None:
        with self.whole:
            return self.answers.get(position)

    def sent_next(self) -> dict[int, int]:
        with self.whole:
            return dict(self.numbers)

    def marks(self) -> dict[str, int]:
        with self.whole:
            return dict(self.ledger.marks)

    def incarnation(self) -> str:
        return self.born

    def owner(self) -> str:
        return "this process" if self.epoch else ""


def _child(parents: Collection[MemoryPartition], slots: range) -> MemoryPartition:
    letters = inheritance.letters_of(slots, [part.letters() for part in parents])
    dedupe = inheritance.union(part.ledger.dedupe() for part in parents).of(slots)
    child = MemoryPartition(
        stamp=inheritance.latest(part.stamp for part in parents),
        generation=max(part.generation for part in parents),
        committed=inheritance.first_head((part.committed for part in parents), letters),
        dead={letter.id: (letter, False) for letter in letters},
    )
    child.ledger.sources, child.ledger.chunks, child.ledger.last_by_key = dedupe
    for part in parents:
        for name, record in part.states.items():
            if slot_of(record.key) in slots:
                child.states[name] = inheritance.moved(record)
    return child


def _holding(runs: list[R], first: int) -> int:
    """Where the run is that holds `first`, or comes next. They are long: searched, not walked."""
    start = max(0, bisect_right(runs, first, key=lambda run: run.first) - 1)
    if start < len(runs) and runs[start].first + runs[start].count <= first:
        start += 1
    return start


class MemoryEngine:
    capabilities = Capabilities(
        several_processes=False,
        survives_exit=False,
        refuses_at_append=True,
        delivers_messages=False,
        rescales=True,
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
            waiting = part.next - part.committed.position
            if parcel.external and waiting >= self.limits.backlog_events_max:
                raise Backlog(f"{waiting:,} events wait to be folded, the bound: send slower")
            jump = self.limits.clock_jump_seconds_max
            stamp = part.stamp if part.closed else next_stamp(part.stamp, now, jump)
            fresh = admit(parcel, part.ledger, stamp.wall, self.limits.sources_max)
        except HoldfastError as refusal:
            return refusal
        encoded = parcel.encoded if fresh is None else select(parcel.frame, fresh).encode()
        count = parcel.frame.count if fresh is None else len(fresh)
        if count:
            part.inbox.append(StoredFrame(part.next, count, stamp.wall, encoded))
            part.next += count
            part.stamp = stamp
        return Taken(part.next, count, stamp.wall)

    def _tell(self, partition: int) -> None:
        """An append ends the wait of whoever folds the partition."""
        if partition in self._granted:
            self.wake()

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return self._part(partition).frames(position, events_max)

    def assignments(self, wanted: Sequence[int], generation: int) -> Iterator[Granted | Revoked]:
        for number in wanted:
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
            return Loaded(part.committed, numbers, outbox, part.records(), part.stamp)

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
        for record in commit.records:
            if record.gone:
                part.states.pop((record.agent, record.key), None)
            else:
                part.states[record.agent, record.key] = record
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
        if commit.issued is not None:
            part.issued.append(commit.issued)
        if commit.journalled is not None:
            part.journalled.append(commit.journalled)
        part.committed = commit.head

    # Rescaling.

    def close_intake(self, claim: Claim) -> None:
        with self._turn(claim.partition, APPEND_SECONDS):
            part = self._claimed(claim)
            if not part.closed:
                jump = self.limits.clock_jump_seconds_max
                part.stamp = next_stamp(part.stamp, self._clock(), jump)
            part.closed = True

    def open_intake(self, claim: Claim) -> None:
        with self._turn(claim.partition, APPEND_SECONDS):
            self._claimed(claim).closed = False

    def _claimed(self, claim: Claim) -> MemoryPartition:
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
            parents = {claim.partition: self._claimed(claim) for claim in claims}
            if parents.keys() != set(before.numbers):
                raise inheritance.not_claimed(before, parents)
            for number, part in parents.items():
                if not part.closed:
                    raise inheritance.intake_open(number)
                if part.outbox:
                    raise inheritance.not_drained(number, "its outbox is not empty")
            inheritance.check_drained(parents)
            layout = Layout.even(partitions, first=before.numbers.stop)
            self._partitions += [_child(parents.values(), s) for s in layout.partitions]
            for part in parents.values():
                part.epoch += 1
            self._granted.difference_update(parents)
            self.catalog.retired = {**self.catalog.retired, **before.slots_by_number}
            self.catalog.layout = layout

    def folding(self, claim: Claim, position: int | None) -> None:
        """An event that kills this process takes the data along: there is nobody to tell."""

    def view(self, partition: int) -> MemoryPartition:
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
                part.issued = [one for one in part.issued if one.now >= oldest]

    def _part(self, partition: int) -> MemoryPartition:
        if self._closed:
            raise UsageError("this handle is closed: open another")
        return self._partitions[partition]

    def close(self) -> None:
        self._closed = self.catalog.closed = True
        self._granted.clear()
