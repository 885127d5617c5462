"""One segment of an inbox: a SQLite file with frames and, as of its last append, all counters.

A new segment starts with a copy of the counters and of the dedupe rows of the one before, so that
unlinking old segments forgets events and nothing else. The file name carries the number of the
segment and its first position: the chain can be read from a directory listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import apsw

from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sources import sweep
from holdfast.engine.sqlite import ledger
from holdfast.engine.sqlite.checks import (
    check_of,
    frame_check,
    verified,
    verified_frame,
    verified_rows,
)
from holdfast.engine.sqlite.files import (
    PAGE_BYTES,
    SEGMENT_FORMAT,
    bytes_of,
    create,
    damaged,
    discard,
    explained,
    extend,
    has_table,
    open_existing,
    publish,
    transaction,
)
from holdfast.engine.stamping import NEVER, Instant
from holdfast.errors import DamagedData
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE, in_lane

LARGE_FRAME_BYTES = 512 * 1024  # an average from which on pages are large
LARGE_PAGE_BYTES = 32 * 1024
FEW_ROWS_BYTES = 1024 * 1024  # of dedupe rows: copied in milliseconds
WRITTEN_PER_BYTE_OF_ROWS = 4
FORGOTTEN_PER_SEGMENT = 5_000  # anonymous sources of a flood that is over: less than 0.1 s

_TABLES = (
    """
