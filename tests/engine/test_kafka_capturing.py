"""Goal: a cut through a fleet on Kafka has every cause and every message once, at whatever moments
its topics are looked at."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from holdfast.engine.contents import Contents, Outbox
from holdfast.engine.kafka.cutting import Copy, Cut
from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.pulling import Puller
from holdfast.engine.kafka.records import pack_parcels
from holdfast.errors import DamagedData, Rescaling
from holdfast.testing.conformance.captures import Traffic, count
from holdfast.testing.conformance.rescales import owners, rescale
from holdfast.testing.conformance.workbench import (
    Owner,
    append,
    messages,
    numbered,
    record,
    tags_of,
    together,
)
from tests.engine.sites import Site, sends
from tests.run.speed import patient


class Early:
    """Ends of topics as they are; but when some are first asked for, nothing is in them yet."""

    def __init__(self, engine: KafkaEngine, *kinds: str) -> None:
        self._engine = engine
        self._kinds = kinds
        self._asked: set[Place] = set()

    def __call__(self, place: Place) -> int:
        name = f"{place.topic.split('.')[-2]}-{place.partition}"
        first = place not in self._asked
        self._asked.add(place)
        if name in self._kinds and first:
            return 0
        return self._engine._fleet.feed.acknowledged_end(place)


class Taken:
    """A cut by hand, where the ends that it fixes first are told."""

    def __init__(self, engine: KafkaEngine, *empty: str) -> None:
        capturer = engine._capturer
        self.copies: dict[int, Copy] = {n: capturer._copy(n) for n in (0, 1)}
        puller = Puller(engine.settings)
        try:
            ends = Early(engine, *empty)
            self.outboxes: dict[int, Outbox] = Cut(puller, self.copies, ends).run()
        finally:
            puller.close()

    def waits(self, number: int) -> list[str]:
        mirror = self.copies[number].mirror
        return [tag for stored in mirror.inbox.read(0, 1_000) for tag in tags_of(stored)]

    def position(self, number: int) -> int:
        return self.copies[number].mirror.view.head().position

    def close(self) -> None:
        for copy in self.copies.values():
            copy.mirror.close()


@pytest.fixture
def take(site: Site) -> Iterator[Callable[..., Taken]]:
    with ExitStack() as closing:

        def taken(engine: KafkaEngine, *empty: str) -> Taken:
            cut = Taken(engine, *empty)
            closing.callback(cut.close)
            return cut

        yield taken


def test_a_cause_that_is_seen_late_is_waited_for(site: Site, take: Callable[..., Taken]) -> None:
    """The inbox has the message; its commit, and the event that took, come in by just as much."""
    engine = site.open()
    zero = Owner.of(engine)
    for number in (1, 2, 3):
        append(engine, numbered("gcs", [number]))
    zero.commit([record("d-1", "one")], events=1, **sends(zero, 1, 1))
    zero.commit([record("d-1", "two", 2)], events=1)
    cut = take(engine, "inbox-0", "changelog-0")
    assert cut.waits(1) == [f"{zero.claim.incarnation}>1"]
    assert cut.waits(0) == ["gcs.1"]
    assert cut.position(0) == 1
    assert cut.outboxes == {0: [], 1: []}


def test_causes_of_causes(site: Site, take: Callable[..., Taken]) -> None:
    """There and back again, and only the last inbox was seen at first."""
    engine = site.open()
    zero, one = owners(engine)
    append(engine, numbered("gcs", [1]))
    zero.commit(events=1, **sends(zero, 1, 1, count=2))
    one.commit(events=2, **sends(one, 0, 1))
    zero.commit(events=1, **sends(zero, 1, 3))
    append(engine, numbered("gcs", [2]))
    one.commit(events=1)
    cut = take(engine, "inbox-0", "changelog-0", "changelog-1")
    names = zero.claim.incarnation, one.claim.incarnation
    assert cut.waits(1) == [f"{names[0]}>{number}" for number in (1, 2, 3)]
    assert cut.waits(0) == ["gcs.1", f"{names[1]}>1"]
    assert [cut.position(number) for number in (0, 1)] == [2, 2]
    assert cut.outboxes == {0: [], 1: []}


def test_what_is_on_its_way_is_found_behind_the_inbox(
    site: Site, take: Callable[..., Taken]
) -> None:
    """Among what others have sent; repeats, and what was sent later, are not taken for it."""
    engine = site.open()
    zero = Owner.of(engine)
    zero.commit(**sends(zero, 1, 1, count=2))
    append(engine, numbered("gcs", [1, 2, 3]), 1)
    append(engine, messages(zero.claim.incarnation, 1, 2), 1)
    zero.commit(**sends(zero, 1, 3))
    append(engine, numbered("gcs", [4]), 1)
    cut = take(engine, "inbox-1")
    assert cut.waits(1) == []
    found = [(to, first, count) for to, first, count, _ in cut.outboxes[0]]
    assert found == [(1, 1, 2), (1, 3, 1)]
    assert take(engine).outboxes == {0: [], 1: []}


def test_under_traffic_ends_are_fixed_far_apart(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first and the last of them messages go around: causes are looked for."""
    engine = site.open(partitions=3)
    end_of, apply = engine._fleet.feed.acknowledged_end, Cut._apply_until_sent
    searches: list[int] = []
    asked: set[Place] = set()

    def slowly(place: Place) -> int:
        end = end_of(place)
        if ".inbox." in place.topic and place not in asked:
            time.sleep(0.25)
        asked.add(place)
        return end

    def watched(self: Cut, copy: Copy, destination: int, last: int) -> None:
        searches.append(destination)
        apply(self, copy, destination, last)

    monkeypatch.setattr(engine._fleet.feed, "acknowledged_end", slowly)
    monkeypatch.setattr(Cut, "_apply_until_sent", watched)
    traffic = Traffic(engine)

    def cut() -> None:
        deadline, rounds = time.monotonic() + patient(20.0), 0
        try:
            while rounds < 4 or (not searches and time.monotonic() < deadline):
                rounds += 1
                asked.clear()
                acknowledged = traffic.acknowledged
                contents = engine.capture()
                minted, held = count(contents)
                contents.close()
                assert acknowledged <= minted == held
        finally:
            traffic.over.set()

    together(cut, traffic.produce, *traffic.workers())
    assert searches, "nothing was tried"


