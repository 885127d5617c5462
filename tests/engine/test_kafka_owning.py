"""Goal: whatever fails within a claim or a commit, this process knows neither more nor less of it
than the topics say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from holdfast.engine.faults import no_faults
from holdfast.engine.kafka import owners as kafka_owners
from holdfast.engine.kafka import owning
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.pulling import read_all
from holdfast.errors import Busy, DiskFull, Fenced, Unreachable
from holdfast.testing.conformance.workbench import Owner, append, numbered, record, soon
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

    def __init__(self, owner: KafkaEngine, first: Callable[[], object] = lambda: None) -> None:
        """From here on that of partition 0. `first` is done before it fails."""
        writer = owner._holdings._owned[0]._writer
        self._producer = writer._producer
        self._first = first
        writer._producer = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        self._first()
        raise KafkaException(KafkaError(KafkaError.UNKNOWN))


@pytest.fixture
def nobody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it need not be waited for."""
    monkeypatch.setattr(owning, "SUCCESSOR_SECONDS", 0.2)


def test_a_coordinator_that_stumbles_over_a_claim_counts_as_fenced(site: Site) -> None:
    north, south = site.open("north", partitions=1), site.open("south", partitions=1)
    old = Owner.of(north)
    Stumbles(north, lambda: Owner.of(south))
    with pytest.raises(Fenced):
        old.commit([record("d-1", "from the north")])
    assert south.view(0).record("Drone", "d-1") is None


@pytest.mark.usefixtures("nobody_comes")
def test_a_coordinator_that_stumbles_alone_is_tried_again(site: Site) -> None:
    engine = site.open("north", partitions=1)
    owner = Owner.of(engine)
    Stumbles(engine)
    commit = owner.prepare([record("d-1", "x")])
    with pytest.raises(Unreachable, match="committing"):
        engine.commit([(owner.claim, commit)])
    engine.commit([(owner.claim, commit)])
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "x")


@pytest.mark.usefixtures("nobody_comes")
def test_a_pause_ends_with_the_first_commit_though_its_outcome_was_not_known(site: Site) -> None:
    engine = site.open("north", partitions=1)
    append(engine, numbered("gcs", [1]))
    owner = Owner.of(engine)
    handover = engine._holdings._owned[0].handover
    producer = engine._holdings._owned[0]._writer._producer
    Stumbles(engine, partial(producer.commit_transaction, 10.0))
    commit = owner.prepare([record("d-1", "x")], events=1)
    with pytest.raises(Unreachable):
        engine.commit([(owner.claim, commit)])
    assert handover.committing() != []
    engine.commit([(owner.claim, commit)])
    assert handover.committing() == []


def test_what_an_owner_before_told_late_is_not_the_last_word(site: Site) -> None:
    """The topic keeps only that: whoever opens the fleet later would be refused for ever."""
    north, south = site.open("north", partitions=1), site.open("south", partitions=1)
    Owner.of(north)
    late = north._fleet.owners.notice(0, kafka_owners.Owner(1, "", "north", full=True))
    Owner.of(south)
    told = partial(read_all, south.settings, south._fleet.feed, late.place)

    def last_word() -> kafka_owners.Owner:
        return msgspec.json.decode(list(told())[-1].value() or b"", type=kafka_owners.Owner)

    north._fleet.appender.write(*late.place, late.value, key=late.key)
    assert last_word().full

    def is_corrected() -> bool:
        south.maintain()
        return last_word().epoch == 2

    soon(is_corrected)
    assert not last_word().full


@pytest.mark.usefixtures("nobody_comes")
def test_a_commit_that_brokers_end_again_and_again_is_told(site: Site) -> None:
    """As they do if it takes longer than a transaction may."""
    engine = site.open("north", partitions=1)
    owner = Owner.of(engine)
    commit = owner.prepare([record("d-1", "x")])
    owned = engine._holdings._owned[0]

    def ended(point: str) -> None:
        if point == "commit.inside":
            engine._copies.of(0).open_writer().abandon()

    owned._faults = ended
    with pytest.raises(Busy, match="raise transaction_seconds"):
        engine.commit([(owner.claim, commit)])
    owned._faults = no_faults
    engine.commit([(owner.claim, commit)])
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "x")


@pytest.mark.usefixtures("nobody_comes")
def test_who_stood_still_while_it_found_out_is_fenced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    north, south = site.open("north", partitions=1), site.open("south", partitions=1)
    old = Owner.of(north)
    commit = old.prepare([record("d-1", "from the north")])
    Stumbles(north)
    with pytest.raises(Unreachable):
        north.commit([(old.claim, commit)])
    following = north._copies.of(0)
    stop = following.stop_reading_changelog

    def late() -> None:
        new = Owner.of(south)
        new.commit([record("d-1", "from the south")])
        new.commit([record("d-1", "from the south", 2)])
        soon(lambda: following.mirror.view.head() == new.head)
        stop()

    with monkeypatch.context() as frozen:
        frozen.setattr(following, "stop_reading_changelog", late)
        with pytest.raises(Fenced):
            north.commit([(old.claim, commit)])
    assert north.view(0).record("Drone", "d-1") == record("d-1", "from the south", 2)
