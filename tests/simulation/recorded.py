"""A memory engine that keeps the evidence of a run, and fails where a test tells it to.

The engine, the worker and the handles are the real ones; only time is made up, and nothing waits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from holdfast.engine.inheritance import union
from holdfast.engine.memory import MemoryEngine, MemoryLedger
from holdfast.engine.port import (
    APPEND_SECONDS,
    Claim,
    Granted,
    Parcel,
    Revoked,
    Taken,
    waiting_in,
)
from holdfast.engine.stamping import Instant
from holdfast.errors import Busy
from holdfast.model.keys import slot_of
from holdfast.stepping.commit import Call, Commit, Head, Letter, Record
from holdfast.testing.simulation.evidence import Accepted, PartitionLog


class Crash(Exception):
    """The worker that meets it is gone."""


class Time:
    """True time, and a clock that shows it. Processes differ in how wrong theirs is."""

    def __init__(self) -> None:
        self.true = 1000.0

    def clock(self, ahead: float = 0.0) -> Instant:
        return Instant(self.true + ahead, self.true, "boot")


class RecordedEngine(MemoryEngine):
    """Partition numbers go on from `first`, as after a rescale, in all that is recorded."""

    def __init__(self, time: Time, draw: random.Random, partitions: int, first: int = 0) -> None:
        super().__init__("yard", partitions, clock=time.clock)
        self._time = time
        self._draw = draw
        self.first = first
        self.logs = [
            PartitionLog(first + number, slots, self._partitions[number].born)
            for number, slots in enumerate(self.catalog.layout.partitions)
        ]
        self.process = ""  # who ticks now, and the release it runs
        self.program = 0
        self.trouble = 0.0  # how likely a commit or an append of the worker ends it
        self.loses_acknowledgement = False  # of the next append
        self.grants_alone = False
        self.grants_condemned = False
        self.condemned: set[tuple[int, int]] = set()

    def grow(self) -> None:
        """Logs for partitions that a real rescale has added."""
        for number in range(len(self.logs), len(self._partitions)):
            slots = self.catalog.layout.slots_by_number[number]
            self.logs.append(PartitionLog(number, slots, self._partitions[number].born))

    # What a worker does.

    def release(self) -> None:
        """The worker is gone: whoever comes next claims everything."""
        self._granted.clear()

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        for change in super().assignments(wanted, generation):
            assert isinstance(change, Granted)
            claim = replace(change.claim, alone=self.grants_alone)
            if self.grants_condemned:
                claim = replace(claim, alone=True, attempts=2)
                position = self._partitions[claim.partition].committed.position
                self.condemned.add((self.first + claim.partition, position))
            yield Granted(claim)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        self._maybe_crash()
        for claim, commit in batches:
            super().commit([(claim, commit)])
            log = self.logs[claim.partition]
            kept = self._as_recorded(commit)
            at = self._time.true
            log.commits.append(Accepted(at, self.process, self.program, claim.epoch, kept))
        self._maybe_crash()

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        messages = any(parcel.mark is not None for parcel in parcels)
        results = super().append(partition, parcels, wait_seconds)
        log, came = self.logs[partition], self._partitions[partition].urgent
        log.came += [self._time.true] * (came - len(log.came))
        if messages:
            self._maybe_crash()
        elif self.loses_acknowledgement:
            self.loses_acknowledgement = False
            raise Busy("the acknowledgement was lost")
        return results

    def _maybe_crash(self) -> None:
        if self._draw.random() < self.trouble:
            raise Crash

    # The evidence.

    def _as_recorded(self, commit: Commit) -> Commit:
        outgoing = [replace(o, destination=o.destination + self.first) for o in commit.outgoing]
        sent_next = {number + self.first: n for number, n in commit.sent_next.items()}
        return replace(commit, outgoing=outgoing, sent_next=sent_next)

    def written(self) -> list[PartitionLog]:
        for log, part in zip(self.logs, self._partitions, strict=True):
            log.frames, log.lane = list(part.inbox), list(part.lane)
        return self.logs

    def quiet_at(self, wall: float) -> bool:
        """Everything is folded, every message has arrived, and no timer is due. Calls may wait."""
        for part in self._partitions:
            if waiting_in(part, part.committed):
                return False
            for destination, following in part.numbers.items():
                taken = self._partitions[destination].ledger.marks.get(part.born, 0)
                if taken != following - 1:
                    return False
        return True

    # A rescale, as the layers below will do it: drained, then everything by its slot.

    def rescaled(self, partitions: int) -> RecordedEngine:
        other = RecordedEngine(
            self._time, self._draw, partitions, self.first + len(self._partitions)
        )
        other.catalog.register(list(self.catalog.schemas().values()))
        now = max(part.committed.now for part in self._partitions)
        for log, part in zip(other.logs, other._partitions, strict=True):
            letters = self._letters_of(log.slots)
            calls = self._calls_of(log.slots)
            part.ledger = MemoryLedger(union(each.ledger.dedupe() for each in self._partitions))
            for parent in self._partitions:
                part.generation = max(part.generation, parent.generation)
                part.stamp = max(part.stamp, parent.stamp)
                for name, record in parent.states.items():
                    if slot_of(record.key) in log.slots:
                        part.states[name] = _without_asks(record)
            part.dead = {letter.id: (letter, False) for letter in letters}
            part.opened = {call.id: call for call in calls}
            counts = len(letters) + 1, len(calls) + 1
            part.committed = Head(now=now, letters_next=counts[0], calls_next=counts[1])
            log.inherited, log.born = list(part.states.values()), part.committed
            log.calls = calls
        return other

    def _calls_of(self, slots: range) -> list[Call]:
        opened = [call for part in self._partitions for call in part.calls(0, 1_000_000)]
        own = sorted((call for call in opened if slot_of(call.key) in slots), key=lambda c: c.now)
        return [call._replace(number=i) for i, call in enumerate(own, start=1)]

    def _letters_of(self, slots: range) -> list[Letter]:
        waiting = [
            letter
            for part in self._partitions
            for letter, redriven in part.letters()
            if not redriven and slot_of(letter.key) in slots
        ]
        waiting.sort(key=lambda letter: letter.now)
        return [letter._replace(id=i, ask=-1) for i, letter in enumerate(waiting, start=1)]


def _without_asks(record: Record) -> Record:
    if not record.extras:
        return record
    paused, held, timers, *calls = msgspec.msgpack.decode(record.extras)
    packed = msgspec.msgpack.encode([paused, [[*row[:-1], -1] for row in held], timers, *calls])
    return record._replace(extras=packed)
