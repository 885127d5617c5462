"""A mirror: the local copy of a partition, as its two topics say. One process has it.

Inbox and state are files of the SQLite engine. They are not synced: after a power failure they may
have lost their end, never their order, and go on from there; what is damaged is made anew.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Message

from holdfast.engine.faults import no_faults
from holdfast.engine.kafka.mirrored import MirroredInbox, MirroredState
from holdfast.engine.kafka.records import (
    Arrived,
    Assembly,
    Claimed,
    Entry,
    following_of,
    offset_in,
    unpack_parcels,
    urgent_following_of,
)
from holdfast.engine.port import Claim, Limits
from holdfast.engine.sqlite import segment
from holdfast.engine.sqlite.files import publish, wal_bytes
from holdfast.engine.sqlite.standing import begin_state
from holdfast.engine.sqlite.view import SqliteView
from holdfast.engine.stamping import Clock
from holdfast.errors import ClockJumped, DamagedData, HoldfastError, NewerFormat
from holdfast.stepping.commit import Head
from holdfast.stepping.lane import LANE, in_lane

WAITING_ENTRIES_MAX = 256  # commits whose events have not been read from the inbox yet
POSITIONS_KNOWN_MAX = 65_536
WAL_BYTES_MAX = 4 * 1024 * 1024

_log = logging.getLogger("holdfast.engine")


class Mirror:
    """Both, and the two sinks that fill them."""

    def __init__(
        self,
        folder: Path,
        number: int,
        incarnation: str,
        limits: Limits,
        clock: Clock,
        arrived: Callable[[int], None],
        restore: Callable[[Path], bool] = lambda folder: False,
    ) -> None:
        """`restore` puts the newest base copy into an empty folder, if there is one."""
        self.number = number
        self.folder = folder
        self.incarnation = incarnation
        self._limits = limits
        self._clock = clock
        self._arrived = arrived
        self._restore = restore
        self._waiting: deque[tuple[Entry, int]] = deque()
        self._assembly = Assembly()
        # A position, and the offset it is at, of the newest.
        self._offsets: deque[tuple[int, int]] = deque(maxlen=POSITIONS_KNOWN_MAX)
        self._folded_offset: int | None = None
        self._applying = threading.Lock()
        self._files = ExitStack()
        self._open()
        self._positions: dict[int, int] = {}  # by `Taken.next`, of the newest
        self._known_from, self._urgent_from = self._ends()
        self.inbox_sink = InboxSink(self)
        self._known_to = self.inbox_sink.next_offset
        self.changelog_sink = ChangelogSink(self)

    # Opening.

    def _open(self) -> None:
        """What is not whole, or is of another partition, is thrown away: the topics have it all."""
        try:
            if (self.folder / "state.db").exists():
                self._open_files()
                return
        except DamagedData as trouble:
            _log.warning("the copy in %s is made anew: %s", self.folder, trouble)
        self.renew()

    def renew(self) -> None:
        """From the newest base copy, or else empty: then all of both topics is read."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if not self._restore(self.folder):
            (self.folder / "inbox").mkdir()
            segment.create_first(self.folder / "inbox", self.incarnation)
            path = self.folder / "state.db"
            publish(begin_state(path, self.incarnation), path)
        self._open_files()

    def begin_again(self) -> None:
        """From the newest base copy: what this one would read next is not there any more."""
        self.close()
        self.renew()
        self._known_from, self._urgent_from = self._ends()
        self.inbox_sink = InboxSink(self)
        self._known_to = self.inbox_sink.next_offset
        self.changelog_sink = ChangelogSink(self)

    def _open_files(self) -> None:
        limits = self._limits
        with ExitStack() as opened:
            self.inbox = MirroredInbox(self.folder, limits, self._clock, no_faults, self._standing)
            opened.callback(self.inbox.close)
            self.view = SqliteView(self.folder, self.inbox)
            opened.callback(self.view.close)
            self.state = MirroredState(self.folder)
            opened.callback(self.state.close)
            found = self.inbox.head()
            if found.incarnation != self.incarnation or self.view.incarnation() != self.incarnation:
                raise DamagedData(f"{self.folder}: it is of another partition")
            if self.is_ahead(self.view.head()):
                raise DamagedData(f"{self.folder}: its inbox ends before its state")
            self._files = opened.pop_all()

    # Filling, on the thread of the feed.

    def ingest(self, records: Sequence[Message]) -> None:
        for some in self._portions(records):
            taken = self.inbox.ingest(some)
            self.inbox_sink.next_offset = some[-1].offset + 1  # these are not taken again
            self._offsets.append((self.inbox.head().next, some[-1].offset + 1))
            for one, result in zip(some, taken, strict=True):
                about = (one.offset, one.index, one.frame)
                following, urgent = following_of(*about), urgent_following_of(*about)
                in_its_lane = in_lane(following) and result.urgent  # a repeat has both places
                self._positions[following] = in_its_lane or result.next
                if urgent:
                    self._positions[urgent] = result.urgent
            self._known_to = some[-1].offset + 1
        while len(self._positions) > POSITIONS_KNOWN_MAX:
            oldest, past = next(iter(self._positions.items()))
            if in_lane(past):
                self._urgent_from = past
            else:
                self._known_from = past
            del self._positions[oldest]
        self._arrived(self.number)

    def _portions(self, records: Sequence[Message]) -> Iterator[list[Arrived]]:
        """What goes into the inbox at once: no more than a segment is to hold."""
        portion: list[Arrived] = []
        size = 0
        for record in records:
            try:
                arrived = self._unpacked(record)
            except HoldfastError:
                if portion:  # they need not wait for who waits here
                    yield portion
                raise
            more = sum(len(each.encoded) for each in arrived)
            if portion and size + more > self._limits.segment_bytes:
                yield portion
                portion, size = [], 0
            portion += arrived
            size += more
        if portion:
            yield portion

    def position_of(self, following: int) -> int | None:
        """For what came long ago a later position: who waits for that waits long enough.

        Asked while more is ingested: what is known is looked at before what is noted, and what is
        noted stands there before it is known.
        """
        known = offset_in(following) < self._known_to
        found = self._positions.get(following)
        if found is None and known:
            return self._urgent_from if in_lane(following) else self._known_from
        return found

    def offset_at(self, position: int) -> int | None:
        """An offset before which everything is folded once `position` is; None: not known."""
        while self._offsets and self._offsets[0][0] <= position:
            self._folded_offset = self._offsets.popleft()[1]
        return self._folded_offset

    def _unpacked(self, record: Message) -> list[Arrived]:
        offset = record.offset() or 0
        stamp = record.timestamp()[1] / 1000.0
        ahead = stamp - self._clock().wall
        if ahead > self._limits.clock_jump_seconds_max:
            raise ClockJumped(
                f"a broker's clock is {ahead:,.0f} s ahead of ours: set the clocks right, or raise "
                "clock_jump_seconds_max in the engine URL"
            )
        try:
            return unpack_parcels(record.value(), record.headers(), stamp, offset)
        except DamagedData as trouble:
            _log.error(
                "%s, partition %s, offset %d: passed over, since %s: it was not written by us; "
                "the record stays in the topic as long as its retention says",
                *(record.topic(), record.partition(), offset, trouble),
            )
            return []

    def note(self, entry: Entry, place: int) -> None:
        self._waiting.append((entry, place))
        self.apply_waiting()

    def apply_waiting(self) -> None:
        """In order, and behind the inbox: a state is never ahead of the events it is made from."""
        with self._applying:
            while self._waiting:
                entry, place = self._waiting[0]
                if isinstance(entry, Claimed):
                    self.state.put_claim(entry, place)
                elif self.is_ahead(entry.head):
                    return
                elif entry.head.commits > self.view.head().commits:
                    self.state.put_commit(self.number, entry.epoch, entry.commit(), place)
                    if self.state.wants_compaction:
                        self.state.compact(self._claim(entry.epoch))
                self._waiting.popleft()

    def _standing(self) -> Head:
        return self.view.head()

    def _ends(self) -> tuple[int, int]:
        head = self.inbox.head()
        return head.next, LANE + head.urgent

    def is_ahead(self, head: Head) -> bool:
        inbox = self.inbox.head()
        return head.position > inbox.next or head.urgent > inbox.urgent

    def _claim(self, epoch: int) -> Claim:
        return Claim(self.number, epoch, self.incarnation, attempts=0, alone=False)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def assemble(self, record: Message) -> Entry | None:
        place = f"{record.topic()}, partition {record.partition()}, offset {record.offset()}"
        try:
            return self._assembly.add(record.value(), record.headers())
        except NewerFormat as trouble:
            raise NewerFormat(f"{place}: {trouble}") from None
        except DamagedData as trouble:
            raise DamagedData(
                f"{place}: {trouble}: somebody else has written there; restore the topic"
            ) from None

    # Upkeep.

    def maintain(self) -> None:
        """Retention, and the WAL of the state, as the SQLite engine has it."""
        self.inbox.maintain(self.view.head())
        path = self.folder / "state.db"
        self.state.forget_before(
            self._claim(self.state.epoch), self._clock().wall - self._limits.retain_seconds
        )
        if wal_bytes(path) > WAL_BYTES_MAX:
            self.state.finish_checkpoint(cut=wal_bytes(path) > 16 * WAL_BYTES_MAX)

    def close(self) -> None:
        """Once, also where they could not be opened again: others may have the descriptors now."""
        self._files.close()


class InboxSink:
    full = False

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.next_offset = mirror.inbox.next_offset

    def take(self, records: Sequence[Message]) -> None:
        new = [record for record in records if (record.offset() or 0) >= self.next_offset]
        if new:
            self._mirror.ingest(new)
            self.next_offset = (new[-1].offset() or 0) + 1
            self._mirror.apply_waiting()


class ChangelogSink:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.next_offset = mirror.state.next_offset

    @property
    def full(self) -> bool:
        return self._mirror.waiting > WAITING_ENTRIES_MAX

    def take(self, records: Sequence[Message]) -> None:
        for record in records:
            offset = record.offset() or 0
            if offset >= self.next_offset:
                entry = self._mirror.assemble(record)
                if entry is not None:
                    self._mirror.note(entry, offset + 1)
                    self.next_offset = offset + 1  # not before: an entry is read again whole
