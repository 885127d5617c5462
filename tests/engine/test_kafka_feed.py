"""Goal: who follows a topic misses nothing, however quickly it leaves and comes back."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from holdfast.engine.kafka.feed import FETCH_WAIT_MILLISECONDS, Feed, Place
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.errors import TryAgain

SECONDS = 20.0


class Noted:
    """A sink. With `fills` it is full whenever it has taken, until somebody has looked."""

    def __init__(self, *, fills: bool = False) -> None:
        self.next_offset = 0
        self.values: list[bytes] = []
        self.full = False
        self._fills = fills

    def take(self, records: Sequence[Message]) -> None:
        for record in records:
            if (offset := record.offset() or 0) >= self.next_offset:
                self.values.append(record.value() or b"")
                self.next_offset = offset + 1
        self.full = self._fills


@pytest.fixture
def place(kafka: str) -> Place:
    name = f"feed-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    (made,) = admin.create_topics([NewTopic(name, 1)]).values()
    made.result(SECONDS)
    return Place(name, 0)


@pytest.fixture
def feed(kafka: str, tmp_path: Path) -> Iterator[Feed]:
    with closing(Feed(KafkaSettings(kafka, "feed", cache=tmp_path))) as opened:
        yield opened


def write(kafka: str, place: Place, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    for value in values:
        producer.produce(place.topic, value, partition=0)
    assert producer.flush(SECONDS) == 0


def write_transaction(kafka: str, place: Place, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": place.topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(place.topic, value, partition=0)
    producer.commit_transaction(SECONDS)


def told_when(feed: Feed, name: str, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set once this step of the feed has been made."""
    step: Callable[..., None] = getattr(feed, name)
    made = threading.Event()

    def noted(*arguments: object) -> None:
        step(*arguments)
        made.set()

    monkeypatch.setattr(feed, name, noted)
    return made


