"""Reading a snapshot back: verifying it, and planting it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.contents import Contents, Facts, Outbox, PartitionContents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.planting import target_of
from holdfast.engine.sqlite.folders import fresh_incarnation
from holdfast.errors import DamagedData
from holdfast.runtime.snapshots.chunks import Chunks
from holdfast.runtime.snapshots.manifest import WAY_OUT, Manifest, PartitionEntry
from holdfast.runtime.snapshots.rows import Read, read_rows
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.stepping.commit import Call, Fate, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE

Frames = list[tuple[int, int, float, bytes]]
Messages = list[tuple[int, int, int, bytes]]


class StoredPartition:
    """A partition as a snapshot has it. All but the frames is read at once, when first asked."""

    def __init__(self, entry: PartitionEntry, chunks: Chunks, what: str) -> None:
        self.facts = entry.facts
        self._entry = entry
        self._chunks = chunks
        self._what = what

    @cached_property
    def _read(self) -> Read:
        entry = self._entry
        rows = ((r.name, r.body or b"") for r in self._chunks.rows(entry.base, entry.deltas))
        try:
            read = read_rows(rows)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        sources, windows, ordered = read.dedupe
        found = len(read.records) + len(read.letters) + len(read.calls)
        found += len(read.fates) + len(sources) + len(windows) + len(ordered)
        if found != entry.rows:
            raise self._damaged(f"{found} rows of {entry.rows} are here")
        return read

    def records(self) -> Iterator[Record]:
        return iter(self._read.records)

    def letters(self) -> list[tuple[Letter, bool]]:
        letters = self._read.letters
        if [letter.id for letter, _ in letters] != list(range(1, self.facts.head.letters_next)):
            raise self._damaged("dead letters are missing")
        return letters

    def calls(self) -> list[Call]:
        return self._read.calls

    def fates(self) -> list[Fate]:
        return self._read.fates

    def dedupe(self) -> Dedupe:
        return self._read.dedupe

    def outbox(self) -> Outbox:
        return [out for ref in self._entry.outbox for out in self._chunks.get(ref, Messages)]

    def frames(self) -> Iterator[StoredFrame]:
        at, urgent = self.facts.head.position, LANE + self.facts.head.urgent
        for ref in self._entry.frames:
            for row in self._chunks.get(ref, Frames):
                stored = StoredFrame(*row)
                if stored.first == urgent:
                    urgent += 1
                elif stored.first <= at < stored.first + stored.count:
                    at = stored.first + stored.count
                else:
                    raise self._damaged(f"events from {at} on are missing")
                yield stored
        if at != self.facts.next:
            raise self._damaged(f"events from {at} to {self.facts.next} are missing")
        if urgent != LANE + self.facts.urgent:
            raise self._damaged(f"urgent events from {urgent - LANE} on are missing")

    def _damaged(self, reason: str) -> DamagedData:
        return DamagedData(
            f"{self._what}: damaged (partition {self.facts.number}: {reason}): {WAY_OUT}"
        )


class StoredContents:
    """What a snapshot holds, for planting, replay and fork."""

    def __init__(self, store: SnapshotStore, manifest: Manifest) -> None:
        what = f"snapshot {manifest.name}"
        chunks = Chunks(store.blob, what)
        self.fleet = manifest.fleet
        self.layout = manifest.layout
        self.schemas = manifest.read_schemas()
        self.retired: list[Facts] = [entry.facts for entry in manifest.retired]
        self.partitions: list[PartitionContents] = [
            StoredPartition(entry, chunks, f"{store.blob.url}: {what}")
            for entry in manifest.partitions
        ]

    def close(self) -> None:
        """Nothing is open."""


class Verified(NamedTuple):
    agents: int
    waiting: int  # events and messages
    chunks: int
    bytes: int


def verify(store: SnapshotStore, name: str, fleet: str | None = None) -> Verified:
    """Read all of it, as a restore would. Raises DamagedData with what is wrong."""
    manifest = manifest_of(store, name, fleet)
    agents = waiting = 0
    for partition in StoredContents(store, manifest).partitions:
        agents += sum(1 for _ in partition.records())
        partition.letters()
        position = partition.facts.head.position
        for stored in partition.frames():
            Frame.decode(stored.frame)
            waiting += stored.first + stored.count - max(position, stored.first)
        for _, _, count, frame in partition.outbox():
            Frame.decode(frame)
            waiting += count
    refs = {ref.object: ref.bytes for ref in manifest.chunks()}
    return Verified(agents, waiting, len(refs), sum(refs.values()))


def restore(
    store: SnapshotStore,
    name: str,
    to: Path | str,
    *,
    fleet: str | None = None,
    faults: FaultPoints = no_faults,
) -> Manifest:
    """The fleet as it was when the snapshot was taken, in a new directory or at an engine URL where
    none is. No user code is run."""
    target = target_of(to)
    target.check()
    manifest = manifest_of(store, name, fleet)
    contents = StoredContents(store, manifest)
    renew(contents)
    target.plant(contents, faults)
    return manifest


def renew(contents: Contents) -> None:
    """New incarnations for what will live a life of its own, and marks that know them."""
    parts = contents.partitions
    names = {p.facts.incarnation: fresh_incarnation(p.facts.number) for p in parts}
    for part in parts:
        facts = part.facts
        marks = {names.get(source, source): last for source, last in facts.marks.items()}
        part.facts = facts._replace(incarnation=names[facts.incarnation], marks=marks)


def manifest_of(store: SnapshotStore, name: str, fleet: str | None) -> Manifest:
    manifest = store.load(store.find(name))
    if fleet is not None:
        store.check_fleet(manifest, fleet)
    return manifest
