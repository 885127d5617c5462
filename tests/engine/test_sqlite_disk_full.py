"""Goal: on a full disk there is a clear error, nothing acknowledged is lost, and with space again
everything goes on: appends, commits, rotation, creation.

A small tmpfs is filled for real. That needs the right to mount; without it the tests are skipped.
"""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.engine.port import Limits
from holdfast.engine.sqlite import inbox as inbox_module
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import create, discard, publish
from holdfast.engine.sqlite.segment import list_segments
from holdfast.engine.stamping import Instant, system_clock
from holdfast.engine.urls import open_engine
from holdfast.errors import DiskFull, HoldfastError, UsageError
from holdfast.model.schema import Field, Schema
from holdfast.runtime.worker import Worker
from holdfast.testing.conformance.workbench import (
    FLEET,
    Owner,
    append,
    inbox,
    messages,
    numbered,
    parcel,
    record,
    refusal,
)

DISK_BYTES = 6 * 1024 * 1024
LAST_BYTE = Limits(disk_reserve_bytes=1)  # let SQLite meet the end of the disk by itself


class Disk:
    """A small file system, and the ballast that fills it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def fill(self, leave: int = 0) -> None:
        with open(self._ballast, "ab") as file:
            while self.free > leave:
                try:
                    os.write(file.fileno(), bytes(min(self.free - leave, 64 * 1024)))
                except OSError:
                    break

    def empty(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield Disk(place)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def engine(disk: Disk) -> Iterator[SqliteEngine]:
    SqliteEngine.create(disk.path / "data", FLEET, 2)
    made = SqliteEngine(disk.path / "data", LAST_BYTE)
    yield made
    made.close()


def append_until_full(engine: SqliteEngine) -> list[str]:
    """Tags of what was acknowledged before the disk was full."""
    acknowledged: list[str] = []
    with pytest.raises(DiskFull, match=f"{engine.root}.*free some space"):
        for number in range(10_000):
            append(engine, numbered("gcs", [number]))
            acknowledged.append(f"gcs.{number}")
    return acknowledged


def test_appends_stop_and_go_on(disk: Disk, engine: SqliteEngine) -> None:
    append(engine, parcel(["warm"]))
    disk.fill(leave=500_000)
    acknowledged = append_until_full(engine)
    assert len(acknowledged) > 3
    for _ in range(3):
        with pytest.raises(DiskFull):
            append(engine, numbered("gcs", [len(acknowledged)]))
    assert inbox(engine) == ["warm", *acknowledged]
    again = SqliteEngine(engine.root, LAST_BYTE)
    assert inbox(again) == ["warm", *acknowledged]
    again.close()
    disk.empty()
    assert append(engine, numbered("gcs", [len(acknowledged)])).new == 1, "half of it was kept"
    assert append(engine, numbered("gcs", [0])).new == 0
    assert len(inbox(engine)) == len(acknowledged) + 2


def test_a_first_append_on_a_full_disk_says_so(disk: Disk, engine: SqliteEngine) -> None:
    """Not even its lock file can be written."""
    disk.fill()
    with pytest.raises(DiskFull):
        append(engine, numbered("gcs", [1]))
    disk.empty()
    other = SqliteEngine(engine.root, LAST_BYTE)
    assert append(other, numbered("gcs", [1])).new == 1, "the lock was never given back"
    other.close()


def test_commits_stop_and_go_on(disk: Disk, engine: SqliteEngine) -> None:
    owner = Owner.of(engine)
    owner.commit([record("d-0", "first")])
    disk.fill()
    states = [record(f"d-{n}", "x" * 1000, 2) for n in range(100)]
    prepared = owner.prepare(states)
    for _ in range(3):
        with pytest.raises(DiskFull, match=r"state\.db"):
            engine.commit([(owner.claim, prepared)])
        assert list(engine.view(0).records()) == [record("d-0", "first")]
    disk.empty()
    engine.commit([(owner.claim, prepared)])
    assert len(list(engine.view(0).records())) == 100


def test_a_claim_on_a_full_disk_says_so(disk: Disk, engine: SqliteEngine) -> None:
    disk.fill()
    with pytest.raises(DiskFull):
        Owner.of(engine)
    disk.empty()
    assert Owner.of(engine).claim.epoch == 1


def test_a_schema_that_does_not_fit_gets_no_id(disk: Disk, engine: SqliteEngine) -> None:
    wide = Schema("event", "Wide", tuple(Field(f"f{n}", "float", True) for n in range(2000)))
    disk.fill()
    with pytest.raises(DiskFull, match=r"fleet\.db"):
        engine.catalog.register([wide])
    assert engine.catalog.schemas() == {}
    disk.empty()
    assert engine.catalog.register([wide]) == {wide.fingerprint: 1}


def test_no_room_for_a_new_segment_does_not_fail_the_append(disk: Disk) -> None:
    """It is durable where it was. The old segment grows until there is room for a new one."""
    SqliteEngine.create(disk.path / "data", FLEET, 1)
    one = SqliteEngine(disk.path / "data", LAST_BYTE)
    # A ledger that takes some room: its copy does not fit into what is left below.
    one.append(0, [numbered(f"source-{source:03}", [1]) for source in range(1000)])
    one.close()
    engine = SqliteEngine(disk.path / "data", Limits(disk_reserve_bytes=1, segment_bytes=1))
    folder = disk.path / "data/p000/inbox"
    disk.fill(leave=100_000)
    assert append(engine, parcel(["fits"])).next == 1001
    assert len(list_segments(folder)) == 1, "there was room for a new segment"
    assert not list(folder.glob("*.new*")), "a half-made segment takes the last room"
    disk.empty()
    append(engine, parcel(["rotates"]))
    assert len(list_segments(folder)) == 2
    assert inbox(engine)[1000:] == ["fits", "rotates"]
    engine.close()


def test_a_fleet_cannot_be_made_on_a_full_disk_and_can_be_later(disk: Disk) -> None:
    disk.fill(leave=50_000)
    with pytest.raises(DiskFull):
        SqliteEngine.create(disk.path / "data", FLEET, 4)
    disk.empty()
    SqliteEngine.create(disk.path / "data", FLEET, 4)
    engine = SqliteEngine(disk.path / "data", LAST_BYTE)
    assert append(engine, parcel(["a"]), partition=3).next == 1
    engine.close()


def test_upkeep_on_a_full_disk_loses_nothing(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "SETTLED_SECONDS", -1.0)
    SqliteEngine.create(disk.path / "data", FLEET, 1)
    engine = SqliteEngine(disk.path / "data", Limits(disk_reserve_bytes=1, segment_bytes=200_000))
    owner = Owner.of(engine)
    for number in range(20):
        append(engine, parcel([f"{number}" * 20_000]))  # sealed files have to grow for them
    disk.fill()
    with pytest.raises(DiskFull):
        engine.maintain()
    disk.empty()
    assert len(inbox(engine)) == 20
    engine.maintain()
    owner.fold_all()
    assert len(inbox(engine)) == 20
    engine.close()


def test_the_reserve_stops_the_outside_before_messages(disk: Disk) -> None:
    SqliteEngine.create(disk.path / "data", FLEET, 1)
    reserve = 1024 * 1024
    engine = SqliteEngine(disk.path / "data", Limits(disk_reserve_bytes=reserve))
    append(engine, parcel(["warm"]))
    disk.fill(leave=reserve * 3 // 2)
    error = refusal(engine, parcel(["from outside"]))
    assert isinstance(error, DiskFull)
    assert f"the reserve is {2 * reserve:,}" in str(error)
    assert append(engine, messages("1-abc", 1, 1)).new == 1
    disk.fill(leave=reserve // 2)
    assert isinstance(refusal(engine, messages("1-abc", 2, 1)), DiskFull)
    disk.empty()
    assert append(engine, messages("1-abc", 2, 1)).new == 1
    assert inbox(engine) == ["warm", "1-abc>1", "1-abc>2"]
    engine.close()


def test_a_new_file_that_could_not_be_written_is_not_given_its_name(tmp_path: Path) -> None:
    """SQLite moves the WAL into the file when it is closed, and says nothing when that fails."""
    path = tmp_path / "new.seg"
    connection = create(path, "CREATE TABLE rows(row BLOB);")
    connection.execute("INSERT INTO rows VALUES(zeroblob(200000))")
    connection.execute("COMMIT; BEGIN")  # the rest of the disk is gone from here on
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(HoldfastError, match=r"new\.seg"):
            publish(connection, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    discard(connection, path)
    assert list(tmp_path.iterdir()) == []


class Grown(Event):
    text: str


class Diary(Agent):
    pages: list[str] = []

    @on
    def grow(self, event: Grown, ctx: Context) -> None:
        self.pages = [*self.pages, event.text]


def test_a_worker_waits_for_space_and_goes_on(disk: Disk) -> None:
    fleet = Fleet("diaries", agents=[Diary])
    url = f"sqlite:{disk.path / 'data'}?disk_reserve_bytes=1"
    ahead = [0.0]

    def clock() -> Instant:
        now = system_clock()
        return now._replace(wall=now.wall + ahead[0])

    engine = open_engine(url, fleet.name, create_partitions=1)
    worker = Worker(fleet, engine, [0], clock)
    worker.tick()
    live = fleet.connect(url)
    texts = [f"{n:04}" * 250 for n in range(300)]
    live.send_many([(Diary, f"k-{n}", Grown(text)) for n, text in enumerate(texts)])
    disk.fill()
    for _ in range(3):
        assert not worker.tick()
        assert "disk is full" in worker.alarms[0]
        assert live.positions()[0].folded == 0
        ahead[0] += 1.5  # its rest is over
    disk.empty()
    while worker.tick():
        pass
    assert live.positions()[0].lag == 0
    for number, text in enumerate(texts):
        state = live.state(Diary, f"k-{number}")
        assert state is not None
        assert state.pages == [text]
    live.close()
    engine.close()


def test_a_new_segment_that_cannot_be_made_does_not_fail_the_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason, no descriptors or no permission: it is durable where it was."""
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data", Limits(disk_reserve_bytes=1, segment_bytes=1))

    def refused(*_: object) -> None:
        raise UsageError("Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(inbox_module, "create_next", refused)
        assert append(engine, parcel(["a"])).next == 1
    append(engine, parcel(["b"]))
    assert inbox(engine) == ["a", "b"]
    engine.close()
