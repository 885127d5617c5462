"""Parcels to inboxes, until all are durable or refused for good."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from holdfast.engine.port import APPEND_SECONDS, Engine, Taken
from holdfast.errors import GiveUp, Rescaling, TooOld, TryAgain, UsageError
from holdfast.gateway.mqtt.batching import Batcher, Piece
from holdfast.gateway.mqtt.decoding import Row
from holdfast.runtime.routing import Router
from holdfast.runtime.world import REAL

APPENDS_AT_ONCE = 8


class Refused(NamedTuple):
    row: Row
    reason: str


class _Outcome(NamedTuple):
    """Of one transaction: the pieces that are left, and why; the rest of them."""

    left: list[Piece]
    trouble: TryAgain | None = None
    refused: Sequence[Refused] = ()
    taken: int = 0
    repeats: int = 0


class Batch:
    """Rows on their way. `Appender.advance` until `is_done`."""

    def __init__(self, rounds: Sequence[Sequence[Piece]], repeats: int) -> None:
        self.rounds = [list(each) for each in rounds]
        self.refused: list[Refused] = []
        self.repeats = repeats
        self.taken = 0

    @property
    def is_done(self) -> bool:
        return not self.rounds


class Appender:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._router = Router(engine)
        # Forgotten by inboxes when it was idle for long (engine/admission.py): nobody repeats it.
        self._batcher = Batcher(self._router, f"~mqtt-{REAL.fresh_name()}")
        self._pool = ThreadPoolExecutor(APPENDS_AT_ONCE, "holdfast-mqtt")

    def batch(self, rows: Sequence[Row]) -> Batch:
        return Batch(*self._batcher.rounds(rows))

    def advance(self, batch: Batch) -> TryAgain | None:
        """What can be appended now. What holds up the rest, to be tried again."""
        while batch.rounds:
            pieces = batch.rounds[0]
            shares: dict[int, list[Piece]] = {}
            for piece in pieces:
                shares.setdefault(piece.partition, []).append(piece)
            outcomes = self._each(list(shares.items()))
            batch.rounds[0] = [piece for each in outcomes for piece in each.left]
            for each in outcomes:
                batch.refused += each.refused
                batch.taken += each.taken
                batch.repeats += each.repeats
            if not batch.rounds[0]:
                del batch.rounds[0]
            for each in outcomes:
                if each.trouble is not None:
                    return each.trouble
        return None

    def _each(self, shares: Sequence[tuple[int, list[Piece]]]) -> list[_Outcome]:
        if len(shares) == 1:
            return [self._append(*shares[0])]
        return list(self._pool.map(lambda share: self._append(*share), shares))

    def _append(self, partition: int, pieces: list[Piece]) -> _Outcome:
        """All of them in one transaction."""
        try:
            parcels = [piece.parcel() for piece in pieces]
            results = self._engine.append(partition, parcels, APPEND_SECONDS)
        except TryAgain as refusal:
            return _Outcome(pieces, refusal)
        left: list[Piece] = []
        refused: list[Refused] = []
        trouble: TryAgain | None = None
        taken = repeats = 0
        for piece, result in zip(pieces, results, strict=True):
            if isinstance(result, Taken):
                taken += result.new
                repeats += len(piece.rows) - result.new
            elif isinstance(result, Rescaling) and self._router.is_retired(partition):
                left += self._batcher.again(piece)
            elif isinstance(result, TryAgain):
                left.append(piece)
                trouble = result
            elif isinstance(result, TooOld) and len(piece.rows) > 1:
                left += piece.one_by_one()  # the inbox has to say of each what it is
            elif isinstance(result, (GiveUp, UsageError)):
                refused += [Refused(row, str(result)) for row in piece.rows]
            else:
                raise result
        return _Outcome(left, trouble, refused, taken, repeats)

    def close(self) -> None:
        self._pool.shutdown()
