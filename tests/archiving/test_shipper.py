"""Goal: everything that is appended comes into the archive, once, whatever fails on the way."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast import Fleet, Live
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine, Granted, Limits
from holdfast.errors import DamagedData, Missing, Unreachable, WrongFleet
from holdfast.runtime.archiving import stream
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.archiving.objects import Picture, decode
from holdfast.runtime.archiving.shipper import ALARM_SECONDS, Shipper
from holdfast.runtime.embedded import Embedded
from tests.archiving.bots import Bot, Ping, Store, away, differences, fleet, rest


@pytest.fixture(params=["memory:", "sqlite:"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    """Every engine: the shipper reads through views only."""
    url = request.param + (str(tmp_path / "data") if request.param == "sqlite:" else "")
    with fleet.open(url, partitions=3) as opened:
        yield opened


def send(live: Live, count: int, first: int = 0) -> None:
    rows = [(Bot, f"b-{n % 11}", Ping(number=n)) for n in range(first, first + count)]
    for start in range(0, count, 7):
        live.send_many(rows[start : start + 7])


def engine_of(live: Live) -> Engine:
    return live._engine


def ship_all(shipper: Shipper) -> None:
    while shipper.tick():
        pass


def test_all_of_it_is_archived(live: Live) -> None:
    store = Store()
    shipper = Shipper(engine_of(live), store)
    for turn in range(5):
        send(live, 100, turn * 100)
        rest(live)
        ship_all(shipper)
        assert differences(engine_of(live), store) == []
    born = engine_of(live).view(0).incarnation()
    assert list(Archive(store).journal(born, 0)), "no timer fired: nothing was shown"
    assert Archive(store).folded(born) > 0
    puts = store.puts
    shipper.tick()
    assert store.puts == puts, "nothing was new"


def test_who_comes_after_a_kill_goes_on_where_the_archive_ends(live: Live) -> None:
    """A shipper keeps no notes, so a new one knows as much."""
    store = Store()
    for turn in range(5):
        send(live, 50, turn * 50)
        rest(live)
        Shipper(engine_of(live), store).tick()
    assert differences(engine_of(live), store) == []
    assert store.puts == len(store.objects), "something was put twice"


@pytest.mark.parametrize("seed", range(5))
def test_several_shippers_and_a_store_that_fails(live: Live, seed: int) -> None:
    """Shippers in any order, each killed and replaced now and then, cutting where they like; puts
    fail before and after they happen. No gap, no overlap, nothing twice."""
    chance = random.Random(seed)

    def fault() -> None:
        if chance.random() < 0.1:
            raise Unreachable("now and then")

    store = Store(fault)
    engine = engine_of(live)
    shippers = [Shipper(engine, store) for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        for turn in range(60):
            patch.setattr(stream, "EVENTS_PER_SHIPMENT", chance.choice([1, 10, 1_000]))
            if chance.random() < 0.5:
                send(live, chance.randrange(30), turn * 30)
            chosen = chance.randrange(3)
            if chance.random() < 0.2:
                shippers[chosen] = Shipper(engine, store)
            shippers[chosen].tick()
    store.fault = lambda: None
    rest(live)
    for shipper in shippers:
        ship_all(shipper)
        assert shipper.lag().events == 0
    assert differences(engine, store) == []


def test_a_shipment_is_bounded_and_the_rest_follows_at_once(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BYTES_PER_SHIPMENT", 600)
    send(live, 300)
    rest(live)
    store = Store()
    shipper = Shipper(engine_of(live), store)
    assert shipper.tick(), "more waits"
    assert shipper.lag().events > 0
    ship_all(shipper)
    assert differences(engine_of(live), store) == []
    for name in store.list("log"):
        runs = Archive(store).shipment(name).runs
        assert len(runs) == 1 or sum(len(run.frame) for run in runs) <= 600


def test_under_a_steady_load_it_does_not_ship_without_a_pause(live: Live) -> None:
    shipper = Shipper(engine_of(live), Store())
    for turn in range(3):
        send(live, 10, turn * 10)
        assert not shipper.tick(), "all was taken: the next object can wait for its time"


# The catalog.


def test_the_catalog_knows_what_the_log_has(live: Live) -> None:
    """Also if the disk is lost between any two puts: at each moment every schema is known."""
    engine = engine_of(live)
    store = Store()
    names: list[str] = []
    store.fault = lambda: names.extend(n for n in store.objects if n not in names)
    send(live, 30)
    Shipper(engine, store).tick()
    assert names[0].startswith("catalog/")
    catalog = Archive(store).catalog()
    assert catalog.fleet == "bots"
    assert catalog.layout == engine.catalog.layout
    assert catalog.schemas == engine.catalog.schemas()
    assert catalog.incarnations == {n: engine.view(n).incarnation() for n in range(3)}
    assert catalog.retired == {}


def test_the_catalog_is_put_again_when_it_has_changed(live: Live) -> None:
    engine, store = engine_of(live), Store()
    shipper = Shipper(engine, store)
    for turn in range(3):
        send(live, 30, turn * 30)
        shipper.tick()
        Shipper(engine, store).tick()
    assert list(store.list("catalog")) == ["catalog/00000001"]
    schema = next(iter(engine.catalog.schemas().values()))
    engine.catalog.register([type(schema)("event", "Newcomer", ())])
    send(live, 30)
    shipper.tick()
    assert list(store.list("catalog")) == ["catalog/00000001", "catalog/00000002"]
    newest = decode("x", store.objects["catalog/00000002"], Picture)
    assert any("Newcomer" in text for text in newest.schemas.values())


def test_a_rescaled_fleet_is_archived_on() -> None:
    """The old partitions to their end, the new ones from their beginning."""
    store = Store()
    engine = MemoryEngine("bots", 2)
    live = Live(fleet, engine, Embedded(fleet, engine))
    send(live, 40)
    rest(live)
    Shipper(engine, store).tick()
    send(live, 40)
    rest(live)
    assert live._embedded is not None
    live._embedded.stop()
    live._embedded = None
    engine._granted.clear()  # nobody folds any more
    grants = list(engine.assignments([0, 1], engine._partitions[0].generation))
    claims = [grant.claim for grant in grants if isinstance(grant, Granted)]
    for claim in claims:
        engine.close_intake(claim)
    engine.rescale(claims, 3)
    shipper = Shipper(engine, store)
    ship_all(shipper)
    assert differences(engine, store) == []
    assert sorted(Archive(store).catalog().incarnations) == [0, 1, 2, 3, 4]
    again = Live(fleet, engine, Embedded(fleet, engine))
    send(again, 40)
    rest(again)
    ship_all(shipper)
    assert differences(engine, store) == []
    again.close()


# Not into somebody else's archive.


def test_the_archive_of_another_fleet_is_refused(live: Live) -> None:
    store = Store()
    send(live, 5)
    Shipper(engine_of(live), store).tick()
    with (
        Fleet("others", agents=[Bot]).open("memory:") as others,
        pytest.raises(WrongFleet, match="is the archive of fleet 'bots', not 'others'"),
    ):
        Shipper(engine_of(others), store).prepare()


def test_the_archive_of_another_directory_is_refused(live: Live) -> None:
    store = Store()
    send(live, 5)
    Shipper(engine_of(live), store).tick()
    with (
        fleet.open("memory:") as twin,
        pytest.raises(WrongFleet, match="another directory of fleet 'bots'"),
    ):
        Shipper(engine_of(twin), store).prepare()


@pytest.mark.parametrize("later", [0, 20])
def test_a_directory_put_back_to_an_earlier_time_is_refused(later: int) -> None:
    """Its numbers are taken in the archive by what happened before: nothing must be mixed."""
    store = Store()
    engine = MemoryEngine("bots")
    live = Live(fleet, engine, Embedded(fleet, engine))
    send(live, 21)
    rest(live)
    part = engine._partitions[0]
    kept = list(part.inbox), part.next, part.stamp
    send(live, 21)
    rest(live)
    Shipper(engine, store).tick()
    with engine._partitions[0].whole:
        part.inbox, part.next, part.stamp = list(kept[0]), kept[1], kept[2]
        part.committed = part.committed._replace(position=part.next)
    live.close()
    engine._closed = engine.catalog.closed = False
    if later:
        again = Live(fleet, engine, Embedded(fleet, engine))
        send(again, 28, 1_000)
        rest(again)
    before = dict(store.objects)
    with pytest.raises(WrongFleet, match="another history of partition 0"):
        Shipper(engine, store).prepare()
    shipper = Shipper(engine, store)
    shipper.tick()
    assert "archive it to another place" in shipper.trouble
    assert store.objects == before
    engine._closed = False
    if later:
        again.close()


# A store that is away.


def test_a_store_that_is_away_is_told_once_and_then_now_and_then(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    store = Store()
    engine = engine_of(live)
    shipper = Shipper(engine, store, clock=lambda: now)
    send(live, 10)
    rest(live)
    stamp = max(frame.stamp for n in range(3) for frame in engine.view(n).frames(0, 100))
    now = stamp + 1.0
    shipper.tick()
    assert caplog.records == []
    send(live, 33)
    rest(live)
    store.fault = away
    now = stamp + 100.0
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            shipper.tick()
            now += 0.1
        assert len(caplog.records) == 1
        assert "away: 33 events of the last" in caplog.records[0].message
        assert shipper.trouble
        now += ALARM_SECONDS
        shipper.tick()
        assert len(caplog.records) == 2
        store.fault = lambda: None
        ship_all(shipper)
    assert [record.message for record in caplog.records[2:]] == [
        "the archive goes on: 0 events of the last 0 s are not archived"
    ]
    assert not shipper.trouble
    assert differences(engine, store) == []


def test_trouble_of_one_partition_does_not_hold_up_the_others(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    engine = engine_of(live)
    shipper = Shipper(engine, store)
    shipper.prepare()
    usual = store.put_if_absent
    bad = engine.view(0).incarnation()

    def put(name: str, data: bytes) -> bool:
        if bad in name:
            raise Unreachable("not this one")
        return usual(name, data)

    monkeypatch.setattr(store, "put_if_absent", put)
    send(live, 100)
    rest(live)
    shipper.tick()
    assert shipper.trouble == "not this one"
    for number in (1, 2):
        view = engine.view(number)
        assert list(Archive(store).frames(view.incarnation(), 0)) == view.frames(0, 10_000)
    monkeypatch.setattr(store, "put_if_absent", usual)
    ship_all(shipper)
    assert differences(engine, store) == []


def test_a_partition_that_cannot_be_read_does_not_hold_up_the_others(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, store = engine_of(live), Store()
    shipper = Shipper(engine, store)
    shipper.prepare()

    def damaged(first: int, most: int) -> NoReturn:
        raise DamagedData("a segment is damaged")

    send(live, 100)
    rest(live)
    with monkeypatch.context() as patch:
        patch.setattr(engine.view(0), "frames", damaged)
        shipper.tick()
        assert shipper.trouble == "a segment is damaged"
        for number in (1, 2):
            view = engine.view(number)
            assert list(Archive(store).frames(view.incarnation(), 0)) == view.frames(0, 10_000)
    ship_all(shipper)
    assert differences(engine, store) == []


# Retention.


def test_what_retention_took_is_a_gap_that_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The memory engine does not hold retention back: as an engine past its bound of bytes."""
    store = Store()
    engine = MemoryEngine("bots", 1, Limits(retain_bytes=1))
    live = Live(fleet, engine, Embedded(fleet, engine))
    view = engine.view(0)
    send(live, 21)
    rest(live)
    shipper = Shipper(engine, store)
    ship_all(shipper)
    reached = view.inbox_next()
    send(live, 70)
    rest(live)
    engine.maintain()
    send(live, 7)
    rest(live)
    first = view.inbox_first()
    assert first > reached, "nothing is missing: nothing is shown"
    with caplog.at_level(logging.ERROR):
        ship_all(shipper)
    assert f"log {reached} to {first} are lost for the archive" in caplog.text
    archive = Archive(store)
    with pytest.raises(Missing, match=f"events {reached} to {first} of .* retention removed"):
        list(archive.frames(view.incarnation(), 0))
    assert list(archive.frames(view.incarnation(), first)) == view.frames(first, 1_000)
    live.close()


def test_an_archive_that_begins_late_begins_with_what_is_kept() -> None:
    engine = MemoryEngine("bots", 1, Limits(retain_bytes=1))
    live = Live(fleet, engine, Embedded(fleet, engine))
    send(live, 70)
    rest(live)
    engine.maintain()
    send(live, 7)
    rest(live)
    store = Store()
    ship_all(Shipper(engine, store))
    assert Archive(store).reach("log", engine.view(0).incarnation()) is not None
    assert differences(engine, store) == []
    live.close()
