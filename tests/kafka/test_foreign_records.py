"""Goal: records that are not ours, or of a newer release, or larger than a topic takes, are told in
one line; what can go on goes on."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.errors import DamagedData, HoldfastError, NewerFormat, OutdatedCode, UsageError
from holdfast.runtime.fleet import Fleet
from holdfast.runtime.loading import load_fleet
from tests.cli.fleets import CARTS_1
from tests.kafka.drones import Drone, Note, fleet
from tests.kafka.test_refusals import alter, made, told
from tests.run.speed import patient

CARTS_WITH_A_ZONE = CARTS_1.replace("metres: int = 0", 'metres: int = 0\n    zone: str = "yard"')


@pytest.fixture
def prefix() -> str:
    return f"foreign-{uuid.uuid4().hex[:8]}"


def put(
    kafka: str, topic: str, value: bytes | None, headers: list[tuple[str, bytes]] | None = None
) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, value, partition=0, headers=list(headers or []))
    assert producer.flush(10.0) == 0


def test_what_is_none_of_ours_in_an_inbox_is_passed_over(
    kafka: str, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = f"{prefix}.inbox.0"
    with fleet.open(f"kafka://{kafka}/{prefix}?cache={tmp_path}") as live:
        live.send(Drone, "d-1", Note(text="before"))
        live.settle()
        put(kafka, inbox, b"garbage")
        put(kafka, inbox, None)
        put(kafka, inbox, b"\x00" * 100, [("frames", b"\xc1")])
        live.send(Drone, "d-1", Note(text="after"))
        live.settle()
        found = live.state(Drone, "d-1")
        assert found is not None
        assert (found.note, found.events) == ("after", 2)
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert [line.partition(": passed over, since ")[0] for line in lines] == [
        # Before them: the record of a new writer, the mark that it was aborted, the first event.
        f"{inbox}, partition 0, offset {offset}"
        for offset in (3, 4, 5)
    ]
    assert all("it was not written by us" in line for line in lines)


@pytest.mark.parametrize(
    ("topic", "value", "headers", "kind", "part"),
    [
        ("changelog.0", b"garbage", [], DamagedData, "offset {end}: it is none of ours"),
        ("changelog.0", b"garbage", [("part", b"\xc1")], DamagedData, "offset {end}: "),
        ("changelog.0", b"", [("part", b"\x93\x09\x00\x01")], NewerFormat, "has format 9"),
        ("catalog", b"garbage", [], DamagedData, "catalog, offset {end}: no entry of a catalog"),
    ],
    ids=["changelog", "header", "newer changelog", "catalog"],
)
def test_what_a_fleet_is_made_of_has_to_be_ours(
    kafka: str,
    prefix: str,
    tmp_path: Path,
    topic: str,
    value: bytes,
    headers: list[tuple[str, bytes]],
    kind: type[HoldfastError],
    part: str,
) -> None:
    url = made(kafka, prefix, tmp_path)
    end = _end_of(kafka, f"{prefix}.{topic}")
    put(kafka, f"{prefix}.{topic}", value, headers)
    for enter in (_open, _look):
        with told(kind, part.format(end=end), seconds=patient(15.0)):
            enter(fleet, url)


@pytest.mark.parametrize("fields", ["those of today", "others"])
def test_a_catalog_of_a_newer_release(kafka: str, prefix: str, tmp_path: Path, fields: str) -> None:
    url = made(kafka, prefix, tmp_path)
    first = _first_of(kafka, f"{prefix}.catalog")
    newer = {**first, "format": 9} if fields != "others" else {"type": "fleet", "format": 9}
    put(kafka, f"{prefix}.catalog", msgspec.json.encode(newer))
    for enter in (fleet.open, fleet.connect):
        with told(NewerFormat, "format 9, this release reads 2: install the release"):
            enter(url)


def _first_of(kafka: str, topic: str) -> dict[str, object]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "first"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(10.0)
        assert record is not None
        return msgspec.json.decode(record.value() or b"", type=dict[str, object])
    finally:
        consumer.close()


def _open(fleet: Fleet, url: str) -> None:
    """The claim comes with the assignment, behind the call."""
    with fleet.open(url) as live:
        live.settle(timeout=patient(10.0))


def _look(fleet: Fleet, url: str) -> None:
    with fleet.connect(url) as live:
        live.state(Drone, "d-1")


def _end_of(kafka: str, topic: str) -> int:
    from holdfast.engine.kafka.feed import Feed, Place

    feed = Feed(KafkaSettings(kafka, topic.partition(".")[0]))
    try:
        return feed.end(Place(topic, 0))
    finally:
        feed.close()


@pytest.mark.slow
def test_newer_classes_have_folded(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = f"kafka://{kafka}/{prefix}?cache={tmp_path}"
    (tmp_path / "older.py").write_text(CARTS_1)
    (tmp_path / "newer.py").write_text(CARTS_WITH_A_ZONE)
    older, newer = (load_fleet(str(tmp_path / f"{name}.py")) for name in ("older", "newer"))
    for each in (older, newer):
        _open(each, url)
        _claimed(each, url)
    with told(OutdatedCode, "newer classes have folded here", "run the newer program"):
        _claimed(older, url)


def _claimed(fleet: Fleet, url: str) -> None:
    with fleet.open(url) as live:
        engine = live._engine
        assert isinstance(engine, KafkaEngine)
        _wait(lambda: engine._holdings.numbers() == [0], live.settle)


def _wait(look: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
    deadline = time.monotonic() + patient(15.0)
    while not look() and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.05)
    assert look()


def test_a_record_that_is_too_large(kafka: str, prefix: str, tmp_path: Path) -> None:
    with fleet.open(f"kafka://{kafka}/{prefix}?cache={tmp_path}") as live:
        live.send(Drone, "d-1", Note(text="before"))
        alter(kafka, f"{prefix}.inbox.0", "max.message.bytes", "2000")
        large = Note(text=" ".join(map(str, range(2_000))))
        _wait(lambda: _is_refused(live.send, large), lambda: None)  # brokers learn of it later
        with told(UsageError, "larger than the topic takes", "raise max.message.bytes"):
            live.send(Drone, "d-1", large)
        live.send(Drone, "d-1", Note(text="after"))
        live.settle()
        found = live.state(Drone, "d-1")
        assert found is not None
        assert found.note == "after"


def _is_refused(send: Callable[..., object], event: Note) -> bool:
    try:
        send(Drone, "d-2", event)
    except UsageError:
        return True
    return False
