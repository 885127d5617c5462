"""Goal: a rescaling loses nothing that comes, and nobody who begins, while it is being made."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.records import pack_parcels
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.port import Parcel
from holdfast.errors import Backlog, Fenced
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import Owner, append, inbox, numbered, record, soon


class Meanwhile:
    """Does something when the new partitions are made and do not count yet."""

    def __init__(self) -> None:
        self.act: Callable[[], None] = lambda: None

    def __call__(self, point: str) -> None:
        if point == "rescale.inside":
            self.act()


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def settings(kafka: str, tmp_path: Path) -> KafkaSettings:
    return KafkaSettings(kafka, f"late-{uuid.uuid4().hex[:8]}", cache=tmp_path)


@pytest.fixture
def engine(settings: KafkaSettings, meanwhile: Meanwhile) -> Iterator[KafkaEngine]:
    with closing(KafkaEngine(settings, FLEET, 1, faults=meanwhile)) as opened:
        yield opened


def arrive_late(engine: KafkaEngine, parcel: Parcel) -> None:
    """From a producer that has not heard yet that the intake is closed."""
    value, headers = pack_parcels([parcel])
    engine._fleet.appender.write(*engine._copies.inbox_of(0), value, headers)
    place = engine._copies.inbox_of(0)
    if engine._fleet.feed.follows(place):
        engine._copies.of(0).read_inbox_to_its_end()


def test_an_event_that_comes_too_late_is_forwarded(
    engine: KafkaEngine, meanwhile: Meanwhile
) -> None:
    owner = Owner.of(engine)
    append(engine, numbered("gcs", [1]))
    owner.commit([record("d-1", "one")], events=1)
    engine.close_intake(owner.claim)
    meanwhile.act = lambda: arrive_late(engine, numbered("gcs", [2]))
    engine.rescale([owner.claim], 2)
    numbers = engine.catalog.layout.numbers
    for number in numbers:
        Owner.of(engine, number)
    engine.maintain()
    soon(lambda: "gcs.2" in [tag for number in numbers for tag in inbox(engine, number)])


def test_what_was_refused_is_forwarded_again_and_only_once(
    engine: KafkaEngine, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner.of(engine)
    engine.close_intake(owner.claim)
    late = numbered("gcs", [1])
    meanwhile.act = lambda: arrive_late(engine, late)
    engine.rescale([owner.claim], 1)
    (number,) = engine.catalog.layout.numbers
    Owner.of(engine, number)
    with monkeypatch.context() as full:
        full.setattr(engine._forwarder, "_append", lambda number, parcels: [Backlog("full")])
        with pytest.raises(Backlog):
            engine.maintain()
    engine.maintain()
    soon(lambda: engine.view(number).inbox_next() == 1)
    assert inbox(engine, number) == ["gcs.1"]
    append(engine, late, number)  # its sender, which was not told that it had arrived
    assert inbox(engine, number) == ["gcs.1"]


@pytest.mark.parametrize("late", [0.0, 3.0], ids=["at once", "late"])
def test_whoever_begins_in_the_middle_makes_it_void(
    engine: KafkaEngine,
    settings: KafkaSettings,
    meanwhile: Meanwhile,
    tmp_path: Path,
    late: float,
) -> None:
    """Also one that hears of intakes and layouts late."""
    owner = Owner.of(engine)
    append(engine, numbered("gcs", [1]))
    owner.commit([record("d-1", "one")], events=1)
    elsewhere = KafkaSettings(settings.bootstrap, settings.prefix, cache=tmp_path / "elsewhere")
    with closing(KafkaEngine(elsewhere, FLEET)) as other:
        other._fleet.feed._resting[other.catalog._place] = time.monotonic() + late
        engine.close_intake(owner.claim)

        def begin() -> None:
            successor = Owner.of(other)
            append(other, numbered("gcs", [2]))
            successor.commit([record("d-1", "two", 2)], events=1)

        meanwhile.act = begin
        with pytest.raises(Fenced, match="somebody claimed a partition meanwhile"):
            engine.rescale([owner.claim], 2)
        other.catalog.refresh()
        assert list(other.catalog.layout.numbers) == [0]
        assert other.view(0).record("Drone", "d-1") == record("d-1", "two", 2)
