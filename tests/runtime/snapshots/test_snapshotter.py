"""Goal: snapshots come when they are due, never take more than their share of the time, come more
rarely where they slow the commits down, and trouble with them is the fleet's trouble in no way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, UsageError, on
from holdfast.blob.files import FileBlob
from holdfast.engine.memory import MemoryEngine
from holdfast.errors import Busy, Unreachable
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.restoring import verify
from holdfast.runtime.snapshots.retention import Keeping
from holdfast.runtime.snapshots.snapshotter import RETRY_SECONDS, STRETCH_MAX, Pace, Snapshotter
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.testing.conformance.workbench import Owner, append, numbered
from tests.runtime.semantics import until


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A fleet folded by hand, a snapshotter ticked by hand, and time that passes by hand."""

    def __init__(self, folder: Path, pace: Pace) -> None:
        self.time = Time()
        self.engine = MemoryEngine("bench", 1)
        self.store = SnapshotStore(FileBlob(folder))
        self.owner = Owner.of(self.engine)
        self.sent = 0
        self.takes = 1.0  # seconds
        self.during: Callable[[], None] = lambda: None
        self.snapshotter = Snapshotter(
            self.engine, self.store, pace, self.time, wall=lambda: 1e9 + self.time.now
        )
        run = self.snapshotter._creation.run

        def slow(name: str | None = None) -> object:
            self.during()
            made = run(name)
            self.time.now += self.takes
            return made

        self.snapshotter._creation.run = slow  # type: ignore[assignment]

    def fold(self, events: int, commits: int = 1) -> None:
        for _ in range(commits):
            append(self.engine, numbered("gcs", range(self.sent, self.sent + events)))
            self.sent += events
            self.owner.fold_all()

    def after(self, seconds: float) -> bool:
        self.time.now += seconds
        return self.snapshotter.tick()

    @property
    def count(self) -> int:
        return len(self.store.listed())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, Pace(events=100, seconds=300.0, keeping=Keeping(1000, 0)))
    made.fold(1)
    assert made.after(0.0)  # what is there when it starts
    yield made
    made.engine.close()


def test_after_so_many_events(bench: Bench) -> None:
    bench.fold(99)
    assert not bench.after(30.0)
    bench.fold(1)
    assert bench.after(0.5)
    assert not bench.after(30.0)


def test_after_so_much_time_if_anything_changed(bench: Bench) -> None:
    assert not bench.after(1_000.0)
    bench.fold(1)
    assert bench.after(0.5)
    bench.fold(1)
    assert not bench.after(298.0)
    assert bench.after(2.0)


def test_nothing_new_since_an_earlier_run_needs_no_snapshot(bench: Bench) -> None:
    again = Snapshotter(bench.engine, SnapshotStore(bench.store.blob), Pace(), bench.time)
    assert not again.tick()
    bench.fold(100_000)
    assert again.tick()


def test_it_works_for_a_share_of_the_time(bench: Bench) -> None:
    """However many events come: a snapshot of a second is followed by 19 seconds of rest."""
    bench.time.now += 30.0
    start, at_work = bench.time.now, 0.0
    while bench.time.now < start + 1_000.0:
        bench.fold(1_000)
        if bench.after(0.25):
            at_work += bench.takes
    assert 0.03 < at_work / (bench.time.now - start) <= 0.05


def test_the_interval_stretches_where_commits_slow_down(bench: Bench) -> None:
    """Before: ten commits a second. During the snapshot: one, and events wait."""
    bench.takes = 1.0

    def backlog() -> None:
        bench.fold(1)
        append(bench.engine, numbered("gcs", range(bench.sent, bench.sent + 1)))
        bench.sent += 1

    bench.during = backlog
    for _ in range(6):
        bench.fold(500, commits=400)
        assert bench.after(40.0)
    assert bench.snapshotter.stretch == STRETCH_MAX
    bench.fold(100)
    assert not bench.after(40.0)  # enough events usually, not now
    bench.during = lambda: None
    bench.owner.fold_all()
    bench.fold(2_000)
    assert bench.after(40.0)
    assert bench.snapshotter.stretch == STRETCH_MAX / 2


