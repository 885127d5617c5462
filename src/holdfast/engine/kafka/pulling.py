"""Pulling records: a consumer that reads one place at a time, as far as it is told and no further.

The feed hands on whatever comes. A cut has to stop at an offset, go on by a record, and look at
what is behind it without taking it; here whoever reads says how far.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.feed import ASK_SECONDS, Feed, Place
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import explain, explained, is_refusal
from holdfast.errors import Busy, TimedOut

POLL_SECONDS = 0.1
FETCH_WAIT_MILLISECONDS = 10  # only an empty answer says that nothing but marks is left
RECORDS_AT_ONCE = 500
# Without any progress, on top of what an open transaction may hide: a new leader is found in this.
QUIET_SECONDS = 15.0


class Puller:
    """One thread at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._quiet_seconds = QUIET_SECONDS + settings.transaction_seconds
        self._place: Place | None = None
        self._given = 0  # behind the record that was given out last
        self._next = 0  # nothing that was not given out is before it
        self._end = 0  # nothing that neither waits here nor was given out is before it
        self._waiting: deque[Message] = deque()
        self._consumer = made(
            Consumer,
            settings,
            {
                "group.id": f"{settings.prefix}.reader",  # the library insists; nobody joins it
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": FETCH_WAIT_MILLISECONDS,
                "fetch.queue.backoff.ms": 5,
                "max.partition.fetch.bytes": 8 * 1024 * 1024,
            },
        )

    def read(
        self, place: Place, start: int, end: int, most: int = RECORDS_AT_ONCE
    ) -> Iterator[list[Message]]:
        """What is committed from `start` on, up to `most` at once, until `end` is reached.

        What an open transaction hides is waited for: it ends, or the brokers end it. Whoever stops
        before the end may go on from there.
        """
        self._go_to(place, start)
        while self._next < end:
            self._fetch()
            some: list[Message] = []
            while self._waiting and len(some) < most:
                if (self._waiting[0].offset() or 0) >= end:
                    self._next = end
                    break
                some.append(self._waiting.popleft())
                self._given = self._next = (some[-1].offset() or 0) + 1
            if not self._waiting:
                self._next = max(self._next, self._end)
            if some:
                yield some

    def _go_to(self, place: Place, start: int) -> None:
        """Nothing is fetched twice by one who goes on where it stopped."""
        if place == self._place and self._given <= start <= self._next:
            return
        if place != self._place:
            with explained(self._settings, f"reading {place.topic}"):
                # Or the first look at it would take a second.
                self._consumer.list_topics(place.topic, timeout=ASK_SECONDS)
        self._place, self._given, self._next, self._end = place, start, start, start
        self._waiting.clear()
        self._consumer.assign([TopicPartition(*place, start)])

    def _fetch(self) -> None:
        """Until something waits, or it is known that nothing is left before a later offset."""
        begun = time.monotonic()
        while not self._waiting and self._end <= self._next:
            first = self._consumer.poll(POLL_SECONDS)
            if first is not None:
                for record in [first, *self._consumer.consume(RECORDS_AT_ONCE, 0.0)]:
                    self._note(record)
            if time.monotonic() - begun > self._quiet_seconds:
                raise self._too_late()

    def _note(self, record: Message) -> None:
        error = record.error()
        if error is None:
            self._waiting.append(record)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._end = max(self._end, record.offset() or 0)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            assert self._place is not None
            place, self._place = self._place, None
            raise Busy(
                f"{place.topic}, partition {place.partition}: records from {self._next} on were "
                "deleted behind a newer base copy at this moment: try again"
            )
        elif is_refusal(error):
            raise explain(error, self._settings, f"reading {record.topic()}")

    def _too_late(self) -> TimedOut:
        assert self._place is not None
        place, self._place = self._place, None
        return TimedOut(
            f"{self._settings.place}: {place.topic}, partition {place.partition} could be read up "
            f"to {self._next} only: are the brokers up?"
        )

    def close(self) -> None:
        self._consumer.close()
        del self._consumer  # feed.py says why


def read_all(
    settings: KafkaSettings, feed: Feed, place: Place, start: int = 0
) -> Iterator[Message]:
    """What is committed from `start` to the end of now, with a consumer of its own."""
    start, end = max(start, feed.beginning(place)), feed.end(place)
    if start < end:
        with closing(Puller(settings)) as puller:
            for some in puller.read(place, start, end):
                yield from some
