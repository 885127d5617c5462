"""Goal: whoever sends again after a failure arrives, whatever has become of the client before."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from holdfast.engine.kafka import appending
from holdfast.engine.kafka.appending import Appender
from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import TopicPlan, Topics
from holdfast.errors import Busy, UsageError
from tests.run.speed import patient


@pytest.fixture
def appender(kafka: str, tmp_path: Path) -> Iterator[Appender]:
    with closing(Appender(KafkaSettings(kafka, "appending", cache=tmp_path))) as opened:
        yield opened


@pytest.fixture
def topic(appender: Appender) -> str:
    name = f"appending-{uuid.uuid4().hex[:8]}"
    Topics(appender._settings).make([TopicPlan(name, 2, {})])
    return name


class Deaf:
    """A producer that delivers nothing to partition 0 any more."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def produce(self, *arguments: object, partition: int, **options: object) -> None:
        if partition:
            self._producer.produce(*arguments, partition=partition, **options)  # type: ignore[misc,arg-type]


def test_a_producer_that_delivers_nothing_any_more_is_replaced(
    appender: Appender, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "SILENT_SECONDS", 1.0)
    appender.write(topic, 0, b"before")
    appender._producer = Deaf(appender._ready())  # type: ignore[assignment]
    begun = time.monotonic()
    with pytest.raises(Busy, match=r"no acknowledgement within 0\.4 s"):
        appender.write(topic, 0, b"too late", seconds=0.4)
    appender.write(topic, 1, b"elsewhere")  # that others arrive says nothing of this partition
    while isinstance(appender._producer, Deaf):
        assert time.monotonic() - begun < patient(10.0), "it is kept for ever"
        with pytest.raises(Busy):
            appender.write(topic, 0, b"again", seconds=0.4)
    assert appender.write(topic, 0, b"again").offset == 1


def test_a_partition_that_is_slow_now_and_then_keeps_its_producer(
    appender: Appender, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "SILENT_SECONDS", 0.5)
    first = appender._ready()
    for _ in range(3):
        with monkeypatch.context() as slow:
            slow.setattr(appender, "_producer", Deaf(first))
            with pytest.raises(Busy):
                appender.write(topic, 0, b"too late", seconds=0.3)
        appender.write(topic, 0, b"in time")
    assert appender._producer is first


def test_settings_that_contradict_ours_are_refused_in_one_line(tmp_path: Path) -> None:
    client = {"max.in.flight.requests.per.connection": "10"}
    settings = KafkaSettings("127.0.0.1:9", "p", client=client, cache=tmp_path)
    with pytest.raises(UsageError, match=r"the client library refuses its settings.*engine URL"):
        made(Producer, settings, {"transactional.id": "p.0"})
