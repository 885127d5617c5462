"""Batches: the records of one source partition that are sent, and then committed, together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from holdfast.engine.admission import WINDOW
from holdfast.runtime.sourcing.decoding import Decoder
from holdfast.runtime.sourcing.positions import Positions
from holdfast.runtime.sourcing.records import Rejected, record_of
from holdfast.runtime.sourcing.rerouting import Piece, Rerouter

RECORDS_PER_READ = 8_192
# From the first to the last of a batch, gaps and all. What may have to be repeated is one batch,
# and the dedupe knows four times as many.
OFFSETS_PER_BATCH = WINDOW // 4
# A list of digits becomes 4.5 times as long: still less than a frame may have.
BYTES_PER_BATCH = 8 * 1024 * 1024

Place = tuple[str, int]


@dataclass
class Batch:
    place: Place
    first: int
    following: int  # the offset to commit once it is done
    messages: Sequence[Message]
    pieces: list[Piece]
    rejected: list[Rejected]
    told: bool = field(default=False)  # the rejected ones are written

    @property
    def is_sent(self) -> bool:
        return all(piece.done for piece in self.pieces)

    def all_rejected(self) -> list[Rejected]:
        old = {offset for piece in self.pieces for offset in piece.too_old}
        if not old:
            return self.rejected
        reason = "TooOld: below the dedupe window of its source, so it may be a repeat"
        found = [
            Rejected(record_of(each), reason) for each in self.messages if each.offset() in old
        ]
        return sorted(self.rejected + found, key=lambda one: one.record.offset)


class Batcher:
    def __init__(
        self, decoders: Mapping[str, Decoder], positions: Positions, rerouter: Rerouter
    ) -> None:
        self._decoders = decoders
        self._positions = positions
        self._rerouter = rerouter

    def batches(self, place: Place, messages: Sequence[Message]) -> Iterator[Batch]:
        """Of one partition, in order."""
        decoder, source = self._decoders[place[0]], self._positions.source_of(*place)
        for some in _cut(messages):
            rows, rejected = decoder.decoded(some)
            pieces = self._rerouter.pieces(source, decoder.agent, rows)
            first, last = some[0].offset() or 0, some[-1].offset() or 0
            yield Batch(place, first, last + 1, some, pieces, rejected)


def _cut(messages: Sequence[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    size = end = 0
    for message in messages:
        size += len(message)
        offset = message.offset() or 0
        if batch and (offset >= end or size > BYTES_PER_BATCH):
            yield batch
            batch, size = [], len(message)
        if not batch:
            end = offset + OFFSETS_PER_BATCH
        batch.append(message)
    if batch:
        yield batch
