"""The inbox of a partition in this process: appends under the turnstile, reads without any lock."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from holdfast.engine.admission import admit, taken_at
from holdfast.engine.faults import FaultPoints
from holdfast.engine.inheritance import Dedupe, refuses
from holdfast.engine.port import APPEND_SECONDS, Limits, Parcel, Taken
from holdfast.engine.sqlite.files import (
    bytes_of,
    damaged,
    explained,
    last_written,
    remove_durably,
    transaction,
    undone,
    wal_bytes,
)
from holdfast.engine.sqlite.keeping import KeepMark
from holdfast.engine.sqlite.locks import Turnstile, Witness
from holdfast.engine.sqlite.room import Room
from holdfast.engine.sqlite.segment import (
    InboxHead,
    Segment,
    SegmentName,
    create_next,
    list_segments,
    open_newest,
    open_segment,
)
from holdfast.engine.sqlite.waking import FIFO, wake
from holdfast.engine.stamping import Clock, Instant, next_stamp
from holdfast.errors import Busy, HoldfastError, TryAgain
from holdfast.stepping.commit import Head
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE, divided
from holdfast.stepping.rows import select

_log = logging.getLogger("holdfast.engine")
ROTATE_SECONDS = 0.2  # how long upkeep waits for its turn: it comes again
# Frames are read at once until there are so many bytes; more if many events are asked for.
BYTES_PER_READ_USUAL = 32 * 1024 * 1024
BYTES_PER_EVENT = 64
BYTES_PER_READ_MAX = 256 * 1024 * 1024
# A sealed segment this old is checkpointed, which writes it once more; under a load that fills the
# retention sooner, none ever is.
SETTLED_SECONDS = 60.0
READERS_MAX = 4  # segments open for reading


class SqliteInbox:
    def __init__(
        self,
        folder: Path,
        limits: Limits,
        clock: Clock,
        faults: FaultPoints,
        standing: Callable[[], Head],
    ) -> None:
        self.folder = folder / "inbox"
        self._limits = limits
        self._clock = clock
        self._faults = faults
        self._standing = standing
        self._room = Room(self.folder, limits, standing)
        self._turnstile = Turnstile(folder, "append")
        with undone(self._turnstile.close):
            self._witness = Witness(folder / "appended")
        self._appending = threading.Lock()
        self._open: Segment | None = None
        self._made: SegmentName | None = None  # of checked rows, a moment ago
        self._reading = threading.Lock()
        self._readers: dict[SegmentName, Segment] = {}
        self._newest_read = SegmentName(0, 0)  # none has this number
        self._told = ""  # why there is no new segment
        self._wake = folder / FIFO
        self.kept = KeepMark(folder)

    # Appending. One thread of this process at a time, one process at a time.

    def append(self, parcels: Sequence[Parcel], wait_seconds: float) -> list[Taken | Exception]:
        """1 queue, 2 find the newest segment, 3 one transaction, 4 unlock, 5 wake the owner."""
        if not self._appending.acquire(timeout=wait_seconds):
            raise Busy(f"{self.folder.parent}: other threads append without a pause: try again")
        try:
            results = self._append_in_turn(parcels, wait_seconds)
        finally:
            self._appending.release()
        wake(self._wake)
        return results

    def _append_in_turn(
        self, parcels: Sequence[Parcel], wait_seconds: float
    ) -> list[Taken | Exception]:
        self._turnstile.acquire(wait_seconds)
        try:
            self._faults("append.before")
            segment, head, results = self._transaction(parcels)
            if any(isinstance(result, Taken) for result in results):
                self._witness.note(head.came)
            self._faults("append.after")
            # The WAL is what was appended here; the file has the dedupe rows it began with.
            if wal_bytes(segment.path) > self._limits.segment_bytes + segment.more_bytes:
                self._try_to_rotate(segment)
            return results
        finally:
            self._turnstile.release()

    def _newest(self) -> Segment:
        """The cached segment, unless somebody has started the next one."""
        if self._open is not None:
            with explained(self._open.path):
                head = self._open.head()
            if self._is_newest(self._open, head):
                return self._open
            self._close_open()
        return self._open_newest()

    def _is_newest(self, segment: Segment, head: InboxHead) -> bool:
        # At every append, so with plain strings: paths cost more than the transaction's head.
        following = f"{self.folder}/{SegmentName(segment.name.number + 1, head.next)}"
        there = os.access(segment.path, os.F_OK)
        return there and not head.sealed and not os.access(following, os.F_OK)

    def _close_open(self) -> None:
        assert self._open is not None
        self._open.close()
        self._open = None

    def _open_newest(self) -> Segment:
        newest = open_newest(self.folder)
        with undone(newest.close):
            self._check_whole(newest)
        self._open = newest
        return newest

    def _check_whole(self, newest: Segment) -> None:
        with explained(newest.path):
            newest.prepare(checked=newest.name == self._made)
            head = newest.head()
            self._check_newest(newest.name, head, self._witness.seen())
        folded = self._standing()
        if head.next < folded.position or head.urgent < folded.urgent:
            said = f"it ends at {head.next} and {head.urgent} urgent, but {folded.position} and "
            raise damaged(newest.path, f"{said}{folded.urgent} events were folded")

    def _check_newest(self, name: SegmentName, head: InboxHead, seen: int) -> None:
        """The newest segment is the newest there was, and holds all that was acknowledged."""
        if head.sealed:
            following = self.folder / str(SegmentName(name.number + 1, head.next))
            raise damaged(following, "the file is missing")
        if head.came < seen:
            wal = self.folder / f"{name}-wal"
            raise damaged(wal, f"it ends at position {head.came}, {seen} was acknowledged")

    def _transaction(
        self, parcels: Sequence[Parcel]
    ) -> tuple[Segment, InboxHead, list[Taken | Exception]]:
        """In the newest segment, which one it is being seen in the transaction itself."""
        while True:
            segment = self._open or self._open_newest()
            with explained(segment.path), transaction(segment.connection):
                head = segment.head()
                if self._is_newest(segment, head):
                    results: list[Taken | Exception] = []
                    for parcel in parcels:
                        head, result = self._take(segment, head, parcel)
                        results.append(result)
                    segment.put_head(head)
                    self._faults("append.inside")
                    return segment, head, results
            self._close_open()

    def _take(
        self, segment: Segment, head: InboxHead, parcel: Parcel
    ) -> tuple[InboxHead, Taken | Exception]:
        try:
            if head.closed and parcel.mark is None:
                raise refuses(str(self.folder.parent))
            self._room.check(head.next, head.urgent, parcel)
            stamp = head.stamp if head.closed else self._next_stamp(head)
            fresh = admit(parcel, segment.ledger, stamp.wall, self._limits)
        except HoldfastError as refusal:
            return head, refusal
        frame = parcel.frame if fresh is None else select(parcel.frame, fresh)
        urgent, others = divided(frame)
        for one in urgent:
            segment.put_frame(LANE + head.urgent, 1, stamp.wall, one.encode())
            head = head._replace(urgent=head.urgent + 1, stamp=stamp)
        if others is not None and others.count:
            encoded = parcel.encoded if others is parcel.frame else others.encode()
            segment.put_frame(head.next, others.count, stamp.wall, encoded)
            head = head._replace(next=head.next + others.count, stamp=stamp)
        taken = taken_at(parcel.frame, frame.count, head.next, LANE + head.urgent, stamp.wall)
        return head, taken

    def _next_stamp(self, head: InboxHead) -> Instant:
        return next_stamp(head.stamp, self._clock(), self._limits.clock_jump_seconds_max)

    def _try_to_rotate(self, segment: Segment) -> None:
        """The append has happened: that there can be no new segment is not its failure."""
        try:
            self._rotate(segment)
            self._told = ""
        except TryAgain:
            pass  # the next append tries again
        except HoldfastError as trouble:
            if str(trouble) != self._told:  # once: every append meets it again
                self._told = str(trouble)
                _log.warning("no new segment, so the old one goes on: %s", trouble)

    def _rotate(self, segment: Segment) -> None:
        with explained(segment.path):
            self._made = create_next(self.folder, segment, self._standing().urgent)
            segment.seal()
        segment.close()
        self._open = None

    def rotate(self) -> None:
        """Start a new segment now, so that retention may unlink the one that is open."""
        with self._appending:
            self._turnstile.acquire(ROTATE_SECONDS)
            try:
                segment = self._newest()
                if segment.head().next > segment.name.first or segment.has_lane:
                    self._rotate(segment)
            finally:
                self._turnstile.release()

    def set_intake(self, *, closed: bool) -> None:
        """Only while the partition's state is held: so nobody changes it between look and act."""
        if self.head().closed == closed:
            return
        with self._appending:
            self._turnstile.acquire(APPEND_SECONDS)
            try:
                segment = self._newest()
                with explained(segment.path), transaction(segment.connection):
                    head = segment.head()
                    stamp = self._next_stamp(head) if closed else head.stamp
                    segment.put_head(head._replace(closed=closed, stamp=stamp))
            finally:
                self._turnstile.release()

    # Reading. Any thread; each segment has its own connection.

    def read(self, position: int, events_max: int) -> list[StoredFrame]:
        with self._reading:
            found: list[StoredFrame] = []
            size_max = max(BYTES_PER_READ_USUAL, BYTES_PER_EVENT * events_max)
            size_max = min(size_max, BYTES_PER_READ_MAX)
            events = size = 0
            before: InboxHead | None = None
            seen = self._witness.seen()
            for segment, newest in self._from(position):
                if before is not None and segment.name.first != before.next:
                    raise damaged(self.folder, f"the segment from {before.next} on is missing")
                with explained(segment.path):
                    head = before = segment.head()
                    if newest and head.came < seen:
                        self._check_newest(segment.name, head, seen)
                    for stored in segment.stored(position, head):
                        found.append(stored)
                        events += stored.count
                        size += len(stored.frame)
                        if events >= events_max or size >= size_max:
                            return found
            return found

    def head(self) -> InboxHead:
        with self._reading:
            return self._latest()[1]

    def marks(self) -> dict[str, int]:
        with self._reading:
            segment, _ = self._latest()
            with explained(segment.path):
                return segment.ledger.marks()

    def dedupe(self) -> Dedupe:
        with self._reading:
            segment, _ = self._latest()
            with explained(segment.path):
                segment.ledger.check()
                return segment.ledger.dedupe()

    def _latest(self) -> tuple[Segment, InboxHead]:
        before: SegmentName | None = None
        while True:
            seen = self._witness.seen()
            newest = list_segments(self.folder)[-1]
            segment = self._reader(newest)
            if segment is not None:
                with explained(segment.path):
                    head = segment.head()
                if not head.sealed or newest == before:
                    self._check_newest(newest, head, seen)
                    return segment, head
                before = newest  # sealed in this moment: look for what came after it

    def first_position(self) -> int:
        return list_segments(self.folder)[0].first

    def _from(self, position: int) -> list[tuple[Segment, bool]]:
        """The segments from the one that may hold `position` on, at most two; is it the newest."""
        name = self._newest_read
        last = self._reader(name) if name in self._readers and name.first <= position else None
        if last is not None:
            with explained(last.path):
                if self._is_newest(last, last.head()):
                    return [(last, True)]  # as nearly always: the folder need not be listed
        while True:
            names = list_segments(self.folder)
            self._newest_read = names[-1]
            start = max((i for i, n in enumerate(names) if n.first <= position), default=0)
            opened = [(self._reader(name), name == names[-1]) for name in names[start : start + 2]]
            if found := [(segment, newest) for segment, newest in opened if segment is not None]:
                return found  # otherwise retention took both, and there are later ones

    def _reader(self, name: SegmentName) -> Segment | None:
        """Few stay open, and the ones used last: a read has two of them in its hands at once."""
        segment = self._readers.pop(name, None) or open_segment(self.folder, name)
        if segment is not None:
            self._readers[name] = segment
        while len(self._readers) > READERS_MAX:
            self._readers.pop(next(iter(self._readers))).close()
        return segment

    # Upkeep, off the path of appends.

    def maintain(self, folded: Head) -> None:
        """Unlink what is folded and past retention, then checkpoint what was sealed long ago."""
        for name in self._expendable(list_segments(self.folder), folded.position):
            with self._reading:
                cached = self._readers.pop(name, None)
                if cached is not None:
                    cached.close()
                with explained(self.folder):
                    remove_durably(self.folder / str(name))
        self._sweep()
        self._rotate_aged(folded)
        settled = self._clock().wall - SETTLED_SECONDS
        for name in list_segments(self.folder)[:-1]:
            path = self.folder / str(name)
            waits = wal_bytes(path) and last_written(path) < settled
            if waits and (sealed := open_segment(self.folder, name)) is not None:
                with closing(sealed), explained(path):
                    sealed.checkpoint()

    def _sweep(self) -> None:
        """Side files whose segment is gone: a reader that came late may have made them anew."""
        for stray in self.folder.glob("*.seg-*"):
            if not stray.with_name(stray.name.rpartition("-")[0]).exists():
                stray.unlink(missing_ok=True)

    def _rotate_aged(self, folded: Head) -> None:
        """An open segment in which all is folded and past retention makes way for an empty one."""
        head = self.head()
        oldest_kept = self._clock().wall - self._limits.retain_seconds
        all_folded = (head.next, head.urgent) == (folded.position, folded.urgent)
        if all_folded and head.stamp.wall < oldest_kept:
            self.rotate()

    def _expendable(self, names: list[SegmentName], folded: int) -> list[SegmentName]:
        """Sealed, wholly folded, and older or more than retention keeps. The newest stays.

        What is not archived yet may be older, but not more.
        """
        kept = 0
        result: list[SegmentName] = []
        oldest_kept = self._clock().wall - self._limits.retain_seconds
        for name, following in reversed(list(pairwise(names))):
            path = self.folder / str(name)
            kept += bytes_of(path) + wal_bytes(path)
            aged = last_written(path) < oldest_kept
            aged = aged and not self.kept.keeps(following.first)
            past = aged or kept > self._limits.retain_bytes
            if past and following.first <= folded:
                result.append(name)
            else:
                result.clear()  # only a prefix of the chain may go
        return sorted(result)

    def close(self) -> None:
        with self._appending, self._reading:
            if self._open is not None:
                self._close_open()
            for segment in self._readers.values():
                segment.close()
            self._readers.clear()
            self._turnstile.close()
            self._witness.close()
