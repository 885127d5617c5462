"""Goal: a claim or a local copy of a commit that fails halfway leaves this process knowing neither
more nor less than the topics say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from holdfast.engine.kafka import owning
from holdfast.errors import Busy, DiskFull, Fenced, Unreachable
from holdfast.testing.conformance.workbench import Owner, append, numbered, record
from tests.engine.sites import Site


def test_after_a_claim_that_failed_at_its_end_it_follows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    north, south = site.open("north", partitions=1), site.open("south", partitions=1)
    append(north, numbered("gcs", [1, 2]))

    def fails(number: int, *, closed: bool) -> None:
        raise Busy("injected")

    with monkeypatch.context() as injected:
        injected.setattr(north.catalog, "set_intake", fails)
        with pytest.raises(Busy, match="injected"):
            Owner.of(north)
    elsewhere = Owner.of(south)
    elsewhere.commit([record("d-1", "from the south")], events=1)
    assert north.view(0).record("Drone", "d-1") == record("d-1", "from the south")
    assert Owner.of(north).head == elsewhere.head


def test_a_commit_that_the_local_copy_could_not_take_is_read_from_the_topic(site: Site) -> None:
    engine = site.open("north", partitions=1)
    append(engine, numbered("gcs", [1]))
    owner = Owner.of(engine)
    state = engine._copies.of(0).mirror.state._connection
    state.pragma("max_page_count", state.pragma("page_count"))
    large = record("d-1", "x" * 1_000_000)
    with pytest.raises(DiskFull):
        owner.commit([large], events=1)
    state.pragma("max_page_count", 1_000_000)
    engine._holdings.release(0)
    with closing(site.open("south", partitions=1)) as south:
        assert south.view(0).record("Drone", "d-1") == large, "the topic has it"
    assert engine.view(0).record("Drone", "d-1") == large


class Stumbles:
    """A producer whose coordinator fails inside, as it does if another writer begins just then."""

    def __init__(self, producer: Producer, before: Callable[[], object]) -> None:
        self._producer = producer
        self._before = before

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        self._before()
        raise KafkaException(KafkaError(KafkaError.UNKNOWN))


def test_a_coordinator_that_stumbles_over_a_claim_counts_as_fenced(site: Site) -> None:
    north, south = site.open("north", partitions=1), site.open("south", partitions=1)
    old = Owner.of(north)
    writer = north._holdings._owned[0]._writer
    writer._producer = Stumbles(writer._producer, lambda: Owner.of(south))  # type: ignore[assignment]
    with pytest.raises(Fenced):
        old.commit([record("d-1", "from the north")])
    assert south.view(0).record("Drone", "d-1") is None


def test_a_coordinator_that_stumbles_alone_is_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "SUCCESSOR_SECONDS", 0.2)
    engine = site.open("north", partitions=1)
    owner = Owner.of(engine)
    writer = engine._holdings._owned[0]._writer
    writer._producer = Stumbles(writer._producer, lambda: None)  # type: ignore[assignment]
    written = record("d-1", "x")
    with pytest.raises(Unreachable, match="committing"):
        owner.commit([written])
    owner.commit([written])
    assert engine.view(0).record("Drone", "d-1") == written
