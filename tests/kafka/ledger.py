"""The ledger: what the topics of a fleet say, read with a plain consumer in read_committed mode.

Nothing of the engine is between the brokers and this but the form of the records. What is read
becomes plain values, so that a test can tamper with them (test_verdict.py). It goes beside any
proxy, by the ports that brokers use among themselves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from holdfast.engine.kafka.records import Assembly, Claimed, unpack_parcels
from holdfast.stepping.commit import Head
from holdfast.stepping.frame import Frame
from holdfast.stepping.issued import issued_in

PREFIX = "swarm"
READ_SECONDS = 60.0


@dataclass
class Action:
    id: str
    agent: str
    key: str
    name: str
    fields: tuple[object, ...]


@dataclass
class Claim:
    epoch: int
    owner: str = ""


@dataclass
class Sent:
    """Messages, numbered on from `first`, to another partition."""

    to: int
    first: int
    count: int


@dataclass
class Commit:
    epoch: int
    before: Head
    head: Head
    first_action: int
    actions: list[Action]
    sent: list[Sent]


@dataclass
class Arrival:
    """Events that came together: from a source with numbers, or from a partition as messages."""

    source: str
    numbers: list[int]
    keys: list[str]
    messages: bool


@dataclass
class Ledger:
    """Per partition, in the order of the topics."""

    changelogs: dict[int, list[Claim | Commit]] = field(default_factory=dict)
    inboxes: dict[int, list[Arrival]] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)  # partitions with open transactions

    def commits(self, partition: int) -> list[Commit]:
        return [each for each in self.changelogs[partition] if isinstance(each, Commit)]

    def actions(self) -> list[Action]:
        numbers = sorted(self.changelogs)
        return [a for number in numbers for each in self.commits(number) for a in each.actions]


class Reader:
    """One pass over all topics of a fleet with `partitions` partitions."""

    def __init__(self, bootstrap: str, partitions: int, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._partitions = partitions
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "the-oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,  # so long it takes to hear that there is nothing more
            "log_level": 0,
        }
        self._consumer = Consumer({**settings, "isolation.level": "read_committed"})
        self._uncommitted = Consumer({**settings, "isolation.level": "read_uncommitted"})

    def read(self) -> Ledger:
        try:
            names = self._schema_names()
            ledger = Ledger()
            for number in range(self._partitions):
                ledger.changelogs[number] = list(self._changelog(number, names))
                ledger.inboxes[number] = list(self._inbox(number))
                ledger.undecided += self._undecided(number)
            return ledger
        finally:
            self._consumer.close()
            self._uncommitted.close()

    def _records(self, topic: str, partition: int) -> Iterator[Message]:
        """All that is committed now, from the beginning; others may go on writing."""
        place = TopicPartition(topic, partition, 0)
        end = self._consumer.get_watermark_offsets(place, READ_SECONDS)[1]
        self._consumer.assign([place])
        deadline = time.monotonic() + READ_SECONDS
        while time.monotonic() < deadline:
            for record in self._consumer.consume(2_000, 0.2):
                error, offset = record.error(), record.offset() or 0
                if error is None and offset < end:
                    yield record
                if offset >= end - 1 or (error and error.code() == KafkaError._PARTITION_EOF):
                    return
        raise AssertionError(f"{topic}/{partition} could not be read within {READ_SECONDS:g} s")

    def _schema_names(self) -> dict[int, str]:
        """By number: those of the same content are one, and are counted in the order they came."""
        found: dict[str, str] = {}
        for record in self._records(f"{self._prefix}.catalog", 0):
            entry = json.loads(record.value() or b"")
            if entry["type"] == "schema":
                content = json.dumps(entry["schema"], sort_keys=True)
                found[content] = entry["schema"]["name"]
        return dict(enumerate(found.values(), start=1))

    def _changelog(self, number: int, names: dict[int, str]) -> Iterator[Claim | Commit]:
        assembly = Assembly()
        for record in self._records(f"{self._prefix}.changelog.0", number):
            entry = assembly.add(record.value(), record.headers())
            if isinstance(entry, Claimed):
                yield Claim(entry.epoch, entry.owner)
            elif entry is not None:
                issued = entry.issued
                yield Commit(
                    entry.epoch,
                    entry.before,
                    entry.head,
                    entry.before.actions_next if issued is None else issued.first,
                    [] if issued is None else list(self._actions(issued.frame, names)),
                    [Sent(*each) for each in entry.sent],
                )

    def _actions(self, frame: bytes, names: dict[int, str]) -> Iterator[Action]:
        for row in issued_in("swarm", Frame.decode(frame)):
            fields = tuple(msgspec.msgpack.decode(row.row, type=list[object]))
            yield Action(row.id, row.agent, row.key, names[row.schema], fields)

    def _inbox(self, number: int) -> Iterator[Arrival]:
        for record in self._records(f"{self._prefix}.inbox.0", number):
            for parcel in unpack_parcels(record.value(), record.headers(), 0.0, 0):
                keys = cast("list[str]", parcel.frame.values("key"))
                if parcel.mark is not None:
                    first = parcel.mark.first
                    numbers = list(range(first, first + parcel.frame.count))
                    yield Arrival(parcel.mark.source, numbers, keys, messages=True)
                else:
                    yield Arrival(parcel.source or "", list(parcel.seqs), keys, messages=False)

    def _undecided(self, number: int) -> Iterator[str]:
        """Nobody commits any more: every transaction must have ended."""
        for topic in (f"{self._prefix}.inbox.0", f"{self._prefix}.changelog.0"):
            place = TopicPartition(topic, number)
            decided = self._consumer.get_watermark_offsets(place, READ_SECONDS)[1]
            written = self._uncommitted.get_watermark_offsets(place, READ_SECONDS)[1]
            if decided < written:
                yield f"{topic}/{number} is decided up to {decided} and written up to {written}"
