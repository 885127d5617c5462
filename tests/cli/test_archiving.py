"""Goal: `holdfast run --archive` archives beside the workers; a store that cannot be used gets one
line, and one that is away does not keep the fleet from running."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.blob.urls import open_blob
from holdfast.engine.urls import open_engine
from holdfast.runtime.archiving.archive import Archive
from tests.archiving.bots import differences
from tests.cli.commands import Running, eventually, holdfast_here, refused
from tests.cli.fleets import DELIVERY
from tests.servers.seaweed import WRITER

DATA = {"HOLDFAST_ENGINE": "sqlite:data"}
NOBODY = "s3://bucket/x?endpoint=http://127.0.0.1:1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "fleet.py").write_text(DELIVERY)
    return tmp_path


def send(place: Path, count: int) -> None:
    for _ in range(count):
        holdfast_here("send", "Drone/d-1", "Battery", "percent=50", cwd=place, variables=DATA)


def equal(place: Path, folder: str = "archive") -> bool:
    engine = open_engine(f"sqlite:{place / 'data'}", None)
    try:
        return not differences(engine, open_blob(f"file:{place / folder}"))
    finally:
        engine.close()


def test_a_fleet_is_archived_while_it_runs_and_to_its_end(place: Path) -> None:
    words = ("fleet.py", "--workers", 2, "--data", "data", "--archive", "file:archive")
    with Running(*words, "--archive-seconds", 0.2, cwd=place) as running:
        eventually("two workers and a shipper", lambda: len(running.workers()) >= 3)
        send(place, 3)
        eventually("the events are in the archive", lambda: equal(place))
    assert Archive(open_blob(f"file:{place / 'archive'}")).catalog().fleet == "delivery"
    with Running(*words, "--archive-seconds", 3600, cwd=place) as running:
        send(place, 3)
        assert running.stop() == 0
    assert equal(place), "what is there when it stops is archived before it ends"


def test_the_archive_alone_brings_a_lost_disk_back(place: Path) -> None:
    words = ("fleet.py", "--data", "data", "--archive", "file:archive", "--snapshot-seconds", 1)
    with Running(*words, cwd=place) as running:
        send(place, 3)
        eventually("a snapshot", lambda: any((place / "archive").glob("snapshots/*")))
        holdfast_here("send", "Drone/d-1", "Battery", "percent=40", cwd=place, variables=DATA)
        assert running.stop() == 0
    shutil.rmtree(place / "data")
    holdfast_here("restore", "file:archive", "--to", "new", "fleet.py", cwd=place)
    assert "40" in holdfast_here("state", "Drone/d-1", "--data", "new", cwd=place).stdout


def test_the_doctor_says_what_is_not_archived(place: Path) -> None:
    run = ("fleet.py", "--data", "data", "--archive", "file:archive")
    with Running(*run, "--archive-seconds", 0.2, cwd=place) as running:
        send(place, 2)
        assert running.stop() == 0
    done = holdfast_here("doctor", cwd=place, code=None, variables=DATA)
    assert "has every event" in done.stdout
    send(place, 3)  # kept in the inbox; nobody runs and nobody archives
    done = holdfast_here("doctor", cwd=place, code=None, variables=DATA)
    assert "3 events are not archived yet" in done.stdout


def test_without_an_archive_retention_waits_for_nobody(place: Path) -> None:
    with Running("fleet.py", "--data", "data", "--archive", "file:archive", cwd=place) as running:
        mark = place / "data/p000/archived"
        eventually("the mark for retention", mark.exists)
        assert running.stop() == 0
    with Running("fleet.py", "--data", "data", cwd=place) as running:
        assert not mark.exists()
        assert running.stop() == 0


def test_a_store_that_is_away_is_told_and_the_fleet_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WRITER.items():
        monkeypatch.setenv(name, value)
    with Running("fleet.py", "--data", "data", "--archive", NOBODY, cwd=place) as running:
        send(place, 2)
        look = ("state", "Drone/d-1")
        eventually(
            "the events are folded",
            lambda: "50" in holdfast_here(*look, cwd=place, code=None, variables=DATA).stdout,
        )
        eventually("a warning", lambda: "nobody listens there" in running.errors.read_text())
        assert running.stop() == 0
    assert "Traceback" not in running.errors.read_text()


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("gs://bucket", "unknown store 'gs://bucket': use file:PATH or s3://bucket/prefix"),
        ("file:fleet.py", "is a file, a folder is needed"),
        ("s3://bucket", "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused(place: Path, store: str, words: str) -> None:
    keys = dict.fromkeys(WRITER, "")
    run = ("run", "fleet.py", "--data", "data", "--archive", store)
    refused(holdfast_here(*run, cwd=place, code=None, variables=keys), words)


def test_other_refusals(place: Path) -> None:
    for option in ("--archive", "--snapshots"):
        words = ("run", "fleet.py", option, "file:copies", "--engine", "memory:")
        refused(holdfast_here(*words, cwd=place, code=None), "memory: is gone with its process")
    run = ("run", "fleet.py", "--archive", "file:archive")
    done = holdfast_here(*run, "--data", "data", "--archive-seconds", 0, cwd=place, code=None)
    refused(done, "--archive-seconds")
    done = holdfast_here(
        "run", "fleet.py", "--data", "data", "--archive", "nonsense", cwd=place, code=2
    )
    refused(done, "unknown store 'nonsense'")
    assert not (place / "data").exists(), "its number of partitions would hold for the next start"


def test_the_archive_of_another_directory_is_refused(place: Path) -> None:
    run = ("fleet.py", "--data", "data", "--archive", "file:archive")
    with Running(*run, cwd=place) as running:
        send(place, 1)
        assert running.stop() == 0
    shutil.rmtree(place / "data")
    done = holdfast_here("run", *run, cwd=place, code=None)
    refused(done, "is the archive of another directory of fleet 'delivery': archive to another")
