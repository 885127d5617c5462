"""Engines with one thing wrong each, made from the memory engine: what the kit has to notice.

`Lasting` and `Delivering` are sound, and stand in for engines that survive their process or deliver
messages by themselves: what another process would find is a twin that shares the data.
"""

import copy
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from holdfast.engine.deaths import Deaths
from holdfast.engine.memory import MemoryEngine, MemoryPartition
from holdfast.engine.port import APPEND_SECONDS, Claim, Parcel, Taken
from holdfast.engine.stamping import Instant
from holdfast.stepping.commit import Commit
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame

Results = list[Taken | Exception]
A_MOMENT = 0.002


class Sound(MemoryEngine):
    """The memory engine, with a way to open its data once more."""

    def twin(self) -> Self:
        twin = copy.copy(self)
        twin._granted = set()
        twin._changed = threading.Condition()
        twin._closed = twin.catalog.closed = False
        return twin


class Lasting(Sound):
    """Counts deaths, as an engine does whose data survives them."""

    capabilities = dataclasses.replace(MemoryEngine.capabilities, survives_exit=True)

    def _counts(self) -> tuple[dict[int, int | None], dict[int, Deaths]]:
        known: tuple[dict[int, int | None], dict[int, Deaths]]
        known = self.__dict__.setdefault("counts", ({}, {}))
        return known

    def twin(self) -> Self:
        self._counts()
        return super().twin()

    def _claim(self, number: int, generation: int) -> Claim:
        claim = super()._claim(number, generation)
        notes, deaths = self._counts()
        position = self._partitions[number].committed.position
        deaths[number] = deaths.get(number, Deaths()).found(notes.pop(number, None), position)
        found = deaths[number]
        return dataclasses.replace(claim, attempts=found.attempts, alone=found.alone)

    def folding(self, claim: Claim, position: int | None) -> None:
        self._counts()[0][claim.partition] = position


class Delivering(Sound):
    capabilities = dataclasses.replace(MemoryEngine.capabilities, delivers_messages=True)

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        for out in commit.outgoing:
            del part.outbox[out.destination, out.first]
            parcel = Parcel(Frame.decode(out.frame), out.frame, external=False)
            self._take(out.destination, [parcel], self._clock())


# Appending.


class Doubling(Sound):
    """Knows no repeats."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        bare = [dataclasses.replace(p, source=None, seqs=range(0), mark=None) for p in parcels]
        return super()._take(partition, bare, now)


class Reordering(Sound):
    """Appends what came last first."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        return super()._take(partition, list(parcels)[::-1], now)[::-1]


class Touchy(Sound):
    """One refused parcel spoils the whole append."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        results = super()._take(partition, parcels, now)
        refused = [r for r in results if isinstance(r, Exception)]
        return [refused[0] if refused else result for result in results]


class Forgetful(Sound):
    """Acknowledges without keeping."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        results = super()._take(partition, parcels, now)
        part = self._partitions[partition]
        if len(part.inbox) > 5:
            del part.inbox[-1]
        return results


class Boasting(Sound):
    """Says of repeats that they were new."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        result = super()._append_one(part, parcel, now)
        return result._replace(new=parcel.frame.count) if isinstance(result, Taken) else result


class Folding(Sound):
    """Takes names that differ in case only for the same one."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        source = parcel.source.strip().casefold() if parcel.source is not None else None
        return super()._append_one(part, dataclasses.replace(parcel, source=source), now)


class Editing(Sound):
    """Stores the columns it knows."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        known = {n: c for n, c in parcel.frame.columns.items() if not n.startswith(("col", "lar"))}
        encoded = Frame(parcel.frame.count, known).encode()
        return super()._append_one(part, dataclasses.replace(parcel, encoded=encoded), now)


class Mingling(Sound):
    """Has one table of sources for all partitions."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        self._partitions[partition].ledger = self._partitions[0].ledger
        return super()._take(partition, parcels, now)


class Boundless(Sound):
    """Takes any amount."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        return super()._append_one(part, dataclasses.replace(parcel, external=False), now)


class Strict(Sound):
    """Refuses messages at the bound, too."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        return super()._append_one(part, dataclasses.replace(parcel, external=True), now)


class OffByOne(Sound):
    """Takes one more than the bound."""

    def _append_one(self, part: MemoryPartition, parcel: Parcel, now: Instant) -> Taken | Exception:
        part.next -= 1
        try:
            refusal = super()._append_one(
                part, dataclasses.replace(parcel, frame=Frame(0, {})), now
            )
        finally:
            part.next += 1
        if isinstance(refusal, Exception) or not parcel.external:
            return refusal if parcel.external else super()._append_one(part, parcel, now)
        return super()._append_one(part, dataclasses.replace(parcel, external=False), now)


class Backward(Sound):
    """Stamps with the bare clock."""

    def _take(self, partition: int, parcels: Sequence[Parcel], now: Instant) -> Results:
        self._partitions[partition].stamp = Instant(0.0, 0.0, "another boot")
        return super()._take(partition, parcels, now)


class Patient(Sound):
    """Waits for its turn as long as it takes."""

    @contextmanager
    def _turn(self, partition: int, seconds: float) -> Iterator[None]:
        with super()._turn(partition, 60.0):
            yield


class Piecemeal(Sound):
    """Appends the parcels of one call one after the other."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        results: Results = []
        for each in parcels:
            results += super().append(partition, [each], wait_seconds)
            time.sleep(A_MOMENT)
        return results


# Reading.


class Late(Sound):
    """Starts reading behind the frame that holds the position."""

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        found = super().read(partition, position, events_max)
        return [stored for stored in found if stored.first >= position]


class Gluttonous(Sound):
    """Reads everything at once."""

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return super().read(partition, position, 1_000_000_000)


class Exact(Sound):
    """Never gives more events than it was asked for, and so nothing of a large frame."""

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        found = super().read(partition, position, events_max)
        return found if sum(stored.count for stored in found) <= events_max else found[:-1]


class Hasty(Sound):
    """Commits while others look."""

    @contextmanager
    def _turn(self, partition: int, seconds: float) -> Iterator[None]:
        yield

    def _commit_one(self, claim: Claim, commit: Commit) -> None:
        part = self._partitions[claim.partition]
        if not self._stands(part, claim, commit):
            half = commit.records[: len(commit.records) // 2]
            # Another dictionary: whoever goes through the old one is not to stumble, but to see it.
            part.states = {**part.states, **{(r.agent, r.key): r for r in half}}
            time.sleep(A_MOMENT)
            self._write(part, commit)


class Previewing(Sound):
    """Counts events before they are durable."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        part = self._partitions[partition]
        part.next += 1
        try:
            self._faults("append.inside")
        finally:
            part.next -= 1
        return super().append(partition, parcels, wait_seconds)
