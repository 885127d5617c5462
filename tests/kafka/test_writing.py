"""Goal: a commit that meets a group which changes is written again by the same writer, at once."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from holdfast.engine.deaths import Deaths
from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.records import Claimed
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.writer import Aborted, Writer
from holdfast.engine.urls import open_engine
from tests.kills.harness import wait_until


def metadata_of_one_that_left(settings: KafkaSettings, topic: str) -> object:
    member = Membership(settings, topic, None, lambda: None)
    wait_until(lambda: member.assigned() == {0}, 30.0, "it has joined")
    metadata = member.metadata()
    member.close()
    return metadata


def test_offsets_that_the_group_refuses_do_not_cost_the_writer(kafka: str, tmp_path: Path) -> None:
    prefix = f"writing-{uuid.uuid4().hex[:8]}"
    open_engine(
        f"kafka://{kafka}/{prefix}?cache={tmp_path}", "delivery", create_partitions=1
    ).close()
    settings = KafkaSettings(kafka, prefix)
    inbox = f"{prefix}.inbox.0"
    left = metadata_of_one_that_left(settings, inbox)
    writer = Writer(settings, Place(f"{prefix}.changelog.0", 0), f"{prefix}.p0")
    try:
        entry = Claimed(1, 1, "a test", Deaths())
        with pytest.raises(Aborted):
            writer.write(entry, offsets=[TopicPartition(inbox, 0, 0)], group=left)
        assert writer.write(entry) > 0
    finally:
        writer.abandon()