@contextmanager
def while_busy(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Its thread does not notice who comes and goes."""
    with monkeypatch.context() as busy:
        busy.setattr(feed, "_see_who_follows", lambda: None)
        yield busy


def test_what_comes_while_nobody_follows_is_read_by_who_comes_back_at_once(
    kafka: str, place: Place, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Noted()
    write(kafka, place, b"before")
    feed.follow(place, sink)
    assert feed.wait_until(place, 1, SECONDS)
    with while_busy(feed, monkeypatch) as busy:
        feed.leave(place)
        dropped = told_when(feed, "_give", busy)
        write(kafka, place, b"while away")
        assert dropped.wait(SECONDS)
        feed.follow(place, sink)
    assert feed.wait_until(place, feed.end(place), SECONDS)
    assert sink.values == [b"before", b"while away"]


def test_nobody_who_was_full_misses_what_came_at_once_with_the_last_that_fitted(
    kafka: str, place: Place, feed: Feed
) -> None:
    """One batch of the client library may have records of a partition, its end, and more of it."""
    sink = Noted(fills=True)
    feed.follow(place, sink)
    for number in range(50):
        write(kafka, place, b"%d" % number)
        sink.full = False
    sink.full, sink._fills = False, False
    assert feed.wait_until(place, feed.end(place), SECONDS)
    assert sink.values == [b"%d" % number for number in range(50)]


def test_an_end_that_was_told_to_nobody_is_told_again(
    kafka: str, place: Place, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink was full when it came, and not any more when the thread of the feed looked again."""
    sink = Noted(fills=True)
    feed.follow(place, sink)
    assert told_when(feed, "_see_who_follows", monkeypatch).wait(SECONDS)
    ended = threading.Event()
    note = feed._note

    def noted(which: Place, offset: int) -> None:
        note(which, offset)
        if offset == 2:
            ended.set()

    with while_busy(feed, monkeypatch) as busy:
        busy.setattr(feed, "_note", noted)
        write_transaction(kafka, place, b"one")
        assert ended.wait(SECONDS), "behind the record stands the mark of its transaction"
        sink.full, sink._fills = False, False
    assert feed.wait_until(place, 2, SECONDS)


def test_who_leaves_and_comes_back_at_once_is_told_the_end_again(
    kafka: str, place: Place, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Noted()
    write_transaction(kafka, place, b"one")
    feed.follow(place, sink)
    assert feed.wait_until(place, 2, SECONDS)
    with while_busy(feed, monkeypatch):
        feed.leave(place)
        feed.follow(place, sink)
    assert feed.wait_until(place, 2, SECONDS)
    assert sink.values == [b"one"]


class Failing:
    """A consumer that fails in the middle of a batch, and once more where it begins again."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.failed = threading.Event()
        self.failed_again = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._consumer, name)

    def unassign(self) -> None:
        if not self.failed_again.is_set():
            self.failed_again.set()
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._consumer.unassign()

    def consume(self, count: int, seconds: float) -> list[Message]:
        if not self.failed.is_set():
            self.failed.set()
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self._consumer.consume(count, seconds)


def test_nothing_of_a_batch_is_lost_when_the_client_library_fails(
    kafka: str, place: Place, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Noted()
    write(kafka, place, b"before")
    feed.follow(place, sink)
    assert feed.wait_until(place, 1, SECONDS)
    failing = Failing(feed._consumer)
    with monkeypatch.context() as context:
        context.setattr(feed, "_consumer", failing)
        write(kafka, place, *(b"%d" % number for number in range(5)))
        assert failing.failed_again.wait(SECONDS)
        assert feed.wait_until(place, feed.end(place), SECONDS)
    assert sink.values == [b"before", *(b"%d" % number for number in range(5))]


class WithoutOffsets:
    """A client whose first answers have no error and no offset, as where a leader has just gone."""

    def __init__(self, admin: AdminClient, answers: int) -> None:
        self._admin = admin
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        return getattr(self._admin, name)

    def list_offsets(self, asked: dict[TopicPartition, OffsetSpec], **settings: Any) -> object:
        self._answers -= 1
        if self._answers < 0:
            return self._admin.list_offsets(asked, **settings)
        answer: Future[SimpleNamespace] = Future()
        answer.set_result(SimpleNamespace(offset=OFFSET_INVALID))
        return dict.fromkeys(asked, answer)


def test_an_answer_without_an_offset_is_no_end(
    kafka: str, place: Place, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(kafka, place, b"one", b"two")
    monkeypatch.setattr(feed, "_admin", WithoutOffsets(feed._admin, 2))
    assert feed.end(place) == 2
    monkeypatch.setattr(feed, "_admin", WithoutOffsets(feed._admin, 1_000))
    with pytest.raises(TryAgain, match=f"looking at {place.topic}"):
        feed.end(place, 0.3)


def test_an_error_of_a_topic_that_was_left_does_not_end_it(
    kafka: str, place: Place, feed: Feed
) -> None:
    for code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        feed._note_error(place, KafkaError(code))
    sink = Noted()
    write(kafka, place, b"after")
    feed.follow(place, sink)
    assert feed.wait_until(place, 1, SECONDS)


class Gated(Noted):
    """Its first take ends when the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.takes = 0

    def take(self, records: Sequence[Message]) -> None:
        self.takes += 1
        assert self.gate.wait(SECONDS)
        super().take(records)


def test_who_lags_behind_takes_all_that_waits_at_once(kafka: str, place: Place, feed: Feed) -> None:
    """Though the client library has come to the end of the topic after each single record."""
    sink = Gated()
    feed.follow(place, sink)
    for number in range(20):
        write(kafka, place, b"%d" % number)
        time.sleep(FETCH_WAIT_MILLISECONDS * 2 / 1000)  # then a broker says that there is no more
    sink.gate.set()
    assert feed.wait_until(place, feed.end(place), SECONDS)
    assert sink.values == [b"%d" % number for number in range(20)]
    assert sink.takes < 5
