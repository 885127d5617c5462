"""What topics hold, and the rows for inboxes that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """What a topic holds, as far as it matters here."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    stamp: float | None  # None: the record has none


class Row(NamedTuple):
    """One event for one inbox."""

    offset: int
    key: str
    schema: int
    packed: bytes
    event_time: float


class Rows:
    """Events for inboxes, column by column: of an object for each there would be too many."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.keys: list[str] = []
        self.schemas: list[int] = []
        self.packed: list[bytes] = []
        self.event_times: list[float] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, row: Row) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def picked(self, pick: Callable[[Sequence[Any]], Sequence[Any]]) -> Rows:
        """What `pick` takes from each column."""
        some = Rows()
        for column, own in zip(self._columns, some._columns, strict=True):
            own += pick(column)
        return some

    def one(self, index: int) -> Rows:
        return self.picked(lambda column: column[index : index + 1])

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self.offsets, self.keys, self.schemas, self.packed, self.event_times


class Rejected(NamedTuple):
    record: Record
    reason: str


def record_of(message: Message) -> Record:
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
