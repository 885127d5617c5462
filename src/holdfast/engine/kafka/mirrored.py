"""The files of a mirror: an inbox and a state of the SQLite engine, filled by what topics say."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from holdfast.engine.deaths import Deaths
from holdfast.engine.faults import no_faults
from holdfast.engine.kafka.records import Arrived, Claimed
from holdfast.engine.port import Claim, Parcel, Taken
from holdfast.engine.sqlite import segment
from holdfast.engine.sqlite.files import explained, transaction, undone
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.segment import InboxHead, Segment
from holdfast.engine.sqlite.standing import (
    about,
    bring_up_to_date,
    put_about,
    put_head,
    read_head,
)
from holdfast.engine.sqlite.state import SqliteState
from holdfast.engine.stamping import Instant
from holdfast.errors import HoldfastError, TryAgain
from holdfast.stepping.commit import Commit, Head
from holdfast.stepping.frame import Frame, const
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE

APPEND_SECONDS = 5.0
BOOT = "kafka"  # stamps of brokers: beside the time stands the offset behind the record

_log = logging.getLogger("holdfast.engine")


class MirroredInbox(SqliteInbox):
    """What is admitted, where it stands and when it came follows from the topic alone."""

    _arriving: Arrived

    def ingest(self, arrived: Sequence[Arrived]) -> list[Taken]:
        taken = []
        for result in self.append(arrived, APPEND_SECONDS):
            if isinstance(result, Exception):
                raise result
            taken.append(result)
        return taken

    def copy_to(self, folder: Path, folded: Head) -> int:
        """A first segment that goes on behind what is folded. Returns where its topic is read."""
        position = folded.position
        with self._appending:
            head, dedupe, marks = self.head(), self.dedupe(), self.marks()
            waiting = chain(
                self._frames_from(position, head.next),
                self._frames_from(LANE + folded.urgent, LANE + head.urgent),
            )
            first = next((one.first for one in self.read(position, 1)), head.next)
            segment.plant(folder, head._replace(sealed=False), first, waiting, dedupe, marks)
        return int(head.stamp.uptime) if head.stamp.boot == BOOT else 0

    def _frames_from(self, position: int, end: int) -> Iterator[StoredFrame]:
        """Those that are still there: what was folded since may be gone; the changelog has it."""
        while position < end and (found := self.read(position, 65_536)):
            for stored in found:
                yield stored
                position = stored.first + stored.count

    @property
    def next_offset(self) -> int:
        stamp = self.head().stamp
        return int(stamp.uptime) if stamp.boot == BOOT else 0

    def _open_newest(self) -> Segment:
        newest = super()._open_newest()
        newest.connection.execute("PRAGMA synchronous=NORMAL")
        return newest

    def _take(
        self, segment: Segment, head: InboxHead, parcel: Parcel
    ) -> tuple[InboxHead, Taken | Exception]:
        """What can never be admitted is taken all the same, to become dead letters."""
        assert isinstance(parcel, Arrived)
        self._arriving = parcel
        moved, result = super()._take(segment, head, parcel)
        if isinstance(result, TryAgain):
            raise result
        if isinstance(result, HoldfastError):
            _log.warning("partition %s: refused: %s", self.folder.parent.name, result)
            return super()._take(segment, head, _refused(parcel, str(result)))
        return moved, result

    def _next_stamp(self, head: InboxHead) -> Instant:
        arriving = self._arriving
        return Instant(max(head.stamp.wall, arriving.stamp), float(arriving.offset + 1), BOOT)


def _refused(parcel: Arrived, reason: str) -> Arrived:
    columns = {**parcel.frame.columns, "refused": const(reason)}
    frame = Frame(parcel.frame.count, columns)
    return replace(
        parcel, frame=frame, encoded=frame.encode(), source=None, seqs=range(0), mark=None
    )


class MirroredState(SqliteState):
    """What the changelog says. Its epochs are those of the changelog."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, no_faults)
        with undone(self.close), explained(self.path):
            self._connection.execute("PRAGMA synchronous=NORMAL")
            with transaction(self._connection):
                bring_up_to_date(self._connection, self.path)  # a base copy of an older release
            self._count_deltas()
            self._place = self._stored_place()

    def _stored_place(self) -> int:
        return int(about(self._connection).get("changelog", 0))

    @property
    def next_offset(self) -> int:
        return self._place

    @property
    def epoch(self) -> int:
        with self._lock:
            return read_head(self._connection, self.path).epoch

    @property
    def deaths(self) -> Deaths:
        with self._lock:
            text = about(self._connection)["claimed"]
        return Deaths(*map(int, text.split()))

    @property
    def generation(self) -> int:
        with self._lock:
            return int(about(self._connection)["generation"])

    def facts(self) -> dict[str, str]:
        with self._lock:
            return about(self._connection)

    def put_claim(self, claimed: Claimed, place: int) -> None:
        with self._lock, transaction(self._connection):
            standing = read_head(self._connection, self.path)
            if claimed.epoch > standing.epoch:
                put_head(self._connection, standing._replace(epoch=claimed.epoch))
                facts: dict[str, str | int] = {
                    "generation": claimed.generation,
                    "claimed": " ".join(map(str, claimed.deaths)),
                    "holder": claimed.owner,
                    "changelog": place,
                }
                put_about(self._connection, facts)
        self._place = place

    def put_commit(self, partition: int, epoch: int, commit: Commit, place: int) -> None:
        """`place` is where the changelog goes on behind it."""
        before, self._place = self._place, place
        claim = Claim(partition, epoch, "", attempts=0, alone=False)
        try:
            self.commit(claim, commit)
        except BaseException:
            self._place = before  # it is not there: whoever reads the changelog reads it again
            raise

    def _write_outputs(self, commit: Commit) -> None:
        """Messages went out with the transaction: none of them waits here."""
        super()._write_outputs(replace(commit, outgoing=[]))
        put_about(self._connection, {"changelog": self._place})
