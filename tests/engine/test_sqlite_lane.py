"""Goal: what waits in the lane outlives the segment it came to, and a loss of it is noticed."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import open_existing
from holdfast.engine.sqlite.segment import is_new, list_segments
from holdfast.errors import DamagedData
from holdfast.stepping.lane import LANE
from holdfast.testing.conformance.lanes import fold_urgent, lane, mixed, urgent
from holdfast.testing.conformance.workbench import FLEET, HandClock, Owner, append, inbox, parcel

EVERY_APPEND_ROTATES = 1
DAY = 24 * 3600.0


@pytest.fixture
def clock() -> HandClock:
    return HandClock(wall=time.time())  # ages of files are compared with it


def opened(root: Path, clock: HandClock, **limits: float) -> SqliteEngine:
    bounds = Limits(segment_bytes=EVERY_APPEND_ROTATES, **limits)  # type: ignore[arg-type]
    return SqliteEngine(root, bounds, clock)


@pytest.fixture
def engine(tmp_path: Path, clock: HandClock) -> Iterator[SqliteEngine]:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    with closing(opened(tmp_path / "data", clock)) as engine:
        yield engine


def names(engine: SqliteEngine) -> list[str]:
    return [str(name) for name in list_segments(engine.root / "p000/inbox")]


def test_every_new_segment_begins_with_what_waits(engine: SqliteEngine, clock: HandClock) -> None:
    owner = Owner.of(engine)
    for number in range(5):
        append(engine, mixed("gcs", 2 * number + 1, "-u"))
    assert len(names(engine)) == 6
    fold_urgent(owner, 3)
    append(engine, parcel(["z"]))
    again = opened(engine.root, clock)
    for each in (engine, again):
        assert lane(each, 3) == ["gcs.8", "gcs.10"]
        assert inbox(each) == ["gcs.1", "gcs.3", "gcs.5", "gcs.7", "gcs.9", "z"]
    assert append(again, mixed("gcs", 1, "-u-u-u-u-u")).new == 0
    again.close()


def test_segments_of_urgent_events_alone(engine: SqliteEngine, clock: HandClock) -> None:
    """Each begins at the same position: their numbers tell which is the newest."""
    owner = Owner.of(engine)
    for tag in "abc":
        append(engine, urgent(tag))
    append(engine, parcel(["x"]))
    append(engine, urgent("d"))
    assert lane(engine) == ["a", "b", "c", "d"]
    assert inbox(engine) == ["x"]
    fold_urgent(owner, 2)
    owner.fold_all()
    again = opened(engine.root, clock)
    assert Owner.of(again).head == owner.head
    assert lane(again, 2) == ["c", "d"]
    assert append(again, parcel(["y"])).next == 2
    assert append(again, urgent("e")).next == LANE + 5
    assert (inbox(again), lane(again, 2)) == (["x", "y"], ["c", "d", "e"])
    again.close()


def test_retention_leaves_what_waits(engine: SqliteEngine, clock: HandClock) -> None:
    owner = Owner.of(engine)
    for number in range(4):
        append(engine, mixed("gcs", 2 * number + 1, "-u"))
    owner.fold_all()
    before = len(names(engine))
    clock.pass_time(30 * DAY)
    engine.maintain()
    assert len(names(engine)) < before
    assert lane(engine) == ["gcs.2", "gcs.4", "gcs.6", "gcs.8"]
    fold_urgent(owner, 4)
    append(engine, parcel(["later"]))
    again = opened(engine.root, clock)
    assert Owner.of(again).head.urgent == 4
    assert lane(again, 4) == []
    again.close()


def test_what_waits_past_retention_makes_no_segments(
    engine: SqliteEngine, clock: HandClock
) -> None:
    """It would stand in each of them anew, at every turn of upkeep."""
    Owner.of(engine)
    append(engine, urgent("u"))
    clock.pass_time(30 * DAY)
    engine.maintain()
    before = names(engine)
    engine.maintain()
    assert names(engine) == before
    assert lane(engine) == ["u"]


def test_an_inbox_of_urgent_events_alone_is_not_new(tmp_path: Path, clock: HandClock) -> None:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    with closing(SqliteEngine(tmp_path / "data", clock=clock)) as engine:
        (name,) = names(engine)
        path = engine.root / "p000/inbox" / name
        assert is_new(path)
        append(engine, urgent("u"))
        assert not is_new(path)


def test_an_urgent_event_that_is_lost_is_missed(engine: SqliteEngine, clock: HandClock) -> None:
    """Whoever would fold on says so: nothing else knows that it was acknowledged."""
    for tag in "abc":
        append(engine, urgent(tag))
    engine.close()
    path = engine.root / "p000/inbox" / names(engine)[-1]
    connection = open_existing(path)
    connection.execute("DELETE FROM frames WHERE first = ?", (LANE,))
    connection.close()
    with (
        closing(opened(engine.root, clock)) as again,
        pytest.raises(DamagedData, match="are missing"),
    ):
        Owner.of(again)


@pytest.mark.parametrize("lost", [1, 2], ids=["between others", "the last"])
def test_a_reader_misses_an_urgent_event_that_is_lost(
    engine: SqliteEngine, clock: HandClock, lost: int
) -> None:
    for tag in "abc":
        append(engine, urgent(tag))
    engine.close()
    connection = open_existing(engine.root / "p000/inbox" / names(engine)[-1])
    connection.execute("DELETE FROM frames WHERE first = ?", (LANE + lost,))
    connection.close()
    with closing(opened(engine.root, clock)) as again, pytest.raises(DamagedData):
        again.read(0, LANE + lost - 1, 10)


def test_a_wal_that_ends_before_an_urgent_event_is_missed(tmp_path: Path) -> None:
    root, torn = tmp_path / "own", tmp_path / "torn"
    SqliteEngine.create(root, FLEET, 1)
    with closing(SqliteEngine(root)) as engine:
        append(engine, parcel(["a"]))
        wal = root / "p000/inbox" / f"{names(engine)[-1]}-wal"
        before = wal.read_bytes()
        append(engine, urgent("u"))
        shutil.copytree(root, torn)
    (torn / wal.relative_to(root)).write_bytes(before)
    for shared in torn.rglob("*-shm"):
        shared.unlink()
    missed = pytest.raises(DamagedData, match="2 was acknowledged")
    with closing(SqliteEngine(torn)) as engine, missed:
        engine.view(0).inbox_next()
