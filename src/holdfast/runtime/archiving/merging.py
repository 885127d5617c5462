"""The merger: puts many small objects of the archive into one, and removes them.

A busy partition ships an object every second. What is older than an hour is merged, so a partition
has some 3,600 small objects, and after that one for every hundred seconds or 32 MiB. Younger ones
are left alone: whoever ships must find the name it wants to put taken, and nobody who ships is that
late.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.blob.port import Blob
from holdfast.errors import Missing
from holdfast.runtime.archiving.archive import KINDS, Archive
from holdfast.runtime.archiving.objects import (
    Kind,
    Shipment,
    encode,
    first_of,
    folder_of,
    is_merged,
    name_of,
)

MERGE_SECONDS = 60.0  # between two looks at the archive
SETTLED_SECONDS = 3600.0
OBJECTS_PER_MERGE = 100
BYTES_PER_MERGE = 32 * 1024 * 1024


class Merger:
    def __init__(self, blob: Blob, clock: Callable[[], float] = time.time) -> None:
        self._archive = Archive(blob)
        self._blob = blob
        self._clock = clock

    def tick(self) -> int:
        """Merge once in every inbox and journal; how many objects went into others."""
        return sum(
            self._merge(kind, incarnation)
            for incarnation in self._archive.incarnations()
            for kind in KINDS
        )

    def _merge(self, kind: Kind, incarnation: str) -> int:
        names = list(self._blob.list(folder_of(kind, incarnation)))
        merged = [name for name in names if is_merged(name)]
        reached = self._archive.shipment(merged[-1]).next if merged else 0
        small = [name for name in names if not is_merged(name)]
        covered = [name for name in small if first_of(name) < reached]
        small = small[len(covered) :]
        if not covered and len(small) > OBJECTS_PER_MERGE:
            covered = self._put_together(kind, incarnation, small)
        for name in covered:
            self._blob.delete(name)
        return len(covered)

    def _put_together(self, kind: Kind, incarnation: str, small: list[str]) -> list[str]:
        """What can be removed now. Nothing if another was faster: the next look says how far."""
        group = self._settled(small)
        if not group:
            return []
        first, last = group[0], group[-1]
        whole = Shipment(
            *(kind, first.fleet, incarnation, first.first, last.next),
            *([run for each in group for run in each.runs], last.shipped, first.gap, last.folded),
        )
        name = name_of(kind, incarnation, first.first, merged=True)
        return small[: len(group)] if self._blob.put_if_absent(name, encode(whole)) else []

    def _settled(self, small: list[str]) -> list[Shipment]:
        """The oldest that follow each other and are settled; a gap stays by itself."""
        group: list[Shipment] = []
        size = 0
        for name in small[:OBJECTS_PER_MERGE]:
            try:
                shipment = self._archive.shipment(name)
            except Missing:
                if name in self._blob.list(name.rpartition("/")[0]):
                    raise
                return []  # another merger has removed it since
            size += sum(len(run.frame) for run in shipment.runs)
            young = self._clock() - shipment.shipped < SETTLED_SECONDS
            if young or (group and self._ends(group[-1], shipment, size)):
                break
            group.append(shipment)
        return group

    def _ends(self, last: Shipment, following: Shipment, size: int) -> bool:
        apart = following.first != last.next
        return apart or bool(last.gap or following.gap) or size > BYTES_PER_MERGE
