"""Goal: whatever is wrong with a snapshot, its store or the place it is restored to, there is one
line that says it, and nothing half-made is left that anybody could take for whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.blob.files import FileBlob
from holdfast.blob.urls import open_blob
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.planting import beside
from holdfast.errors import (
    AccessDenied,
    DamagedData,
    DiskFull,
    HoldfastError,
    InUse,
    NewerFormat,
    Unreachable,
    UsageError,
    WrongFleet,
)
from holdfast.runtime.snapshots.backing import Request, restore_to
from holdfast.runtime.snapshots.creating import Creation, Memory
from holdfast.runtime.snapshots.restoring import restore, verify
from holdfast.runtime.snapshots.store import SnapshotStore
from tests.cli.commands import SCRIPT
from tests.engine.test_sqlite_disk_full import Disk, disk
from tests.runtime.snapshots.convoy import KEYS, Load, Truck, create, fleet, picture
from tests.servers.seaweed import READER, WRITER, Seaweed

__all__ = ["disk"]


class Ping(Event):
    pass


class Other(Agent):
    @on
    def ping(self, event: Ping, ctx: Context) -> None: ...


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        live.send_many([(Truck, key, Load(tokens=1)) for key in KEYS])
        live.settle()
    return tmp_path / "data"


@pytest.fixture
def store(data: Path, tmp_path: Path) -> SnapshotStore:
    made = SnapshotStore(FileBlob(tmp_path / "snapshots"))
    create(data, made, "here")
    return made


def refused(kind: type[HoldfastError], act: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        act()
    line = str(caught.value)
    assert "\n" not in line
    assert ": " in line
    return line


def nothing_left(root: Path) -> None:
    assert not root.exists() or not list(root.iterdir())
    assert not beside(root).exists()


def chunks(store: SnapshotStore) -> list[str]:
    return list(store.blob.list("chunks"))


def spoil(store: SnapshotStore, name: str, change: Callable[[bytes], bytes | None]) -> None:
    data = change(store.blob.get(name))
    store.blob.delete(name)
    if data is not None:
        store.blob.put_if_absent(name, data)


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda data: None, "is missing"), (flipped, "has a wrong checksum")],
    ids=["missing", "flipped"],
)
def test_a_chunk(
    store: SnapshotStore, tmp_path: Path, change: Callable[[bytes], bytes | None], words: str
) -> None:
    for name in chunks(store):
        kept = store.blob.get(name)
        spoil(store, name, change)
        for act in (
            lambda: restore(store, "here", tmp_path / "there"),
            lambda: verify(store, "here"),
        ):
            line = refused(DamagedData, act)
            assert words in line
            assert "snapshot here" in line
        nothing_left(tmp_path / "there")
        store.blob.delete(name)
        store.blob.put_if_absent(name, kept)
    verify(store, "here")


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_manifest_cut_short(data: Path, store: SnapshotStore, tmp_path: Path, cut: int) -> None:
    (name,) = store.blob.list("snapshots")
    spoil(store, name, lambda manifest: manifest[:cut])
    line = refused(DamagedData, lambda: restore(store, "here", tmp_path / "there"))
    assert "damaged" in line
    nothing_left(tmp_path / "there")
    create(data, store, "next")  # a damaged one is no obstacle for the next
    restore(store, "next", tmp_path / "there")
    assert picture(tmp_path / "there") == picture(data)


def test_a_newer_format(store: SnapshotStore, tmp_path: Path) -> None:
    (name,) = store.blob.list("snapshots")
    spoil(store, name, lambda manifest: manifest.replace(b"HFSN\x01", b"HFSN\x09", 1))
    line = refused(NewerFormat, lambda: restore(store, "here", tmp_path / "there"))
    assert "format 9, this release reads 1" in line
    nothing_left(tmp_path / "there")


def test_another_fleet(data: Path, store: SnapshotStore, tmp_path: Path) -> None:
    other = Fleet("other", agents=[Other])
    with other.open(f"sqlite:{tmp_path / 'other'}"):
        pass
    line = refused(WrongFleet, lambda: create(tmp_path / "other", store, "mine"))
    assert "is of fleet 'convoy', not 'other'" in line
    request = Request(tmp_path / "there", "here", fleet=other)
    refused(WrongFleet, lambda: restore_to(store, request))
    refused(WrongFleet, lambda: verify(store, "here", "other"))
    nothing_left(tmp_path / "there")


def test_no_such_snapshot(store: SnapshotStore, tmp_path: Path) -> None:
    line = refused(UsageError, lambda: restore(store, "there", tmp_path / "there"))
    assert "there is no snapshot there" in line
    empty = SnapshotStore(FileBlob(tmp_path / "empty"))
    assert "no snapshots" in refused(
        UsageError, lambda: restore_to(empty, Request(tmp_path / "there"))
    )


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(store: SnapshotStore, tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    restore(store, "here", tmp_path / "link")
    assert (tmp_path / "disk" / "fleet.db").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_place_that_is_not_empty(data: Path, store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    for root in (data, tmp_path / "full"):
        assert "is not empty" in refused(UsageError, partial(restore, store, "here", root))
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(UsageError, lambda: restore(store, "here", tmp_path / "file"))
    (tmp_path / "empty").mkdir()
    restore(store, "here", tmp_path / "empty")
    assert picture(tmp_path / "empty") == picture(data)


def test_two_who_restore_to_one_place(store: SnapshotStore, tmp_path: Path) -> None:
    root = tmp_path / "there"

    def meanwhile(name: str) -> None:
        if name == "plant.inside":
            refused(InUse, lambda: restore(store, "here", root))

    restore(store, "here", root, faults=meanwhile)


def test_a_disk_that_is_full(data: Path, store: SnapshotStore, disk: Disk) -> None:
    disk.fill(leave=300_000)
    root = disk.path / "there"
    assert "full" in refused(DiskFull, lambda: restore(store, "here", root))
    nothing_left(root)
    disk.empty()
    restore(store, "here", root)
    assert picture(root) == picture(data)


def test_a_store_that_is_full(data: Path, disk: Disk) -> None:
    store = SnapshotStore(FileBlob(disk.path / "snapshots"))
    disk.fill(leave=2_000)
    assert "full" in refused(DiskFull, lambda: create(data, store, "here"))
    assert store.listed() == []
    disk.empty()
    create(data, store, "here")
    verify(store, "here")


def test_a_clock_that_goes_back(data: Path, store: SnapshotStore) -> None:
    """Snapshots are in the order in which they were made, whatever the clock says."""
    engine = SqliteEngine(data)
    clock = iter([5_000_000_000.0, 1_000.0])
    creation = Creation(engine, store, Memory(), wall=lambda: next(clock))
    future, past = creation.run("future").manifest, creation.run("past").manifest
    engine.close()
    assert past.number == future.number + 1
    assert past.taken == future.taken
    newest = store.newest()
    assert newest is not None
    assert newest.name == "past"


def killed(*words: object, fault: str) -> None:
    done = subprocess.run(
        list(map(str, words)),
        env={**os.environ, "HOLDFAST_FAULT": f"{fault}:kill"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done


@pytest.mark.parametrize("fault", ["blob.inside:1", "blob.after:1", "blob.before:2"])
def test_killed_while_creating(data: Path, tmp_path: Path, fault: str) -> None:
    place = tmp_path / "snapshots"
    killed(
        sys.executable, "-m", "tests.runtime.snapshots.creator", data, place, "here", fault=fault
    )
    store = SnapshotStore(FileBlob(place))
    assert store.listed() == []
    refused(UsageError, lambda: restore(store, "here", tmp_path / "there"))
    create(data, store, "here")
    verify(store, "here")
    restore(store, "here", tmp_path / "there")
    assert picture(tmp_path / "there") == picture(data)


@pytest.mark.parametrize("fault", ["plant.inside:1", "plant.after:1"])
def test_killed_while_restoring(
    data: Path, store: SnapshotStore, tmp_path: Path, fault: str
) -> None:
    root = tmp_path / "there"
    words = ("snapshot", "restore", "here", "--to", root, "--data", data)
    place = ("--snapshots", f"file:{tmp_path / 'snapshots'}")
    killed(SCRIPT, *words, *place, fault=fault)
    assert not root.exists()
    refused(UsageError, lambda: fleet.connect(f"sqlite:{root}"))
    restore(store, "here", root)
    nothing_left(tmp_path / "nowhere")
    assert not beside(root).exists()
    assert picture(root) == picture(data)


# A real S3 server.


def at(seaweed: Seaweed, keys: dict[str, str], prefix: str) -> SnapshotStore:
    return SnapshotStore(open_blob(seaweed.url(prefix), environment=keys))


def test_by_way_of_s3(data: Path, tmp_path: Path, seaweed: Seaweed) -> None:
    store = at(seaweed, WRITER, "whole")
    create(data, store, "here")
    assert verify(store, "here").agents == len(KEYS)
    restore(store, "here", tmp_path / "there")
    assert picture(tmp_path / "there") == picture(data)
    store.delete(store.find("here"))
    assert store.listed() == []


def test_s3_denies(data: Path, tmp_path: Path, seaweed: Seaweed) -> None:
    assert "access denied" in refused(
        AccessDenied, lambda: create(data, at(seaweed, READER, "denied"), "here")
    )
    wrong = at(seaweed, {**WRITER, "AWS_SECRET_ACCESS_KEY": "wrong"}, "denied")
    refused(AccessDenied, lambda: restore(wrong, "here", tmp_path / "there"))
    assert at(seaweed, WRITER, "denied").listed() == []
    nothing_left(tmp_path / "there")


def test_s3_cannot_be_reached(data: Path, tmp_path: Path) -> None:
    url = "s3://holdfast/x?endpoint=http://127.0.0.1:9"
    store = SnapshotStore(open_blob(url, environment=WRITER, patience_seconds=0.1))
    refused(Unreachable, lambda: create(data, store, "here"))
    refused(Unreachable, lambda: restore(store, "here", tmp_path / "there"))
    nothing_left(tmp_path / "there")
