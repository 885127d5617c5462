"""Appending to topics: one producer for all sends of this process, acknowledged by all replicas."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.records import Header
from holdfast.engine.kafka.settings import RECORD_BYTES_MAX, KafkaSettings
from holdfast.engine.kafka.troubles import error_of, explain, unanswered
from holdfast.errors import Busy, HoldfastError, UsageError

POLL_SECONDS = 0.1
# After its broker was away, a producer was seen to deliver nothing to a partition for 40 s more;
# why is not known. Where nothing arrives for this long, another one tries: who has sent in vain
# sends the same again.
SILENT_SECONDS = 9.0
_ENDED = {KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class Written(NamedTuple):
    offset: int
    stamp: float


class _Delivery:
    """What became of one record."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self.error: KafkaError | None = None
        self.written: Written | None = None

    def __call__(self, error: KafkaError | None, record: Message) -> None:
        self.error = error
        if error is None:
            self.written = Written(record.offset() or 0, record.timestamp()[1] / 1000.0)
        self._done.set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)


class Appender:
    """Safe to share between threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._fatal: KafkaError | None = None  # what has ended the newest producer that ended
        self._silent: dict[tuple[str, int], float] = {}  # where nothing arrives, and since when
        self._closed = False
        self._thread = threading.Thread(target=self._poll, name="holdfast-appender", daemon=True)
        self._thread.start()

    def _ready(self) -> Producer:
        with self._lock:
            if self._closed:
                raise UsageError(f"{self._settings.place}: this handle is closed: open another")
            if self._producer is None:
                self._producer = made(
                    Producer,
                    self._settings,
                    {
                        "enable.idempotence": True,
                        "acks": "all",
                        "linger.ms": 0,
                        "message.max.bytes": RECORD_BYTES_MAX,
                        # Longer than any sender waits: who has given up sends the same again.
                        "delivery.timeout.ms": 60_000,
                    },
                )
            return self._producer

    def _poll(self) -> None:
        while not self._closed:
            producer = self._producer
            if producer is None:
                time.sleep(POLL_SECONDS / 10)
                continue
            try:
                producer.poll(POLL_SECONDS)
            except KafkaException as trouble:
                self._abandon(producer, error_of(trouble))

    def _abandon(self, producer: Producer, error: KafkaError) -> None:
        """Nothing goes through it any more. Who waits is told; who comes next has another one."""
        with self._lock:
            self._fatal = error
            if self._producer is producer:
                self._producer = None
        producer.purge(blocking=False)
        producer.flush(POLL_SECONDS)

    def write(
        self,
        topic: str,
        partition: int,
        value: bytes,
        headers: list[Header] | None = None,
        seconds: float = 10.0,
        key: bytes | None = None,
    ) -> Written:
        """Returns when the record is durable. After anything else it may be there or not."""
        delivery = _Delivery()
        doing = f"appending to {topic}"
        producer = self._ready()
        try:
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                headers=headers or [],
                on_delivery=delivery,
            )
        except BufferError:
            raise Busy(
                f"{self._settings.place}: too much waits to be sent: are the brokers up?"
            ) from None
        except KafkaException as trouble:
            raise self._failed(error_of(trouble), producer, doing) from None
        if not delivery.wait(seconds):
            self._note_silence(producer, (topic, partition), seconds)
            raise unanswered(self._settings, doing, seconds)
        if delivery.written is None:
            raise self._failed(delivery.error, producer, doing)
        self._silent.pop((topic, partition), None)
        return delivery.written

    def _note_silence(self, producer: Producer, place: tuple[str, int], seconds: float) -> None:
        now = time.monotonic()
        if now - self._silent.setdefault(place, now - seconds) > SILENT_SECONDS:
            self._silent.clear()
            self._abandon(producer, KafkaError(KafkaError._MSG_TIMED_OUT))

    def _failed(self, error: KafkaError | None, producer: Producer, doing: str) -> HoldfastError:
        assert error is not None
        if error.fatal():  # its numbering is lost: nothing goes through it any more
            with self._lock:
                if self._producer is producer:
                    self._producer = None
        if error.code() in _ENDED and self._fatal is not None:
            error = self._fatal
        return explain(error, self._settings, doing)

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        if self._producer is not None:
            self._producer.flush(0.0)
            self._producer = None  # feed.py says why
