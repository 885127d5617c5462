"""Goal: a record that a copy cannot take holds up what is behind it, and nothing before it."""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Message

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import Arrived
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Limits
from holdfast.engine.stamping import system_clock
from holdfast.errors import ClockJumped
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import append, numbered


class Careful(Mirror):
    """It cannot take one of the records."""

    refuses = -1

    def _unpacked(self, record: Message) -> list[Arrived]:
        if record.offset() == self.refuses:
            raise ClockJumped("a broker's clock is far ahead")
        return super()._unpacked(record)


def test_what_stands_before_it_is_taken(kafka: str, tmp_path: Path) -> None:
    settings = KafkaSettings(kafka, f"m-{uuid.uuid4().hex[:8]}", cache=tmp_path / "cache")
    with closing(KafkaEngine(settings, FLEET, 1)) as engine:
        for number in range(1, 4):
            append(engine, numbered("gcs", [number]))
        records = list(read_all(settings, engine._fleet.feed, engine._copies.inbox_of(0)))
    mirror = Careful(tmp_path / "copy", 0, "i", Limits(), system_clock, lambda number: None)
    with closing(mirror):
        mirror.refuses = 2
        with pytest.raises(ClockJumped):
            mirror.inbox_sink.take(records)
        assert mirror.inbox.head().next == mirror.inbox_sink.next_offset == 2
        mirror.refuses = -1
        mirror.inbox_sink.take(records)
        assert mirror.inbox.head().next == 3
