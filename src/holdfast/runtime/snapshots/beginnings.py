"""Snapshots as beginnings: where a fork takes over, and a replay whose history retention has cut.

The states in a snapshot are those of commits. So what was folded behind it can be folded again, as
long as the snapshot is of this very data: of the same incarnations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from holdfast.blob.urls import open_blob
from holdfast.engine.contents import Contents, PartitionContents
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import DamagedData
from holdfast.runtime.replaying.history import History, written
from holdfast.runtime.replaying.replay import Behind, Start
from holdfast.runtime.snapshots.manifest import Manifest
from holdfast.runtime.snapshots.restoring import StoredContents
from holdfast.runtime.snapshots.store import SnapshotStore, default_store


@contextmanager
def snapshots_at(url: str | None, engine: Engine) -> Iterator[SnapshotStore | None]:
    """The store of that URL, or the one beside the data; in memory there is none."""
    if url is None and isinstance(engine, SqliteEngine):
        url = default_store(engine.root)
    if url is None:
        yield None
        return
    blob = open_blob(url)
    try:
        yield SnapshotStore(blob)
    finally:
        blob.close()


def is_of(manifest: Manifest, engine: Engine) -> bool:
    """Whether it was taken of this data, and not of another fleet or a restored copy."""
    known = {*engine.catalog.retired, *engine.catalog.layout.numbers}
    return manifest.fleet == engine.catalog.fleet and all(
        entry.number in known and engine.view(entry.number).incarnation() == entry.incarnation
        for entry in manifest.partitions
    )


def snapshots_of(engine: Engine, store: SnapshotStore) -> Iterator[Manifest]:
    """Those of this data, the oldest first. What cannot be read is no beginning."""
    return (manifest for manifest in store.readable() if is_of(manifest, engine))


def start_of(contents: Contents, part: PartitionContents, what: str) -> Start:
    """One partition as it stood in a snapshot."""
    own = part.facts
    behind = {}
    for facts in (other.facts for other in contents.partitions):
        sent = own.sent_next.get(facts.number, 1) - 1
        behind[facts.number] = Behind(facts.next, sent - facts.marks.get(own.incarnation, 0))
    return Start(
        own.head,
        own.sent_next,
        list(part.records()),
        [letter for letter, redriven in part.letters() if not redriven],
        part.fates(),
        part.calls(),
        behind,
        what,
    )


def find_start(history: History, store: SnapshotStore | None, by: float = inf) -> Start | None:
    """Where the replay of a partition can begin: with its first event, or, where retention has
    cut that off, at the oldest snapshot from which on everything is kept, if it is from before
    the time `by`."""
    if history.first_kept() is None:
        return history.begin()
    for manifest in () if store is None else _usable(history, store, by):
        assert store is not None
        contents = StoredContents(store, manifest)
        (part,) = (p for p in contents.partitions if p.facts.number == history.number)
        try:
            return start_of(contents, part, f"snapshot {manifest.name}")
        except DamagedData:
            continue  # a later one may be whole
    return None


def latest_start(history: History, store: SnapshotStore | None, by: float) -> Start | None:
    """The same with the newest snapshot from before that time, which leaves the least to fold."""
    for manifest in reversed([] if store is None else list(_usable(history, store, by))):
        assert store is not None
        contents = StoredContents(store, manifest)
        (part,) = (p for p in contents.partitions if p.facts.number == history.number)
        try:
            return start_of(contents, part, f"snapshot {manifest.name}")
        except DamagedData:
            continue  # an older one may be whole
    return find_start(history, store, by)


def is_begun(history: History, store: SnapshotStore | None, by: float) -> bool:
    """Whether a snapshot has the partition as it was at that time or before."""
    return store is not None and any(_usable(history, store, by))


def _usable(history: History, store: SnapshotStore, by: float) -> Iterator[Manifest]:
    for manifest in snapshots_of(history.engine, store):
        heads = {entry.number: entry.facts.head for entry in manifest.partitions}
        head = heads.get(history.number)
        if head is not None and head.now <= by and history.goes_on_from(head):
            yield manifest


def why_not(history: History, store: SnapshotStore | None) -> str:
    """Why a replay cannot begin, or not so early, with the way out."""
    if store is None:
        return history.beginning()
    for manifest in _usable(history, store, inf):
        heads = {entry.number: entry.facts.head for entry in manifest.partitions}
        head = heads[history.number]
        return (
            f"{history.beginning()}, and the oldest snapshot behind it, {manifest.name}, is of "
            f"position {head.position} ({written(head.now)}): give a later time"
        )
    return (
        f"{history.beginning()}, and {store.blob.url} has no snapshot from which on all is kept: "
        "name another place with --snapshots, or make snapshots more often than history is cut"
    )
