"""Rescaling a fleet on Kafka: new topics beside the old ones, then one record of the catalog.

Producers learn from the catalog that an intake is closed, a moment late. What one of them still
appends to an old inbox after it was cut is acknowledged, so it is forwarded: by whoever owns the
first of the new partitions, to the inbox that has its key now, under the same source and number.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence

from holdfast.engine import inheritance
from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.bases import pack_folder
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.founding import Founded
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.owning import Ownership
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import unpack_parcels
from holdfast.engine.kafka.topics import Topics, partition_plans
from holdfast.engine.port import Parcel, Taken
from holdfast.engine.sqlite.rescaling import Parent, make_children
from holdfast.engine.stamping import Instant
from holdfast.errors import DamagedData
from holdfast.model.keys import Layout
from holdfast.stepping.rows import select

HEARD_SECONDS = 0.5  # until every producer that is connected knows that the intake is closed
FORWARD_SECONDS = 3600.0  # after a rescaling: no request to a broker is under way for longer

Append = Callable[[int, Sequence[Parcel]], list[Taken | Exception]]


def rescale(
    fleet: Founded,
    copies: Copies,
    owned: Mapping[int, Ownership],
    partitions: int,
    faults: FaultPoints,
) -> None:
    """1 check, 2 read no more, 3 new topics, 4 base copies of the children, 5 make them live."""
    catalog = fleet.catalog
    before = catalog.layout
    _check(fleet, copies, owned)
    after = Layout.even(partitions, first=before.numbers.stop)
    faults("rescale.before")
    time.sleep(HEARD_SECONDS)
    parents = [copies.of(number) for number in owned]
    # What comes from here on is behind the cuts, and so forwarded: no child may know of it.
    cuts = {each.mirror.number: each.stop_reading_inbox() for each in parents}
    try:
        _check(fleet, copies, owned)
        Topics(fleet.settings).make(
            partition_plans(fleet.settings.prefix or "", after.first, partitions)
        )
        _put_children(fleet, copies, owned, before, after)
        faults("rescale.inside")
        catalog.lay_out(partitions, cuts)
    except BaseException:
        for each in parents:
            each.read_inbox()
        raise
    faults("rescale.after")


def _check(fleet: Founded, copies: Copies, owned: Mapping[int, Ownership]) -> None:
    layout = fleet.catalog.layout
    if set(owned) != set(layout.numbers):
        raise inheritance.not_claimed(layout, owned)
    for number, ownership in owned.items():
        ownership.check()
        if number not in fleet.catalog.closed_intakes:
            raise inheritance.intake_open(number)
    inheritance.check_drained({number: MirrorView(copies.of(number)) for number in owned})


def _put_children(
    fleet: Founded,
    copies: Copies,
    owned: Mapping[int, Ownership],
    before: Layout,
    after: Layout,
) -> None:
    mirrors = [copies.of(number).mirror for number in sorted(owned)]
    parents = [
        Parent(owned[mirror.number].claim, mirror.state, mirror.view, mirror.inbox)
        for mirror in mirrors
    ]
    newest = inheritance.latest(mirror.inbox.head().stamp for mirror in mirrors)
    stamp = Instant(newest.wall, 0.0, newest.boot)  # their own topics are read from the beginning
    root = copies.place.scratch / "children"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    limits, born = copies.limits, fleet.catalog.incarnation
    children = list(make_children(root, parents, before, after, stamp, limits, born))
    for number, folder in zip(after.numbers, children, strict=True):
        copies.bases.put(pack_folder(folder, number, born(number)))
    shutil.rmtree(root)


class Forwarder:
    """For the owner of the first partition, now and then."""

    def __init__(self, fleet: Founded, copies: Copies, append: Append) -> None:
        self._fleet = fleet
        self._copies = copies
        self._append = append
        self._since: dict[int, float] = {}  # a layout, and when we saw it first

    def look(self) -> None:
        catalog = self._fleet.catalog
        layout = catalog.layout
        since = self._since.setdefault(layout.first, time.monotonic())
        if time.monotonic() - since > FORWARD_SECONDS:
            return
        for number in sorted(catalog.retired):
            if not catalog.closed_intakes.isdisjoint(layout.numbers):
                return  # they would refuse it
            start = catalog.forwarded.get(number)
            if start is not None and self._copies.inbox_end(number) > start:
                self._forward(number, start)

    def _forward(self, number: int, start: int) -> None:
        place, end = self._copies.inbox_of(number), self._copies.inbox_end(number)
        for record in read_all(self._fleet.settings, self._fleet.feed, place, start):
            offset = record.offset() or 0
            try:
                arrived = unpack_parcels(record.value(), record.headers(), 0.0, offset)
            except DamagedData:
                arrived = []  # whoever read the old inbox has said so
            for parcel in arrived:
                self._send_on(parcel)
            end = max(end, offset + 1)
        self._fleet.catalog.note_forwarded(number, end)

    def _send_on(self, parcel: Parcel) -> None:
        layout = self._fleet.catalog.layout
        rows: dict[int, list[int]] = {}
        for row, key in enumerate(parcel.frame.values("key") or []):
            rows.setdefault(layout.partition_of(str(key)), []).append(row)
        for number, chosen in rows.items():
            frame = select(parcel.frame, chosen)
            for taken in self._append(number, [Parcel(frame, frame.encode(), external=False)]):
                if isinstance(taken, Exception):
                    raise taken
