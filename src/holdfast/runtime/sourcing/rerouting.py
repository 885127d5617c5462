"""Rows to inboxes: one parcel for each inbox, under the name of their source and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import TooOld, TryAgain
from holdfast.runtime.routing import Router, Share
from holdfast.runtime.sending import make_parcel, numbered
from holdfast.runtime.sourcing.lease import Lease
from holdfast.runtime.sourcing.records import Rows
from holdfast.stepping.inputs import external_frame
from holdfast.stepping.rows import raw_payload

APPENDS_AT_ONCE = 8


@dataclass
class Piece:
    """The rows of a batch that go to one inbox."""

    source: str
    agent: str
    partition: int
    rows: Rows
    parcel: Parcel
    done: bool = False
    too_old: list[int] = field(default_factory=list)  # offsets, found by sending one by one


class Rerouter:
    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._lease = lease
        self._router = Router(engine, lease.world())
        self._pool = ThreadPoolExecutor(APPENDS_AT_ONCE, "holdfast-sources")

    def pieces(self, source: str, agent: str, rows: Rows) -> list[Piece]:
        """All of them for agents of one class."""
        shares = self._router.split(rows.keys) if rows else []
        return [self._piece(source, agent, rows, share) for share in shares]

    def _piece(self, source: str, agent: str, rows: Rows, share: Share) -> Piece:
        own = rows if share.flags is None else rows.picked(share.of)
        first, last = rows.offsets[0], rows.offsets[-1]
        seqs: Sequence[int] = own.offsets
        if last - first == len(rows) - 1:  # no gaps: the quick forms of it
            seqs = numbered(first, len(rows), share)
        frame = external_frame(
            agent,
            own.keys,
            raw_payload(own.schemas, own.packed),
            source=source,
            seqs=seqs,
            event_times=own.event_times,
            urgent=self._router.urgent(own.schemas),
        )
        return Piece(source, agent, share.partition, own, make_parcel(frame, source, seqs))

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
                piece.too_old = piece.rows.offsets
            else:
                self._append_one_by_one(piece)

    def _append_one_by_one(self, piece: Piece) -> None:
        """Somebody has set the group far back: the inbox has to say of each what it is."""
        too_old: list[int] = []
        for index in range(len(piece.rows)):
            for one in self.pieces(piece.source, piece.agent, piece.rows.one(index)):
                self._append(one)
                too_old += one.too_old
        piece.too_old = too_old

    def close(self) -> None:
        self._pool.shutdown()
