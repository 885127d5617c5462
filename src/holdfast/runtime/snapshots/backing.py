"""Restoring to a point: 1 find the snapshot, 2 go on to the point, 3 plant, 4 rescale if wanted.

A new directory gets its name at the very end, and a prefix of Kafka the record that makes a fleet,
so that nothing half-restored ever opens. Partitions have new incarnations: from here on their
positions mean other events than those of the data they come from, and an archive of the one must
not be taken for one of the other.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from holdfast.blob.port import Blob
from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.planting import Target, target_of
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import fleet_at, open_engine
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.shipper import Shipper
from holdfast.runtime.replaying.history import written
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.forwarding import Forward, Point
from holdfast.runtime.snapshots.logs import ArchiveLog, DirectoryLog, Log
from holdfast.runtime.snapshots.manifest import Manifest
from holdfast.runtime.snapshots.restoring import StoredContents, manifest_of, renew
from holdfast.runtime.snapshots.store import SnapshotStore


@dataclass(frozen=True)
class Request:
    """What to restore. Without a name, the newest snapshot before the point."""

    to: Path | str  # a directory or an engine URL, where nothing is yet
    name: str | None = None
    point: Point | None = None  # None: with a name the snapshot itself, without one all there is
    partitions: int | None = None
    fleet: FleetModel | None = None
    data: str | None = None  # the engine URL of data whose log may serve where no archive is


@dataclass(frozen=True)
class Restored:
    manifest: Manifest
    folded: int  # events behind the snapshot that were folded
    waiting: int  # and that wait in the new place

    def __str__(self) -> str:
        behind = f", {self.folded:,} events behind it folded" if self.folded else ""
        return f"snapshot {self.manifest.name}{behind}, {self.waiting:,} events wait to be folded"


def restore_to(store: SnapshotStore, request: Request, faults: FaultPoints = no_faults) -> Restored:
    target = target_of(request.to)
    target.check()
    with ExitStack() as stack:
        log = _log(store.blob, request, stack)
        manifest = _choose(store, request, log)
        contents: Contents = StoredContents(store, manifest)
        if log is not None:
            contents = Forward(contents, log, request.fleet).run(request.point or Point())
        positions = [part.facts.head.position for part in contents.partitions]
        folded = sum(positions) - sum(e.facts.head.position for e in manifest.partitions)
        waiting = sum(part.facts.next for part in contents.partitions) - sum(positions)
        renew(contents)
        _plant(request, target, contents, faults)
    return Restored(manifest, folded, waiting)


def _log(blob: Blob, request: Request, stack: ExitStack) -> Log | None:
    """What there is behind snapshots; None where the snapshot itself is wanted."""
    if request.name is not None and request.point is None:
        return None
    archive = Archive(blob)
    if archive.picture()[1] is not None:
        return ArchiveLog(archive)
    if request.data is not None and fleet_at(request.data) is not None:
        engine = open_engine(request.data, None)
        stack.callback(engine.close)
        return DirectoryLog(engine)
    if request.point is None:
        return None
    raise UsageError(
        f"{blob.url}: has no archived log, so there is nothing behind its snapshots: leave --until "
        "out, and archive with `holdfast run --archive` or `holdfast backup`"
    )


def _choose(store: SnapshotStore, request: Request, log: Log | None) -> Manifest:
    fleet = request.fleet.name if request.fleet is not None else None
    if request.name is not None:
        manifest = manifest_of(store, request.name, fleet)
        if request.point is not None and not _is_before(manifest, request.point):
            raise UsageError(
                f"{store.blob.url}: snapshot {manifest.name} was taken after that point: take an "
                "earlier one, `holdfast snapshot list` has them"
            )
        return manifest
    oldest: Manifest | None = None
    for manifest in store.from_newest():
        oldest = manifest
        if request.point is None or _is_before(manifest, request.point):
            if fleet is not None:
                store.check_fleet(manifest, fleet)
            return manifest
    if oldest is not None:
        raise UsageError(
            f"{store.blob.url}: all snapshots were taken after that point, the oldest at "
            f"{written(oldest.latest)}: give a later one"
        )
    if log is not None:
        raise UsageError(
            f"{store.blob.url}: has a log but no snapshot to begin with: name the place that has "
            "both; `holdfast run` brings them to one if --archive and --snapshots are the same URL"
        )
    raise UsageError(f"{store.blob.url}: there are no snapshots: check the URL")


def _is_before(manifest: Manifest, point: Point) -> bool:
    for entry in manifest.partitions:
        if entry.number == point.partition and entry.next > point.position:
            return False
    return manifest.latest <= point.time


def time_of(store: SnapshotStore, partition: int, position: int, data: str | None) -> Point:
    """The point before the event at a position: the others are as they were at that time."""
    if position < 1:
        raise UsageError("positions begin with 0, and before the first there is nothing to restore")
    with ExitStack() as stack:
        log = _log(store.blob, Request(Path(), point=Point(), data=data), stack)
        assert log is not None
        for manifest in store.from_newest():
            for entry in manifest.partitions:
                if entry.number != partition:
                    continue
                if entry.next <= position - 1:
                    found = next(log.frames(entry.incarnation, position - 1), None)
                    if found is not None:
                        return Point(found.stamp, partition, position)
                elif entry.next == position:
                    return Point(entry.stamp[0], partition, position)
    raise UsageError(
        f"no snapshot of partition {partition} is before position {position}, or the log does not "
        "reach it: `holdfast snapshot list` has the snapshots"
    )


def _plant(request: Request, target: Target, contents: Contents, faults: FaultPoints) -> None:
    """Other partitions are made in a directory aside, so that here too it is whole or not there."""
    count = len(contents.layout.partitions)
    if request.partitions in (None, count):
        target.plant(contents, faults)
        return
    assert request.partitions is not None
    if request.fleet is None:
        raise UsageError("another number of partitions folds what waits: give the fleet's code")
    with target.workshop() as place:
        SqliteEngine.plant(place, contents, faults)
        rescale(request.fleet, f"sqlite:{place}", request.partitions, faults=faults)
        target.take(place, faults)


def ship_once(engine: Engine, blob: Blob) -> str:
    """Bring the archive up to what is there now."""
    shipper = Shipper(engine, blob)
    while shipper.tick():
        pass
    if shipper.trouble:
        raise HoldfastError(shipper.trouble)
    lag = shipper.lag()
    return str(lag) if lag.events else "every event is archived"
