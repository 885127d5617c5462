"""Batches: the records of one source partition that are sent, and then committed, together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from holdfast.engine.admission import WINDOW
from holdfast.errors import UsageError
from holdfast.runtime.sourcing.decoding import Decoder, Headers, Record, Row
from holdfast.runtime.sourcing.positions import Positions
from holdfast.runtime.sourcing.rejecting import Rejected
from holdfast.runtime.sourcing.rerouting import Piece, Rerouter

RECORDS_PER_READ = 8_192
# From the first to the last of a batch, gaps and all. What may have to be repeated is one batch,
# and the dedupe knows four times as many.
OFFSETS_PER_BATCH = WINDOW // 4
BYTES_PER_BATCH = 16 * 1024 * 1024

Place = tuple[str, int]


@dataclass
class Batch:
    place: Place
    first: int
    following: int  # the offset to commit once it is done
    records: Sequence[Record]
    pieces: list[Piece]
    rejected: list[Rejected]
    told: bool = field(default=False)  # the rejected ones are written

    @property
    def is_sent(self) -> bool:
        return all(piece.done for piece in self.pieces)

    def all_rejected(self) -> list[Rejected]:
        old = {row.offset for piece in self.pieces for row in piece.too_old}
        reason = "TooOld: below the dedupe window of its source, so it may be a repeat"
        found = [Rejected(record, reason) for record in self.records if record.offset in old]
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
        for records in _cut([_record(message) for message in messages]):
            rows: list[Row] = []
            rejected: list[Rejected] = []
            decoder = self._decoders[place[0]]
            for record in records:
                try:
                    rows.append(decoder.row(record))
                except UsageError as error:
                    rejected.append(Rejected(record, str(error)))
            pieces = self._rerouter.pieces(self._positions.source_of(*place), rows)
            following = records[-1].offset + 1
            yield Batch(place, records[0].offset, following, records, pieces, rejected)


def _cut(records: Sequence[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        size += len(record.value or b"")
        far = batch and record.offset - batch[0].offset >= OFFSETS_PER_BATCH
        if batch and (far or size > BYTES_PER_BATCH):
            yield batch
            batch, size = [], len(record.value or b"")
        batch.append(record)
    if batch:
        yield batch


def _record(message: Message) -> Record:
    kind, milliseconds = message.timestamp()
    key, value = message.key(), message.value()
    headers = cast("Headers", message.headers() or ())
    return Record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
        list(headers),
        None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds / 1000.0,
    )
