"""Goal: what is planted on Kafka is one attempt, whole, whoever else tries."""

import dataclasses
from pathlib import Path

import pytest

from holdfast.engine.contents import Contents
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.topics import Topics, catalog_topic
from holdfast.engine.memory import MemoryEngine
from holdfast.errors import DamagedData, UsageError
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import (
    Owner,
    append,
    inbox,
    messages,
    numbered,
    record,
    soon,
)
from tests.engine.sites import Site, sends


def captured(engine: KafkaEngine, text: str) -> Contents:
    owner = Owner.of(engine)
    owner.commit([record("d-1", text)])
    return engine.capture()


def test_of_two_who_plant_one_has_planted(site: Site) -> None:
    """With the same incarnations and other contents: the one who is late finds it taken."""
    engine = site.open()
    owner = Owner.of(engine)
    owner.commit([record("d-1", "slow")])
    slow = engine.capture()
    owner.commit([record("d-1", "fast", 2)])
    fast = engine.capture()

    def overtaken(point: str) -> None:
        if point == "plant.inside":
            KafkaEngine.plant(site.settings(place="-there"), fast)

    with pytest.raises(UsageError, match="is there already"):
        KafkaEngine.plant(site.settings(place="-there"), slow, overtaken)
    planted = site.planted("-there")
    assert list(planted.view(0).records()) == [record("d-1", "fast", 2)]
    with pytest.raises(UsageError, match="is there already"):
        KafkaEngine.plant(site.settings(place="-there"), slow)
    slow.close()
    fast.close()


def test_what_an_outbox_holds_is_delivered(site: Site) -> None:
    """Of an engine that relays: here nobody would. Numbers go on behind it."""
    memory = MemoryEngine(FLEET, 2)
    before = Owner.of(memory)
    append(memory, numbered("gcs", [1]), 1)
    before.commit([record("d-1", "one")], **sends(before, 1, 1, count=2))
    append(memory, messages(before.claim.incarnation, 1, 1), 1)
    contents = memory.capture()
    KafkaEngine.plant(site.settings(place="-there"), contents)
    contents.close()
    planted = site.planted("-there")
    name = before.claim.incarnation
    assert inbox(planted, 1) == ["gcs.1", f"{name}>1", f"{name}>2"]
    assert planted.view(1).marks() == {name: 2}
    owner = Owner.of(planted)
    owner.commit([record("d-1", "two", 2)], **sends(owner, 1, 3))
    soon(lambda: planted.view(1).inbox_next() == 4)  # reading while it comes would see a gap
    assert inbox(planted, 1)[3:] == [f"{name}>3"]


def test_without_its_base_copies_it_is_not_taken_for_empty(site: Site, tmp_path: Path) -> None:
    contents = captured(site.open(), "planted")
    there = site.settings(place="-there")
    with_store = dataclasses.replace(there, base=f"file:{tmp_path / 'bases'}")
    KafkaEngine.plant(with_store, contents)
    contents.close()
    planted = KafkaEngine(dataclasses.replace(with_store, cache=tmp_path / "x"), FLEET)
    assert list(planted.view(0).records()) == [record("d-1", "planted")]
    planted.close()
    with pytest.raises(DamagedData, match=r"give the \?base="):
        site.planted("-there").view(0).head()


def test_whoever_founds_a_fleet_meanwhile_has_a_new_one(site: Site) -> None:
    contents = captured(site.open(), "from elsewhere")

    def founded(point: str) -> None:
        if point == "plant.after":
            site.open("c", place="-there")

    with pytest.raises(UsageError, match="is there already"):
        KafkaEngine.plant(site.settings(place="-there"), contents, founded)
    contents.close()
    engine = site.open("d", place="-there")
    assert [list(engine.view(number).records()) for number in (0, 1)] == [[], []]
    owner = Owner.of(engine)
    append(engine, numbered("gcs", [1]))
    owner.commit([record("d-1", "new")], events=1)
    assert list(site.open("e", place="-there").view(0).records()) == [record("d-1", "new")]


def test_what_stood_in_the_topics_before_is_not_read(site: Site) -> None:
    """Of a fleet that somebody has removed by its catalog alone."""
    contents = captured(site.open(), "planted")
    there = site.settings(place="-there")
    old = site.open("c", place="-there")
    before = Owner.of(old)
    append(old, numbered("gcs", [1]))
    before.commit([record("d-1", "old")], events=1)
    old.close()
    topics, catalog = Topics(there), catalog_topic(there.prefix or "")
    topics.admin.delete_topics([catalog])[catalog].result(30.0)
    soon(lambda: catalog not in topics.existing())
    KafkaEngine.plant(there, contents)
    contents.close()
    planted = site.planted("-there")
    assert list(planted.view(0).records()) == [record("d-1", "planted")]
    assert planted.view(0).inbox_next() == 0
