"""Reading a partition of a topic once, from its beginning to its end of now."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import client_log, explain
from holdfast.errors import TimedOut

QUIET_SECONDS_MAX = 15.0


def read_all(
    settings: KafkaSettings, feed: Feed, place: Place, start: int = 0
) -> Iterator[Message]:
    """What is committed, with a consumer of its own."""
    end = feed.end(place)
    begin = max(start, feed.beginning(place))
    if begin >= end:
        return
    consumer = Consumer(
        {
            **settings.common(),
            "group.id": f"{settings.prefix}.reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "logger": client_log,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, begin)])
        heard = time.monotonic()
        while True:
            record = consumer.poll(0.5)
            if record is None:
                if time.monotonic() - heard > QUIET_SECONDS_MAX:
                    raise TimedOut(f"{settings.place}: {place.topic} cannot be read: try again")
                continue
            heard = time.monotonic()
            error = record.error()
            if error is None:
                yield record
                if (record.offset() or 0) + 1 >= end:
                    return
            elif error.code() != KafkaError._PARTITION_EOF:
                raise explain(error, settings, f"reading {place.topic}")
            elif (record.offset() or 0) >= end:
                return
    finally:
        consumer.close()