def test_what_an_open_transaction_hides_is_in_it(site: Site) -> None:
    """It was acknowledged, so it is waited for; a transaction that is given up leaves nothing."""
    engine = site.open()
    place = engine._copies.inbox_of(0)
    producer = Producer({"bootstrap.servers": engine.settings.bootstrap, "transactional.id": "x"})
    producer.init_transactions(10.0)
    producer.begin_transaction()
    value, headers = pack_parcels([messages("nobody", 1, 1)])
    producer.produce(place.topic, value, partition=0, headers=headers)
    producer.flush(10.0)
    append(engine, numbered("gcs", [1]))
    assert engine.view(0).inbox_next() == 0, "nobody sees it yet"
    found: list[Contents] = []
    capturing = threading.Thread(target=lambda: found.append(engine.capture()))
    capturing.start()
    capturing.join(1.0)
    assert found == [], "it waits"
    producer.abort_transaction(10.0)
    capturing.join(30.0)
    (contents,) = found
    assert [t for f in contents.partitions[0].frames() for t in tags_of(f)] == ["gcs.1"]
    contents.close()


def test_a_message_that_nobody_has_sent_is_damage(site: Site) -> None:
    engine = site.open()
    zero = Owner.of(engine)
    append(engine, messages(zero.claim.incarnation, 1, 1), 1)
    with pytest.raises(DamagedData, match=r"changelog\.0, partition 0 ends too early"):
        engine.capture()


def test_topics_that_have_lost_their_end_are_damage(site: Site) -> None:
    """Copies that know more than the topics are not trusted, nor kept."""
    engine = site.open()
    engine.capture().close()
    engine._capturer._cut[0].mirror.inbox_sink.next_offset = 99
    with pytest.raises(DamagedData, match=r"inbox\.0, partition 0 ends too early, since records"):
        engine.capture()
    engine.capture().close()


def test_what_came_too_late_for_a_rescaling_is_waited_for(site: Site) -> None:
    """It was acknowledged, and stands in no inbox that is captured."""
    engine = site.open()
    place = engine._copies.inbox_of(0)
    rescale(engine, owners(engine), 1)
    value, headers = pack_parcels([numbered("late", [1])])
    engine._fleet.appender.write(*place, value, headers)
    with pytest.raises(Rescaling):
        engine.capture()
    Owner.of(engine, 2)
    engine.maintain()
    contents = engine.capture()
    assert [t for f in contents.partitions[0].frames() for t in tags_of(f)] == ["late.1"]
    contents.close()


def test_captures_go_on_where_the_last_one_was(site: Site) -> None:
    """Also where topics were cut behind a base copy meanwhile; older ones stay as they are."""
    engine, beside = site.open("a", retain_seconds=0.001), site.open("b", retain_seconds=0.001)
    owner = Owner.of(engine)
    captured = []
    for number in range(1, 7):
        append(engine, numbered("gcs", [number]))
        owner.commit([record("d-1", str(number), number)], events=1)
        if number % 2:
            engine.make_base_copies()
        captured.append(beside.capture())
    for number, contents in enumerate(captured, start=1):
        assert list(contents.partitions[0].records()) == [record("d-1", str(number), number)]
        contents.close()
    scratch = beside._copies.place.scratch
    beside.close()
    assert list(scratch.rglob("state.db")) == []
