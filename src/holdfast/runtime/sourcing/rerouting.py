"""Rows to inboxes: one parcel for each inbox, under the name of their source and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import TooOld, TryAgain
from holdfast.runtime.routing import Router, Share
from holdfast.runtime.sending import make_parcel, numbered
from holdfast.runtime.sourcing.decoding import Row
from holdfast.runtime.sourcing.lease import Lease
from holdfast.stepping.inputs import external_frame
from holdfast.stepping.rows import raw_payload

APPENDS_AT_ONCE = 8


@dataclass
class Piece:
    """The rows of a batch that go to one inbox."""

    source: str
    partition: int
    rows: Sequence[Row]
    parcel: Parcel
    done: bool = False
    too_old: list[Row] = field(default_factory=list)  # found by sending them one by one


class Rerouter:
    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._lease = lease
        self._router = Router(engine, lease.world())
        self._pool = ThreadPoolExecutor(APPENDS_AT_ONCE, "holdfast-sources")

    def pieces(self, source: str, rows: Sequence[Row]) -> list[Piece]:
        shares = self._router.split([row.key for row in rows]) if rows else []
        return [self._piece(source, rows, share) for share in shares]

    def _piece(self, source: str, rows: Sequence[Row], share: Share) -> Piece:
        own = share.of(rows)
        first = rows[0].offset
        seqs: Sequence[int] = [row.offset for row in own]
        if rows[-1].offset - first == len(rows) - 1:  # no gaps: the quick forms of it
            seqs = numbered(first, len(rows), share)
        frame = external_frame(
            [row.agent for row in own],
            [row.key for row in own],
            raw_payload([row.schema for row in own], [row.packed for row in own]),
            source=source,
            seqs=seqs,
            event_times=[row.event_time for row in own],
        )
        return Piece(source, share.partition, own, make_parcel(frame, source, seqs))

    def append(self, pieces: Iterable[Piece]) -> TryAgain | None:
        """All at once; those that are durable are `done`. What held up others, to be repeated."""
        waiting = [piece for piece in pieces if not piece.done]
        if len(waiting) == 1:
            return self._try(waiting[0])
        refusals = list(self._pool.map(self._try, waiting))
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _try(self, piece: Piece) -> TryAgain | None:
        try:
            self._lease.check()
            self._append(piece)
        except TryAgain as refusal:
            return refusal
        piece.done = True
        return None

    def _append(self, piece: Piece) -> None:
        try:
            self._router.append(piece.partition, piece.parcel, self._lease.attempt_seconds)
        except TooOld:
            if len(piece.rows) == 1:
                piece.too_old = list(piece.rows)
            else:
                self._append_one_by_one(piece)

    def _append_one_by_one(self, piece: Piece) -> None:
        """Somebody has set the group far back: the inbox has to say of each what it is."""
        too_old: list[Row] = []
        for row in piece.rows:
            for one in self.pieces(piece.source, [row]):
                self._append(one)
                too_old += one.too_old
        piece.too_old = too_old

    def close(self) -> None:
        self._pool.shutdown()