CREATE TABLE head(
    one INTEGER PRIMARY KEY CHECK(one = 1), incarnation TEXT NOT NULL, next INTEGER NOT NULL,
    wall REAL NOT NULL, uptime REAL NOT NULL, boot TEXT NOT NULL, sealed INTEGER NOT NULL,
    sum INTEGER NOT NULL
);
CREATE TABLE frames(
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, stamp REAL NOT NULL,
    frame BLOB NOT NULL, sum INTEGER NOT NULL
);
"""
    + ledger.TABLES
    + ledger.DERIVED_TABLES
)


class InboxHead(NamedTuple):
    incarnation: str
    next: int
    stamp: Instant
    sealed: bool = False  # the next segment exists, or existed
    closed: bool = False  # takes nothing but messages, because of a rescaling
    urgent: int = 0  # so many events have come to the lane

    @property
    def came(self) -> int:
        """How many events have come, both ways."""
        return self.next + self.urgent


class SegmentName(NamedTuple):
    number: int
    first: int

    def __str__(self) -> str:
        return f"{self.number:08d}-{self.first:020d}.seg"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        if not name.endswith(".seg"):
            return None
        number, _, first = name[:-4].partition("-")
        return cls(int(number), int(first)) if number.isdigit() and first.isdigit() else None


def list_segments(folder: Path) -> list[SegmentName]:
    with explained(folder):
        names = [SegmentName.parse(path.name) for path in folder.iterdir()]
    found = sorted(name for name in names if name is not None)
    if not found:
        raise damaged(folder, "the inbox has no segment")
    return found


def open_segment(folder: Path, name: SegmentName) -> Segment | None:
    """None if retention has unlinked it since it was listed: from the oldest on, never the newest.

    One that is missing behind others, or with none behind it, is damage.
    """
    try:
        return Segment(folder, name)
    except DamagedData:
        if list_segments(folder)[0] <= name:
            raise
        return None


def open_newest(folder: Path) -> Segment:
    while True:
        segment = open_segment(folder, list_segments(folder)[-1])
        if segment is not None:
            return segment


class Segment:
    """An open segment file. One thread at a time."""

    more_bytes = 0  # that it may grow to before there is a new one

    def __init__(self, folder: Path, name: SegmentName) -> None:
        self.name = name
        self.path = folder / str(name)
        self.connection = open_existing(self.path)
        self.ledger = ledger.SqliteLedger(self.connection, self.path)

    def prepare(self, *, checked: bool) -> None:
        """For whoever is going to append: the file may be of an older release, or damaged.

        With many sources a segment is larger, so that copying their rows stays a small part.
        """
        rows_bytes = bytes_of(self.path) - FEW_ROWS_BYTES
        self.more_bytes = max(0, WRITTEN_PER_BYTE_OF_ROWS * rows_bytes)
        if not has_table(self.connection, "tally"):
            with transaction(self.connection):
                extend(self.connection, ledger.DERIVED_TABLES, SEGMENT_FORMAT)
                self.ledger.derive()
        if not checked:
            self.ledger.check()

    def head(self) -> InboxHead:
        row = self.connection.execute("SELECT * FROM head").fetchone()
        if row is None:
            raise damaged(self.path, "the head is missing")
        _, incarnation, position, *stamp, sealed = verified(self.path, "the head", row)
        wall, uptime, boot = cast(tuple[float, float, str], stamp)
        flags = cast(int, sealed)
        return InboxHead(
            incarnation=cast(str, incarnation),
            next=cast(int, position),
            stamp=Instant(wall, uptime, boot),
            sealed=bool(flags & 1),
            closed=bool(flags & 2),
            urgent=flags >> 2,
        )

    def put_head(self, head: InboxHead) -> None:
        _put_head(self.connection, head)

    def seal(self) -> None:
        """From now on somebody who finds no later segment knows that one is missing."""
        _put_head(self.connection, self.head()._replace(sealed=True))

    def put_frame(self, first: int, count: int, stamp: float, frame: bytes) -> None:
        _put_frame(self.connection, first, count, stamp, frame)

    def stored(self, position: int, head: InboxHead) -> Iterator[StoredFrame]:
        """Frames from a position on, or from a place in the lane."""
        if in_lane(position):
            return self.lane(position, LANE + head.urgent)
        return self.frames(position, head.next)

    def frames(self, position: int, end: int) -> Iterator[StoredFrame]:
        """Frames from the one that holds `position` on: each is checked, and none is missing.

        `end` is of a head read before, so that what it promises must be there.
        """
        expected = max(position, self.name.first)
        run = False
        cursor = self.connection.execute(
            "SELECT first, count, stamp, frame, sum FROM frames WHERE first >= "
            "coalesce((SELECT max(first) FROM frames WHERE first <= ?), 0) AND first < ? "
            "ORDER BY first",
            (position, LANE),
        )
        for row in cursor:
            verified_frame(self.path, f"the frame at position {row[0]}", row)
            first, count, stamp, frame, _ = cast(tuple[int, int, float, bytes, int], row)
            if first > expected or (run and first < expected):
                raise damaged(self.path, f"frame {first} follows where {expected} should")
            if first + count > position:
                run = True
                expected = first + count
                yield StoredFrame(first, count, stamp, frame)
        if expected < end:
            raise damaged(self.path, f"frames from position {expected} to {end} are missing")

    def lane(self, place: int, end: int) -> Iterator[StoredFrame]:
        """The frames of the lane from `place` on. What was folded before this segment began is not
        in it, so that a place that is old by now may find none."""
        expected: int | None = None
        cursor = self.connection.execute(
            "SELECT first, count, stamp, frame, sum FROM frames WHERE first >= ? ORDER BY first",
            (place,),
        )
        for row in cursor:
            verified_frame(self.path, f"the urgent event {row[0] - LANE}", row)
            stored = StoredFrame(*cast(tuple[int, int, float, bytes], row[:4]))
            if expected not in (None, stored.first):
                break
            expected = stored.first + 1
            yield stored
        if expected is not None and expected < end:
            raise damaged(self.path, f"urgent events are missing before {end - LANE}")

    @property
    def has_lane(self) -> bool:
        query = "SELECT count(*) FROM (SELECT 1 FROM frames WHERE first >= ? LIMIT 1)"
        return bool(self.connection.execute(query, (LANE,)).get)

    def checkpoint(self) -> None:
        """Move the WAL of a sealed segment into the file and empty it, unless somebody reads."""
        self.connection.set_busy_timeout(0)
        try:
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            pass  # upkeep comes again

    def close(self) -> None:
        self.connection.close()


def _put_head(connection: apsw.Connection, head: InboxHead) -> None:
    # Two flags and a number in one column: the format of the file keeps releases away that would
    # drop the number.
    flags = int(head.sealed) | int(head.closed) << 1 | head.urgent << 2
    values = (1, head.incarnation, head.next, *head.stamp, flags)
    row = (*values, check_of(*values))
    connection.execute("REPLACE INTO head VALUES(?, ?, ?, ?, ?, ?, ?, ?)", row)


def _put_frame(
    connection: apsw.Connection, first: int, count: int, stamp: float, frame: bytes
) -> None:
    row = (first, count, stamp, frame, frame_check((first, count, stamp), frame))
    connection.execute("INSERT INTO frames VALUES(?, ?, ?, ?, ?)", row)


def create_first(
    folder: Path, incarnation: str, stamp: Instant = NEVER, dedupe: Dedupe | None = None
) -> None:
    path = folder / str(SegmentName(1, 0))
    connection = create(path, _TABLES)
    try:
        with explained(path):
            _put_head(connection, InboxHead(incarnation, 0, stamp))
            if dedupe is not None:
                ledger.SqliteLedger(connection, path).inherit(dedupe)
        publish(connection, path)
    except BaseException:
        discard(connection, path)
        raise


def plant(
    folder: Path,
    head: InboxHead,
    first: int,
    frames: Iterable[StoredFrame],
    dedupe: Dedupe,
    marks: Mapping[str, int],
) -> None:
    """A first segment that goes on where another inbox was captured, from `first` on."""
    path = folder / str(SegmentName(1, first))
    connection = create(path, _TABLES)
    try:
        with explained(path):
            _put_head(connection, head)
            rows = ledger.SqliteLedger(connection, path)
            rows.inherit(dedupe)
            for source, last in marks.items():
                rows.put_mark(source, last)
            for one in frames:
                _put_frame(connection, one.first, one.count, one.stamp, one.frame)
        publish(connection, path)
    except BaseException:
        discard(connection, path)
        raise


def is_new(path: Path) -> bool:
    """Whether this is a first segment to which nothing was ever appended."""
    if path.name != str(SegmentName(1, 0)):
        return False
    segment = Segment(path.parent, SegmentName(1, 0))
    try:
        return segment.head().came == 0
    finally:
        segment.close()


def create_next(folder: Path, old: Segment, urgent: int) -> SegmentName:
    """The successor of `old`, with its counters, its dedupe rows and what waits in the lane, from
    the number `urgent` on. Call with the append lock held."""
    head = old.head()._replace(sealed=False)
    with transaction(old.connection):
        sweep(old.ledger, head.stamp.wall, FORGOTTEN_PER_SEGMENT)
    name = SegmentName(old.name.number + 1, head.next)
    path = folder / str(name)
    _sweep_unfinished(folder)
    connection = create(path, _TABLES, _page_bytes(old))
    try:
        with explained(path):
            _put_head(connection, head)
            for table, keys in (ledger.KEYS | ledger.DERIVED).items():
                rows = verified_rows(old.connection, old.path, table, keys)
                if rows:
                    holes = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES({holes})", rows)
            for one in old.lane(LANE + urgent, LANE + head.urgent):
                _put_frame(connection, one.first, one.count, one.stamp, one.frame)
        publish(connection, path)
    except BaseException:
        discard(connection, path)
        raise
    return name


def _page_bytes(old: Segment) -> int:
    """Fit for frames like those of the segment before: what comes next is mostly like it.

    Every page of an append costs a call and a checksum, and a few of them are hardly filled: large
    ones save half of the time where frames are large, and would write much for nothing elsewhere.
    """
    query = "SELECT coalesce(avg(length(frame)), 0) FROM frames WHERE first < ?"
    average = cast(float, old.connection.execute(query, (LANE,)).get)
    return LARGE_PAGE_BYTES if average >= LARGE_FRAME_BYTES else PAGE_BYTES


def _sweep_unfinished(folder: Path) -> None:
    """A crash in the middle of a rotation leaves a file whose name nobody will use again."""
    with explained(folder):
        for leftover in folder.glob("*.seg.new*"):
            leftover.unlink(missing_ok=True)