def test_trouble_is_ridden_out(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def unreachable() -> None:
        nonlocal calls
        calls += 1
        raise Unreachable("s3://x: no answer: check endpoint and network")

    bench.during = unreachable
    bench.fold(1_000)
    assert not bench.after(30.0)
    assert not bench.after(1.0)
    assert calls == 1
    assert not bench.after(RETRY_SECONDS)
    assert calls == 2
    assert len([line for line in caplog.messages if "no snapshot" in line]) == 1
    bench.during = lambda: None
    assert bench.after(RETRY_SECONDS)
    assert bench.snapshotter.trouble is None


def test_data_that_cannot_be_read_for_a_moment_is_no_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(partition: int) -> object:
        raise Busy("state.db: locked by another process for too long: try again")

    with monkeypatch.context() as patch:
        patch.setattr(bench.engine, "view", locked)
        assert not bench.after(1_000.0)
    assert bench.snapshotter.trouble is not None
    bench.fold(100)
    assert bench.after(1_000.0)
    assert bench.snapshotter.trouble is None


def test_old_ones_go(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Pace(events=1, keeping=Keeping(3, 0)))
    for _ in range(6):
        bench.fold(1)
        assert bench.after(60.0)
        assert bench.count <= 3
    Creation(bench.engine, bench.store).run("release")
    for _ in range(4):
        bench.fold(1)
        bench.after(60.0)
    assert "release" in [listed.name for listed in bench.store.listed()]
    assert bench.count == 4


@pytest.mark.parametrize(
    ("old", "new"), [(b"HFSN", b"XXXX"), (b"HFSN\x01", b"HFSN\x09")], ids=["damaged", "newer"]
)
def test_one_that_cannot_be_read_is_no_obstacle(tmp_path: Path, old: bytes, new: bytes) -> None:
    bench = Bench(tmp_path, Pace(events=1, keeping=Keeping(3, 0)))
    bench.fold(1)
    assert bench.after(60.0)
    (name,) = bench.store.blob.list("snapshots")
    data = bench.store.blob.get(name)
    bench.store.blob.delete(name)
    bench.store.blob.put_if_absent(name, data.replace(old, new, 1))
    again = SnapshotStore(bench.store.blob)  # as after a restart, when nothing is remembered
    pace = Pace(events=1, keeping=Keeping(3, 0))
    snapshotter = Snapshotter(bench.engine, again, pace, bench.time)
    for _ in range(6):
        bench.fold(1)
        bench.time.now += 60.0
        assert snapshotter.tick(), snapshotter.trouble
    assert bench.count == 1 + 3, "it is left for somebody to look at, and the others come and go"
    assert name in bench.store.blob.list("snapshots")


def test_a_rescaled_fleet_has_a_snapshot_at_once(bench: Bench) -> None:
    bench.engine.close_intake(bench.owner.claim)
    bench.owner.fold_all()
    bench.engine.rescale([bench.owner.claim], 2)
    assert bench.after(30.0)
    newest = bench.store.newest()
    assert newest is not None
    assert len(newest.partitions) == 2


# On a thread of fleet.open.


class Ping(Event):
    pass


class Counter(Agent):
    count: int = 0

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        self.count += 1


fleet = Fleet("counters", agents=[Counter])


@pytest.mark.parametrize("url", ["memory:", "sqlite:"])
def test_beside_an_open_fleet(tmp_path: Path, url: str) -> None:
    place = url if url == "memory:" else f"sqlite:{tmp_path / 'data'}"
    store = SnapshotStore(FileBlob(tmp_path / "snapshots"))
    with fleet.open(place, snapshots=f"file:{tmp_path / 'snapshots'}") as live:
        live.send(Counter, "c-1", Ping())
        until(store.listed, "a snapshot is there")
    verify(store, store.listed()[-1].name, "counters")


def test_a_wrong_place_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown store"):
        fleet.open(f"sqlite:{tmp_path / 'data'}", snapshots="ftp://x")
    with fleet.open(f"sqlite:{tmp_path / 'data'}"):
        pass  # nothing holds it
