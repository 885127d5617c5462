"""What is no event, to the topic PREFIX.rejected: as it was, with the reason beside it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.settings import RECORD_BYTES_MAX, KafkaSettings
from holdfast.engine.kafka.topics import TopicPlan, Topics
from holdfast.engine.kafka.troubles import error_of, explain
from holdfast.errors import Busy
from holdfast.runtime.sourcing.records import Rejected

WRITE_SECONDS = 10.0
TELL_SECONDS = 5.0  # between two lines about rejected records

_log = logging.getLogger("holdfast.sources")


def rejected_topic(prefix: str) -> str:
    return f"{prefix}.rejected"


class Rejects:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.topic = rejected_topic(settings.prefix or "")
        self._producer: Producer | None = None  # most fleets never need one
        self._untold = 0
        self._example: Rejected | None = None  # of those
        self._told = float("-inf")

    def make_topic(self) -> None:
        """Kept for ever: somebody decides what becomes of it."""
        kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        config = {**kept, "max.message.bytes": str(RECORD_BYTES_MAX)}
        Topics(self._settings).make([TopicPlan(self.topic, 1, config)])

    def write(self, rejected: Sequence[Rejected]) -> None:
        """Returns when all are acknowledged. Otherwise some may be there: write all again."""
        if not rejected:
            return
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, record: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = self._ready()
        try:
            for one in rejected:
                producer.produce(
                    self.topic,
                    one.record.value,
                    one.record.key,
                    headers=_headers(one),
                    on_delivery=delivered,
                )
                producer.poll(0.0)
        except BufferError:
            raise Busy(f"{self.topic}: too much waits to be written: are the brokers up?") from None
        except KafkaException as trouble:
            raise explain(error_of(trouble), self._settings, f"writing {self.topic}") from None
        if producer.flush(WRITE_SECONDS):
            self._producer = None  # appending.py says why
            raise Busy(f"{self.topic}: no acknowledgement within {WRITE_SECONDS:g} s: try again")
        if failed:
            if any(error.fatal() for error in failed):
                self._producer = None
            raise explain(failed[0], self._settings, f"writing {self.topic}")
        self._untold += len(rejected)
        self._example = rejected[0]
        self.tell()

    def tell(self, *, at_once: bool = False) -> None:
        """At once the first time, then not for every one of them."""
        now = time.monotonic()
        waits = now - self._told < TELL_SECONDS and not at_once
        if self._example is None or not self._untold or waits:
            return
        record, reason = self._example
        _log.warning(
            "%d record%s rejected, to topic %s: %s[%d] at %d: %s",
            self._untold,
            "" if self._untold == 1 else "s",
            self.topic,
            record.topic,
            record.partition,
            record.offset,
            reason,
        )
        self._untold, self._told = 0, now

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = made(
                Producer,
                self._settings,
                {
                    "enable.idempotence": True,
                    "acks": "all",
                    "linger.ms": 5,
                    "message.max.bytes": RECORD_BYTES_MAX,
                    "delivery.timeout.ms": 60_000,
                },
            )
        return self._producer


def _headers(rejected: Rejected) -> list[tuple[str, str | bytes | None]]:
    record = rejected.record
    return [
        *record.headers,
        ("reason", rejected.reason),
        ("topic", record.topic),
        ("partition", str(record.partition)),
        ("offset", str(record.offset)),
    ]
