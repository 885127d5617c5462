"""Goal: the rows of a view are what its class makes of everything that is committed, each input
once and in order, in memory and in files, over restarts, rescaling and retention."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast import About, GiveUp, Live, Row, TimedOut, View, on
from holdfast.engine.port import Limits
from holdfast.engine.sqlite import engine as sqlite_engine
from holdfast.engine.sqlite.files import open_existing
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.viewing import folding, rowfile
from holdfast.runtime.viewing.reading import StoredView
from holdfast.runtime.viewing.running import Runner
from tests.engine.test_sqlite_removals import MOMENTS, Meanwhile
from tests.run.speed import patient
from tests.runtime.semantics import World, opened
from tests.seeds import seeds
from tests.view.zones import Battery, Drone, Rest, Sent, Zone, ZoneLoad, expected, fleet

DAY = 24 * 3600.0


def stream(chance: random.Random, count: int) -> Sent:
    return [
        (
            f"d-{chance.randrange(20)}",
            Battery(zone=f"z-{chance.randrange(5)}", percent=chance.randrange(100)),
        )
        for _ in range(count)
    ]


def send(live: Live, sent: Sent) -> None:
    for at in range(0, len(sent), 70):
        live.send_many([(Drone, key, event) for key, event in sent[at : at + 70]])


def caught_up(live: Live) -> dict[str, Zone]:
    live.settle()
    live.view(ZoneLoad).catch_up()
    return live.view(ZoneLoad).rows()


@pytest.fixture(params=seeds(1, 8))
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_rows_are_what_the_stream_makes(
    engine: str, tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "INPUTS_PER_COMMIT", 50)
    monkeypatch.setattr(folding, "ROWS_IN_MEMORY", 3)
    sent = stream(chance, 1_000)
    url = "memory:" if engine == "memory" else f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=3) as live:
        send(live, sent)
        assert caught_up(live) == expected(sent)
        assert sum(live.view(ZoneLoad).positions().values()) == len(sent)


def test_a_view_goes_on_where_it_was(tmp_path: Path, chance: random.Random) -> None:
    sent = stream(chance, 400)
    url = f"sqlite:{tmp_path / 'data'}"
    for at in range(0, len(sent), 100):
        with fleet.open(url, partitions=2) as live:
            send(live, sent[at : at + 100])
            if at % 200:
                caught_up(live)  # otherwise it is left behind
    with fleet.open(url) as live:
        assert caught_up(live) == expected(sent)


def test_timers_are_inputs_too(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        live.send_many([(Drone, f"d-{i}", Rest(zone="north")) for i in range(7)])
        deadline = time.monotonic() + patient(20.0)
        while (row := live.view(ZoneLoad).get("north")) is None or row.rested < 7:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert caught_up(live)["north"].rested == 7


def test_a_receipt_is_waited_for(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        view = live.view(ZoneLoad)
        for n in range(1, 30):
            low = Battery(zone="north", percent=1)
            receipt = live.send(Drone, f"d-{n}", low)
            row = view.get("north", after=receipt)
            assert row is not None
            assert (row.events, row.landed) == (n, n)


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=50))
        caught_up(live)
    with fleet.connect(url) as live:
        row = live.view(ZoneLoad).get("north", after=receipt)
        assert row is not None
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=50))
        with pytest.raises(TimedOut, match="does a worker run"):
            live.view(ZoneLoad).get("north", after=receipt, timeout=0.1)
        assert live.view(ZoneLoad).standing().doing == "nobody folds it"


def test_rescaling_neither_loses_nor_doubles(tmp_path: Path, chance: random.Random) -> None:
    """An agent's inputs stay in order: those in the old partition are folded first."""
    sent = stream(chance, 600)
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=2) as live:
        send(live, sent[:200])
        caught_up(live)
        send(live, sent[200:400])
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        send(live, sent[400:])
        assert caught_up(live) == expected(sent)
        live.view(ZoneLoad).rebuild()
        again = live.view(ZoneLoad)
        deadline = time.monotonic() + patient(20.0)
        while again.standing().doing != "folds" or "000001.db" in served(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert again.rows() == expected(sent)


def served(folder: Path) -> set[str]:
    return {each.name for each in (folder / "data" / "views" / "ZoneLoad").iterdir()}


# ---------------------------------------------------------------- past retention


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Every append has a segment of its own, and retention keeps a day."""
    monkeypatch.setattr(sqlite_engine, "FORGET_EVERY_SECONDS", -1.0)  # at every upkeep
    limits = Limits(segment_bytes=1, retain_seconds=DAY, disk_reserve_bytes=1)
    with opened(fleet, "sqlite", tmp_path, limits=limits) as world:
        world.clock.wall = time.time()  # ages of files are compared with it
        yield world


def batteries(world: World, *percents: int) -> None:
    for n in percents:
        world.live.send(Drone, "d-1", Battery(zone="north", percent=n))
    world.run()


def turn(runner: Runner) -> None:
    while runner.tick():
        pass


def test_a_gap_stops_a_view_and_a_rebuild_begins_behind_it(world: World, tmp_path: Path) -> None:
    runner = Runner(world.engine, ZoneLoad, tmp_path / "views")
    stored = StoredView(world.engine, tmp_path / "views", "ZoneLoad")
    batteries(world, 50, 60)
    turn(runner)
    batteries(world, 70, 80, 90)
    world.pass_time(2 * DAY)
    world.engine.maintain()
    batteries(world, 99)
    turn(runner)
    standing = stored.standing()
    assert standing.doing == "stopped"
    assert standing.why.startswith(
        "events 2 to 4 of partition 0 went past retention before view ZoneLoad had them: "
        "`holdfast view rebuild ZoneLoad`"
    )
    with pytest.raises(GiveUp, match="view ZoneLoad has stopped: events 2 to 4"):
        stored.catch_up()
    stored.ask_for_rebuild()
    turn(runner)
    standing = stored.standing()
    assert (standing.doing, standing.missing, standing.waiting) == ("folds", 5, 0)
    ((_, north),) = stored.rows().rows
    assert b"last" not in north  # rows are arrays
    batteries(world, 98)
    turn(runner)
    assert stored.standing().rows == 1
    assert stored.positions() == {0: 7}
    runner.close()
    stored.close()


# ---------------------------------------------------------------- what is refused


class Count(Row):
    n: int = 0


def test_a_failing_fold_stops_the_view_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Picky(View[Count]):
        @on
        def drained(self, event: Battery, about: About) -> None:
            self["all"].n += 1
            if event.percent == 13:
                raise ValueError("unlucky")

    both = type(fleet)("zones", agents=[Drone], views=[Picky, ZoneLoad])
    with both.open(f"sqlite:{tmp_path / 'data'}") as live:
        first = live.send(Drone, "d-1", Battery(zone="north", percent=50))
        live.view(Picky).get("all", after=first)
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=13))
        text = (
            r"view Picky failed at Battery of Drone/d-1 \(partition 0, position 1\): "
            "ValueError: unlucky: mend its code"
        )
        with pytest.raises(GiveUp, match=text):
            live.view(Picky).get("all", after=receipt)
        row = live.view(Picky).get("all")
        assert row is not None
        assert row.n == 1  # the failing one left nothing behind
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=14))
        assert live.state(Drone, "d-1", after=receipt).seen == 3
        north = live.view(ZoneLoad).get("north", after=receipt)
        assert north is not None
        assert north.events == 3


def test_a_commit_that_stands_is_not_folded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind it the file is tidied, and the disk has no room for that."""

    class NoRoom:
        def __init__(self, connection: apsw.Connection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

        def wal_checkpoint(self, **_: object) -> None:
            raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(rowfile, "WAL_BYTES_MAX", -1)
    monkeypatch.setattr(rowfile, "open_existing", lambda *a, **k: NoRoom(open_existing(*a, **k)))
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        for percent in (9, 8, 7):
            receipt = live.send(Drone, "d-1", Battery(zone="north", percent=percent))
            north = live.view(ZoneLoad).get("north", after=receipt)
        assert north is not None
        assert north.events == 3


def test_bounds_stop_a_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "ROWS_PER_VIEW_MAX", 2)
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        for zone in ("a", "b"):
            live.send(Drone, "d-1", Battery(zone=zone, percent=50))
        assert set(caught_up(live)) == {"a", "b"}
        receipt = live.send(Drone, "d-1", Battery(zone="c", percent=50))
        with pytest.raises(GiveUp, match="it has 3 rows, 2 is the bound"):
            live.view(ZoneLoad).get("c", after=receipt)
    monkeypatch.setattr(folding, "ROW_BYTES_MAX", 10)
    with fleet.open(f"sqlite:{tmp_path / 'other'}") as live:
        receipt = live.send(Drone, "d-1", Battery(zone="c", percent=50))
        with pytest.raises(GiveUp, match=r"row 'c' has \d+ bytes, 10 is the bound"):
            live.view(ZoneLoad).get("c", after=receipt)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_reader_finds_the_file_that_took_the_place_of_its_own(
    world: World, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild ends, and removes the file before, while somebody opens that."""
    runner = Runner(world.engine, ZoneLoad, tmp_path / "views")
    batteries(world, 50, 60)
    turn(runner)
    reader = StoredView(world.engine, tmp_path / "views", "ZoneLoad")

    def rebuild() -> None:
        reader.ask_for_rebuild()
        turn(runner)

    meanwhile = Meanwhile(monkeypatch, moment, "000001.db")
    meanwhile.happens(rebuild)
    assert reader.positions() == {0: 2}
    assert meanwhile.happened
    assert [path.name for path in tmp_path.rglob("*.db") if "views" in path.parts] == ["000002.db"]
    runner.close()
    reader.close()
