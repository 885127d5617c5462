"""Goal: a transaction carries the offsets of the group too, and neither a group that is being
changed nor a broker that stands still makes it hang or happen twice."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast.engine.deaths import Deaths
from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.kafka.pulling import read_all
from holdfast.engine.kafka.records import Claimed
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.writer import OFFSETS_SECONDS, Lost, Moving, Overtaken, Writer
from holdfast.errors import HoldfastError
from holdfast.stepping.commit import Outgoing
from tests.kills.harness import wait_until
from tests.run.speed import patient
from tests.servers.kafka import KafkaCluster

TRANSACTION_SECONDS = 5.0


def entry(epoch: int) -> Claimed:
    return Claimed(epoch, 1, "somebody", Deaths())


class Bench:
    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        name = f"w-{uuid.uuid4().hex[:8]}"
        self.cluster = cluster
        self.settings = KafkaSettings(
            cluster.bootstrap, name, cache=folder, transaction_seconds=TRANSACTION_SECONDS
        )
        self.inbox, self.changelog = Place(f"{name}.inbox", 0), Place(f"{name}.changelog", 0)
        for place in (self.inbox, self.changelog):
            cluster.create_topic(place.topic)
        self.offsets = [TopicPartition(*self.inbox, 7)]

    def joined(self, name: MemberName | None = None) -> Membership:
        member = Membership(self.settings, self.inbox.topic, name, lambda: None)
        wait_until(
            lambda: member.assigned() == {0} and member.metadata() is not None,
            30.0,
            "a member has its partition",
        )
        return member

    def writer(self) -> Writer:
        return Writer(self.settings, self.changelog, f"{self.settings.prefix}.p0")

    def entries(self) -> int:
        with closing(Feed(self.settings)) as feed:
            return len(list(read_all(self.settings, feed, self.changelog)))

    def committed(self) -> int:
        settings = {**self.settings.common(), "group.id": f"{self.settings.prefix}.workers"}
        with closing(Consumer(settings)) as asking:
            (found,) = asking.committed([TopicPartition(*self.inbox)], timeout=10.0)
        return int(found.offset)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as started:
        yield started


@pytest.fixture
def bench(cluster: KafkaCluster, tmp_path: Path) -> Bench:
    return Bench(cluster, tmp_path)


def test_offsets_stand_with_the_entry(bench: Bench) -> None:
    with closing(bench.joined()) as member:
        writer = bench.writer()
        writer.write(entry(1), offsets=bench.offsets, group=member.metadata())
        writer.abandon()
    assert (bench.entries(), bench.committed()) == (1, 7)


def test_a_group_that_has_moved_on_costs_nothing_but_its_offsets(bench: Bench) -> None:
    """The transaction is ended, so that the same writer can go on at once."""
    with closing(bench.joined()) as member:
        before = member.metadata()
    with closing(bench.joined()):
        writer = bench.writer()
        with pytest.raises(Moving):
            writer.write(entry(1), offsets=bench.offsets, group=before)
        writer.write(entry(1))
        writer.abandon()
    assert bench.entries() == 1


def test_one_of_the_same_name_costs_nothing_but_the_offsets(bench: Bench, tmp_path: Path) -> None:
    """Who is in the group does not decide who owns the partition."""

    def named(machine: str) -> Membership:
        return bench.joined(MemberName(tmp_path / machine, "w0", bench.settings.session_seconds))

    with closing(named("north")) as member:
        before = member.metadata()
        with closing(named("south")):
            writer = bench.writer()
            with pytest.raises(Moving):
                writer.write(entry(1), offsets=bench.offsets, group=before)
            writer.write(entry(1))
            writer.abandon()
    assert bench.entries() == 1


class MixesUp:
    """A producer as the client library is when it is fenced while it reports deliveries."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def flush(self, seconds: float) -> int:
        raise SystemError("flush returned a result with an exception set")


def test_a_fatal_error_in_a_callback_counts_as_overtaken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = bench.writer()
    with monkeypatch.context() as fenced:
        fenced.setattr(writer, "_producer", MixesUp(writer._producer))
        with pytest.raises(Overtaken):
            writer.write(entry(1))
    writer.abandon()
    bench.writer().abandon()
    assert bench.entries() == 0


def test_who_cannot_write_everywhere_when_it_begins_tries_again(bench: Bench) -> None:
    """An error of the library is not to be compared with None: it stumbles over that, later."""
    nowhere = Place(bench.inbox.topic, 7)
    with pytest.raises(HoldfastError, match="beginning to write"):
        Writer(bench.settings, bench.changelog, "nowhere", [nowhere, bench.inbox])
    bench.writer().abandon()
    assert bench.entries() == 0


class Slowly(list[tuple[Place, Outgoing]]):
    """Messages, each of which the brokers have answered before the next one is sent."""

    def __iter__(self) -> Iterator[tuple[Place, Outgoing]]:
        for each in super().__iter__():
            yield each
            time.sleep(0.5)


def test_what_was_refused_is_told_though_it_was_not_the_last_that_was_sent(bench: Bench) -> None:
    small = Place(f"{bench.inbox.topic}.small", 0)
    bench.cluster.create_topic(small.topic, config={"max.message.bytes": "1000"})
    writer = bench.writer()
    large = Slowly((small, Outgoing(0, first, 1, bytes(2000))) for first in (1, 2))
    with pytest.raises(Lost) as told:
        writer.write(entry(1), large)
    assert "larger than the topic takes" in str(told.value)
    writer.abandon()


def test_who_is_overtaken_before_all_is_sent_learns_it(bench: Bench) -> None:
    old, new = bench.writer(), bench.writer()
    with pytest.raises(Overtaken):
        old.write(entry(1), Slowly((bench.inbox, Outgoing(0, n, 1, b"x")) for n in (1, 2)))
    old.abandon()
    new.write(entry(2))
    new.abandon()
    assert bench.entries() == 1


@pytest.mark.kill
def test_a_broker_that_stands_still_inside_a_transaction_is_not_waited_for(bench: Bench) -> None:
    broker = bench.cluster.broker(1)
    with closing(bench.joined()) as member:
        writer, group = bench.writer(), member.metadata()
        writer.write(entry(1), offsets=bench.offsets, group=group)
        begun = time.monotonic()
        try:
            with pytest.raises(Lost, match="are the brokers up"):
                writer.write(entry(2), offsets=bench.offsets, group=group, inside=broker.pause)
        finally:
            broker.resume()
        assert time.monotonic() - begun < patient(OFFSETS_SECONDS + TRANSACTION_SECONDS)
        writer.abandon()
        successor = bench.writer()
        assert bench.entries() == 1, "the successor has ended it"
        successor.write(entry(2))
        successor.abandon()
    assert bench.entries() == 2
