"""Streams: an inbox or a journal on its way into the archive; and lines, the two of a partition."""

from __future__ import annotations

import msgspec

from holdfast.engine.port import View
from holdfast.errors import WrongFleet
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.objects import Kind, Run, Shipment, encode, name_of

EVENTS_PER_SHIPMENT = 65_536
ROWS_PER_SHIPMENT = 1_000
BYTES_PER_SHIPMENT = 8 * 1024 * 1024  # before compression; one frame may be larger by itself
_GAP = "retention removed them before they were archived, as the store was away for too long"


class Stream:
    def __init__(self, kind: Kind, number: int, view: View, fleet: str, archive: Archive) -> None:
        self.kind: Kind = kind
        self.number = number
        self.view = view
        self.incarnation = view.incarnation()
        self.next = 0
        self.full = False  # whether the last shipment could not take all that waited
        self._fleet = fleet
        self._archive = archive

    def find_end(self) -> None:
        """Go on behind what the archive has, or with the oldest that is kept here."""
        reach = self._archive.reach(self.kind, self.incarnation)
        if reach is None:
            runs = self._read(0, most=1)
            self.next = runs[0].first if runs else self._end()
        else:
            self._compare(reach.last)
            self.next = reach.next

    def _end(self) -> int:
        return self.view.inbox_next() if self.kind == "log" else self.view.head().journal_next

    def waiting(self) -> int:
        return self._end() - self.next

    def oldest_stamp(self) -> float | None:
        """Of what waits."""
        runs = self._read(self.next, most=1) if self.waiting() else []
        return runs[0].stamp if runs else None

    def collect(self, now: float) -> Shipment | None:
        """The next shipment, if anything waits."""
        runs = self._read(self.next)
        self.full = False
        if not runs:
            return None
        if runs[0].first > self.next:
            self.full = True
            return self._shipment([], runs[0].first, now, _GAP)
        size = 0
        taken: list[Run] = []
        for run in runs:
            if taken and size + len(run.frame) > BYTES_PER_SHIPMENT:
                break
            taken.append(run)
            size += len(run.frame)
        self.full = len(taken) < len(runs) or self._filled(runs)
        return self._shipment(taken, taken[-1].next, now)

    def _filled(self, runs: list[Run]) -> bool:
        """Whether the read itself ended at its bound, so that more may wait."""
        if self.kind == "log":
            return runs[-1].next - runs[0].first >= EVENTS_PER_SHIPMENT
        return len(runs) >= ROWS_PER_SHIPMENT

    def _shipment(self, runs: list[Run], end: int, now: float, gap: str = "") -> Shipment:
        return Shipment(self.kind, self._fleet, self.incarnation, self.next, end, runs, now, gap)

    def _read(self, first: int, most: int | None = None) -> list[Run]:
        """From `first` on, or from what retention has left of it."""
        if self.kind == "log":
            frames = self.view.frames(first, most or EVENTS_PER_SHIPMENT)
            runs = [Run(f.first, f.count, f.stamp, f.frame) for f in frames]
        else:
            rows = self.view.journal(first, most or ROWS_PER_SHIPMENT)
            runs = [Run(row.first, row.count, 0.0, row.frame) for row in rows]
        return [run for run in runs if run.next > first]

    def ship(self, shipment: Shipment) -> None:
        """Put it, and go on behind it; or behind what another shipper was faster to put there."""
        name = name_of(self.kind, self.incarnation, shipment.first)
        if self._archive.blob.put_if_absent(name, encode(shipment)):
            self.next = shipment.next
            return
        theirs = self._archive.shipment(name)
        self._compare(theirs)
        self.next = theirs.next
        self.full = True  # there may be more of theirs, or of ours behind it

    def _compare(self, theirs: Shipment) -> None:
        """What is in the archive was copied from this partition, not from one restored earlier."""
        if theirs.next > self._end():
            raise self._other_history(theirs.next)
        for run in theirs.runs[-1:]:
            ours = self._read(run.first, most=1)
            if ours and ours[0].first <= run.first and ours[0] != run:
                raise self._other_history(theirs.next)

    def _other_history(self, end: int) -> WrongFleet:
        return WrongFleet(
            f"{self._archive.blob.url}: has another history of partition {self.number} "
            f"({self.kind} of {self.incarnation} up to {end}): the directory was restored to an "
            "earlier time, so archive it to another place"
        )


class Line:
    """Inbox and journal of one partition, which have to fit each other in the archive."""

    def __init__(self, number: int, view: View, fleet: str, archive: Archive) -> None:
        self.number = number
        self.log = Stream("log", number, view, fleet, archive)
        self.journal = Stream("journal", number, view, fleet, archive)
        self._view = view
        self._folded = 0

    def find_ends(self) -> None:
        self.journal.find_end()
        self.log.find_end()

    def collect(self, now: float) -> list[Shipment]:
        """What is new, in the order in which it has to be put.

        The head is read before the journal, and the journal is put before the log: then all timers
        that fired up to the head's position are in the archive together with the events.
        """
        head = self._view.head()
        log = self.log.collect(now)
        journal = self.journal.collect(now)
        reached = journal.next if journal else self.journal.next
        if reached >= head.journal_next:
            self._folded = head.position
        shipments = [journal] if journal else []
        if log is not None:
            shipments.append(msgspec.structs.replace(log, folded=self._folded))
        return shipments

    def ship(self, shipments: list[Shipment]) -> None:
        for shipment in shipments:
            stream = self.log if shipment.kind == "log" else self.journal
            stream.ship(shipment)

    @property
    def full(self) -> bool:
        return self.log.full or self.journal.full

    @property
    def waits(self) -> bool:
        return bool(self.log.waiting() or self.journal.waiting())
