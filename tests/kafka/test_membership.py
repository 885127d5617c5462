"""Goal: a member of the group of workers survives what brokers and the client library do to it."""

from __future__ import annotations

import logging
import uuid
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.founding import open_fleet
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Claim
from holdfast.engine.urls import open_engine
from holdfast.errors import Busy, Unreachable
from tests.kills.harness import wait_until


def test_a_claim_that_failed_holds_nothing_back_from_others(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is to give a partition away waits until its worker has let go of it."""

    def is_hindered(number: int, generation: int) -> Claim:
        raise Unreachable("brokers are away just when it claims")

    monkeypatch.setattr("holdfast.engine.kafka.holdings.COPY_SECONDS", 0.0)
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    with closing(
        KafkaEngine(KafkaSettings(kafka, prefix, cache=tmp_path), "delivery", 1)
    ) as engine:
        monkeypatch.setattr(engine._holdings, "_claim", is_hindered)
        for _ in engine.assignments(None, 1):
            pass  # nothing is granted; it joins
        member = engine._holdings._membership
        assert member is not None
        wait_until(lambda: member.assigned() == {0}, 30.0, "it is to have the partition")
        for _ in range(3):
            assert list(engine.assignments(None, 1)) == []
        assert member._held == set()
    assert caplog.text.count("partition 0 cannot be had yet: brokers are away just") == 1
    assert "waits for its copy" not in caplog.text


def test_a_copy_that_is_waited_for_is_told_of(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nobody learns why a partition stands still."""
    monkeypatch.setattr("holdfast.engine.kafka.holdings.COPY_SECONDS", 0.2)
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    with closing(
        KafkaEngine(KafkaSettings(kafka, prefix, cache=tmp_path), "delivery", 1)
    ) as engine:
        monkeypatch.setattr(engine._copies.of(0), "is_near", lambda: False)
        line = "partition 0 waits for its copy here, and nobody folds it meanwhile"
        wait_until(
            lambda: not list(engine.assignments(None, 1)) and line in caplog.text, 30.0, "a line"
        )
        assert list(engine.assignments(None, 1)) == []
        assert caplog.text.count(line) == 1


def test_what_was_fenced_holds_nothing_back_from_others(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    with closing(
        KafkaEngine(KafkaSettings(kafka, prefix, cache=tmp_path), "delivery", 1)
    ) as engine:
        wait_until(lambda: any(engine.assignments(None, 1)), 30.0, "it has the partition")
        assert engine._holdings._membership is not None
        assert engine._holdings._membership._held == {0}
        engine._holdings._revoked.add(0)
        monkeypatch.setattr(engine._copies.of(0), "is_near", lambda: False)
        assert list(engine.assignments(None, 1)) == []
        assert engine._holdings._membership._held == set()


def test_partitions_that_cannot_be_given_back_do_not_end_it(
    kafka: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error out of a callback comes back from `close` as something that is no exception."""
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    topic = f"{prefix}.inbox.0"
    url = f"kafka://{kafka}/{prefix}?cache={tmp_path}"
    open_engine(url, "delivery", create_partitions=2).close()
    member = Membership(KafkaSettings(kafka, prefix), topic, None, lambda: None)
    try:
        wait_until(lambda: member.assigned() == {0, 1}, 30.0, "it has both partitions")
        member._stopping = True
        member._thread.join()  # from here on the consumer is ours
        with caplog.at_level(logging.WARNING):
            member._on_revoke(member._consumer, [TopicPartition(topic, 7)])
        assert "joining the group of workers" in caplog.text
        assert member.assigned() == {0, 1}
    finally:
        member.close()


def test_who_is_fenced_by_one_of_its_name_starts_anew(kafka: str, tmp_path: Path) -> None:
    """It is no member any more, and would wait for partitions for ever."""
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    settings = KafkaSettings(kafka, prefix, cache=tmp_path)
    open_fleet(settings, "delivery", 1).close()

    def joined(note: str) -> Membership:
        name = MemberName(tmp_path / note, "w0", settings.session_seconds)
        return Membership(settings, f"{prefix}.inbox.0", name, lambda: None)

    def is_told() -> bool:
        try:
            first.assigned()
        except Busy as trouble:
            return "starts anew" in str(trouble)
        return False

    with closing(joined("a")) as first:
        wait_until(lambda: first.assigned() == {0}, 30.0, "it has its partition")
        with closing(joined("b")):
            wait_until(is_told, 30.0, "the first one knows that it is out")


class Closing:
    """A consumer that is given partitions while it closes: then it cannot tell its group's data."""

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        pass

    def pause(self, partitions: list[TopicPartition]) -> None:
        pass

    def consumer_group_metadata(self) -> object:
        raise RuntimeError("Consumer group metadata not available")


def test_partitions_that_come_while_it_closes_do_not_end_it(kafka: str, tmp_path: Path) -> None:
    prefix = f"member-{uuid.uuid4().hex[:8]}"
    settings = KafkaSettings(kafka, prefix, cache=tmp_path)
    open_fleet(settings, "delivery", 1).close()
    with closing(Membership(settings, f"{prefix}.inbox.0", None, lambda: None)) as member:
        member._on_assign(cast(Consumer, Closing()), [TopicPartition(f"{prefix}.inbox.0", 0)])
        assert member.assigned() == {0}


def test_a_note_that_cannot_be_written_ends_nothing(kafka: str, tmp_path: Path) -> None:
    """As on a full disk: here its folder is gone."""
    prefix = f"notes-{uuid.uuid4().hex[:8]}"
    settings = KafkaSettings(kafka, prefix, cache=tmp_path)
    open_fleet(settings, "notes", 1).close()
    name = MemberName(tmp_path / "gone" / "note", "w0", 10.0)
    member = Membership(settings, f"{prefix}.inbox.0", name, lambda: None)
    with closing(member):
        wait_until(lambda: member.assigned() == {0}, 30.0, "it has its partition")
        assert member._thread.is_alive()
