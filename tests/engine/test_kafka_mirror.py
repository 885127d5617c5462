"""Goal: a record that a copy cannot take holds up what is behind it, and nothing before it; a copy
that cannot be opened is made anew or told, and leaves nothing open."""

from __future__ import annotations

import dataclasses
import gc
import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import apsw
import msgspec
import pytest
from confluent_kafka import Message

from holdfast.engine.kafka import copies
from holdfast.engine.kafka.catalog import Founded
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import Arrived
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Limits
from holdfast.engine.sqlite.segment import InboxHead
from holdfast.engine.stamping import system_clock
from holdfast.errors import ClockJumped, DamagedData, Unreachable, UsageError
from holdfast.stepping.frame import Frame
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import append, numbered
from tests.cli.commands import eventually
from tests.engine.test_sqlite_descriptors import descriptors


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


def test_a_position_is_known_once_it_is_noted(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks while it is being noted waits, and is not sent on as if it had come long ago."""
    settings = KafkaSettings(kafka, f"m-{uuid.uuid4().hex[:8]}", cache=tmp_path / "cache")
    with closing(KafkaEngine(settings, FLEET, 1)) as engine:
        receipts = [append(engine, numbered("gcs", [number])).next for number in range(1, 4)]
        records = list(read_all(settings, engine._fleet.feed, engine._copies.inbox_of(0)))
    with closing(Copy(tmp_path / "copy").open()) as mirror:
        seen: list[int | None] = []
        head = mirror.inbox.head

        def looked_at_meanwhile() -> InboxHead:
            seen.extend(map(mirror.position_of, receipts))
            return head()

        monkeypatch.setattr(mirror.inbox, "head", looked_at_meanwhile)
        mirror.inbox_sink.take(records)
        assert set(seen) == {None}
        assert [mirror.position_of(receipt) for receipt in receipts] == [1, 2, 3]
        monkeypatch.setattr("holdfast.engine.kafka.mirror.POSITIONS_KNOWN_MAX", 0)
        mirror.ingest([])
        assert [mirror.position_of(receipt) for receipt in receipts] == [3, 3, 3]


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


class Copy:
    """A mirror of partition 0 whose base copies are what `begins_with` puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begins_with: Callable[[Path], bool] = lambda folder: False

    def open(self, incarnation: str = "i") -> Mirror:
        return Mirror(
            *(self.folder, 0, incarnation, Limits(), system_clock, lambda number: None),
            lambda folder: self.begins_with(folder),  # noqa: PLW0108 - what it is by then
        )

    def descriptors(self) -> list[str]:
        return [path for path in descriptors() if path.startswith(f"{self.folder}/")]


def test_what_cannot_begin_again_is_closed_once(tmp_path: Path) -> None:
    """Its descriptors may be others' by the second time."""

    def unreachable(folder: Path) -> bool:
        raise Unreachable("no broker answers")

    def foreign(folder: Path) -> bool:
        shutil.copytree(tmp_path / "other", folder, dirs_exist_ok=True)
        return True

    Copy(tmp_path / "other").open("another").close()
    copy = Copy(tmp_path / "copy")
    for begins_with, expected in ((unreachable, Unreachable), (foreign, DamagedData)):
        mirror = copy.open()
        copy.begins_with = begins_with
        with pytest.raises(expected):
            mirror.begin_again()
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(20)]
        with pytest.raises(expected):
            mirror.begin_again()
        mirror.close()
        for each in others:
            os.close(each)
        copy.begins_with = lambda folder: False


def test_a_damaged_copy_is_made_anew_and_its_descriptors_are_given_back(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    copy.open().close()
    path = copy.folder / "state.db"
    with closing(apsw.Connection(str(path))) as state:
        state.pragma("journal_mode", "delete")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'delta'"
        (page,) = cast(tuple[int], state.execute(query).fetchone())
        size = state.pragma("page_size")
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    gc.disable()
    try:
        copy.open().close()
        assert copy.descriptors() == []
    finally:
        gc.enable()


def test_a_copy_that_cannot_follow_gives_its_descriptors_back(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = KafkaSettings(kafka, f"m-{uuid.uuid4().hex[:8]}", cache=tmp_path / "cache")
    with closing(KafkaEngine(settings, FLEET, 1)) as engine:
        folder = engine._copies.place.folder_of(0)

        def away(following: Following) -> bool:
            raise Unreachable("no broker answers")

        gc.disable()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Following, "_begins_too_late", away)
                with pytest.raises(Unreachable):
                    engine._copies.of(0)
            assert [path for path in descriptors() if path.startswith(f"{folder}/")] == []
        finally:
            gc.enable()


def test_a_place_of_copies_without_a_store_is_given_back(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise UsageError("no keys for that store")

    monkeypatch.setattr(copies, "TopicBases", refused)
    settings = KafkaSettings(kafka, f"m-{uuid.uuid4().hex[:8]}", cache=tmp_path / "cache")
    with pytest.raises(UsageError):
        KafkaEngine(settings, FLEET, 1)
    assert [path for path in descriptors() if path.startswith(f"{tmp_path}/")] == []


def test_a_fleet_of_an_older_release_has_the_usual_bound() -> None:
    entry = b'{"type":"fleet","format":1,"fleet":"f","born":"b","partitions":1,"sources_max":7}'
    made = msgspec.json.decode(entry, type=Founded)
    assert (made.sources_max, made.anonymous_sources_max) == (7, 100_000)
