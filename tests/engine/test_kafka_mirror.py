"""Goal: a record that a copy cannot take holds up what is behind it, and nothing before it."""

from __future__ import annotations

import dataclasses
import uuid
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Message

from holdfast.engine.kafka.catalog import Founded
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import Arrived
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Limits
from holdfast.engine.stamping import system_clock
from holdfast.errors import ClockJumped
from holdfast.stepping.frame import Frame
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import append, numbered
from tests.cli.commands import eventually


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


def test_neither_kind_of_source_is_in_the_way_of_the_other(kafka: str, tmp_path: Path) -> None:
    """The bounds are those that the fleet was made with, whatever the URL of a reader says; what is
    past them is taken to become dead letters."""
    bounds = Limits(sources_max=2, anonymous_sources_max=3)
    settings = KafkaSettings(
        kafka, f"m-{uuid.uuid4().hex[:8]}", limits=bounds, cache=tmp_path / "cache"
    )
    with closing(KafkaEngine(settings, FLEET, 1)):
        pass
    other = dataclasses.replace(settings, limits=Limits(), cache=tmp_path / "other")
    with closing(KafkaEngine(other, FLEET, 1)) as engine:
        for source in ("~1", "~2", "~3", "~4", "a", "b", "c", "~1", "a"):
            append(engine, numbered(source, [1]))
        view = engine.view(0)
        eventually("all are there", lambda: view.inbox_next() == 7)  # two repeats
        frames = [Frame.decode(stored.frame) for stored in view.frames(0, 100)]
    reasons = [str(frame.constant("refused") or "") for frame in frames if "refused" in frame]
    assert [reason.rpartition("raise ")[2] for reason in reasons] == [
        "anonymous_sources_max in the engine URL",
        "sources_max in the engine URL",
    ]


def test_a_fleet_of_an_older_release_has_the_usual_bound() -> None:
    entry = b'{"type":"fleet","format":1,"fleet":"f","born":"b","partitions":1,"sources_max":7}'
    made = msgspec.json.decode(entry, type=Founded)
    assert (made.sources_max, made.anonymous_sources_max) == (7, 100_000)
