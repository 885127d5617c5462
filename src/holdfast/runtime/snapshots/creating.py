"""Making a snapshot: 1 capture, 2 compare with the newest one, 3 upload what is new, 4 manifest.

Rows that changed go into a delta over the base of the snapshot before; once the deltas are half as
large as the base, a new base is made. To compare, the rows of the newest snapshot have to be known:
whoever has made it remembers their digests, anybody else reads it back, which also finds out
whether it is whole; if it is not, everything is written anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import NamedTuple

import msgspec

from holdfast.blob.sealing import digest_of
from holdfast.engine.contents import Contents, PartitionContents
from holdfast.engine.port import Engine
from holdfast.errors import DamagedData, TheirBug, TimedOut, UsageError
from holdfast.runtime.snapshots.chunks import Chunks, by_size, in_order, runs_of_slots
from holdfast.runtime.snapshots.manifest import (
    AUTOMATIC,
    ChunkRef,
    Manifest,
    PartitionEntry,
    check_name,
)
from holdfast.runtime.snapshots.rows import Row, rows_of
from holdfast.runtime.snapshots.store import SnapshotStore

DELTAS_MAX = 64
CREATE_SECONDS_MAX = 6 * 3600.0  # half of the grace of orphans: retention.py counts on it
_log = logging.getLogger("holdfast.snapshots")
Digests = dict[bytes, bytes]  # name of a row -> digest of its body


@dataclass
class Memory:
    """What the newest snapshot holds, remembered by whoever made it."""

    number: int = -1
    digests: dict[str, Digests] = field(default_factory=dict)  # by incarnation


class Made(NamedTuple):
    manifest: Manifest
    chunks: int  # new ones
    bytes: int  # uploaded, without the manifest
    seconds: float


class Creation:
    def __init__(
        self,
        engine: Engine,
        store: SnapshotStore,
        memory: Memory | None = None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not engine.capabilities.captures:
            raise UsageError("this engine has no snapshots: use sqlite:PATH or kafka://…")
        self._engine = engine
        self._store = store
        self._memory = memory or Memory()
        self._wall = wall
        self._monotonic = monotonic

    def run(self, name: str | None = None) -> Made:
        """A savepoint of this name, or without one an automatic snapshot."""
        self._started = self._monotonic()
        listed = self._store.listed()
        if name is not None:
            check_name(name)
            if name.startswith(AUTOMATIC):
                raise UsageError(f"names that begin with {AUTOMATIC} are given by Holdfast itself")
            if any(each.name == name for each in listed):
                raise self._store.taken(name)
        before = self.before()
        self._number = self._store.claim()
        self._chunks = Chunks(
            self._store.blob,
            name or "an automatic snapshot",
            (ref.name for ref in before.chunks()) if before else (),
        )
        contents = self._engine.capture()
        try:
            manifest, memory = self._write(contents, name, before)
        except BaseException:
            self._chunks.take_back()  # a disk that is full would be filled up by every attempt
            raise
        finally:
            contents.close()
        # Whatever is told of this step, the manifest may be there: what it refers to stays.
        self._store.add(manifest)
        self._memory.number, self._memory.digests = memory.number, memory.digests
        took = self._monotonic() - self._started
        return Made(manifest, len(self._chunks.uploaded), self._chunks.uploaded_bytes, took)

    def before(self) -> Manifest | None:
        """What to build on. One that cannot be read is no obstacle: everything is written anew."""
        try:
            newest = self._store.newest()
        except TheirBug as damage:
            _log.warning("%s; the next snapshot does not build on it", damage)
            return None
        if newest is not None:
            self._store.check_fleet(newest, self._engine.catalog.fleet)
        return newest

    def _write(
        self, contents: Contents, name: str | None, before: Manifest | None
    ) -> tuple[Manifest, Memory]:
        taken = max(self._wall(), before.taken if before else 0.0)
        entries = {each.incarnation: each for each in before.partitions} if before else {}
        memory = Memory(self._number)
        known = self._memory if before and before.number == self._memory.number else Memory()
        partitions = []
        for partition in contents.partitions:
            incarnation = partition.facts.incarnation
            entry = entries.get(incarnation)
            digests = known.digests.get(incarnation)
            if entry is not None and digests is None:
                digests = self._read_back(entry)
            made, now = self._partition(partition, entry, digests)
            memory.digests[incarnation] = now
            partitions.append(made)
        manifest = Manifest(
            contents.fleet,
            name or f"{AUTOMATIC}{_digits(taken)}-{self._number}",
            self._number,
            taken,
            version("holdfast"),
            {number: schema.to_json() for number, schema in contents.schemas.items()},
            partitions,
            [PartitionEntry.of(facts) for facts in contents.retired],
        )
        self._check_time()
        return manifest, memory

    def _read_back(self, entry: PartitionEntry) -> Digests | None:
        try:
            rows = self._chunks.rows(entry.base, entry.deltas)
            return {row.name: digest_of(row.body or b"") for row in rows}
        except DamagedData as damage:
            _log.warning("%s; the next snapshot does not build on it", damage)
            self._chunks.forget(ref.name for ref in entry.chunks())
            return None

    def _partition(
        self, partition: PartitionContents, entry: PartitionEntry | None, digests: Digests | None
    ) -> tuple[PartitionEntry, Digests]:
        rows = sorted(rows_of(partition))
        now = {row.name: digest_of(row.body or b"") for row in rows}
        made = PartitionEntry.of(partition.facts)
        waiting = ((f.first, f.count, f.stamp, f.frame) for f in partition.frames())
        frames = by_size(waiting, lambda stored: len(stored[3]))
        outbox = by_size(partition.outbox(), lambda out: len(out[3]))
        changed = _changed(rows, now, digests) if digests is not None else []
        if entry is not None and digests is not None and _worth_a_delta(entry, changed):
            base = entry.base
            deltas = [*entry.deltas, *self._put_all(in_order(changed))]
        else:
            slots = partition.facts.slots
            base = self._put_all(runs_of_slots(rows, slots.start, len(slots)))
            deltas = []
        return msgspec.structs.replace(
            made,
            rows=len(rows),
            base=base,
            deltas=deltas,
            frames=self._put_all(frames),
            outbox=self._put_all(outbox),
        ), now

    def _put_all(self, runs: Iterable[Sequence[object]]) -> list[ChunkRef]:
        refs = []
        for run in runs:
            self._check_time()
            refs.append(self._chunks.put(run))
        return refs

    def _check_time(self) -> None:
        """Retention lets orphans live twice as long: none of ours is collected before that."""
        if self._monotonic() - self._started > CREATE_SECONDS_MAX:
            raise TimedOut(
                f"{self._store.blob.url}: the snapshot has taken {CREATE_SECONDS_MAX / 3600:g} "
                "hours and is given up: look for a faster store"
            )


def _digits(wall: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall))


def _changed(rows: list[Row], now: Digests, before: Digests) -> list[Row]:
    changed = [row for row in rows if before.get(row.name) != now[row.name]]
    changed += [Row(0, name, None) for name in sorted(before.keys() - now.keys())]
    return changed


def _worth_a_delta(entry: PartitionEntry, changed: list[Row]) -> bool:
    base = sum(ref.raw for ref in entry.base)
    size = sum(len(row.name) + len(row.body or b"") for row in changed)
    size += sum(ref.raw for ref in entry.deltas)
    return len(entry.deltas) < DELTAS_MAX and size * 2 <= base
