"""Goal: snapshots, backups and restores by the command line, beside a fleet that runs, and every
mistake told in one line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.commands import (
    Running,
    environment,
    eventually,
    folding,
    holdfast_here,
    refused,
)
from tests.cli.fleets import DELIVERY
from tests.kills.harness import children
from tests.servers.seaweed import WRITER, Seaweed


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "fleet.py").write_text(DELIVERY, encoding="utf-8")
    return tmp_path


def folded(place: Path, key: str, percent: float) -> None:
    done = holdfast_here("send", f"Drone/{key}", "Battery", f"percent={percent}", cwd=place)
    holdfast_here(
        "state", f"Drone/{key}", "--after", done.stdout.strip(), "--timeout", 120, cwd=place
    )


def battery(place: Path, data: str, key: str) -> float:
    words = ("state", f"Drone/{key}", "--json", "--data", data)
    found = json.loads(holdfast_here(*words, cwd=place).stdout)
    return float(found.get("state", found)["battery"])


def test_create_list_verify_restore_delete(place: Path) -> None:
    with folding("fleet.py", cwd=place, data="holdfast-data"):
        folded(place, "d-1", 50.0)
        done = holdfast_here("snapshot", "create", "before-lunch", cwd=place)
        assert "snapshot before-lunch of delivery is in file:holdfast-data/snapshots" in done.stdout
        folded(place, "d-1", 40.0)
        holdfast_here("snapshot", "create", "after-lunch", cwd=place)
        listed = holdfast_here("snapshot", "list", cwd=place).stdout
        assert [line.split("\t")[0] for line in listed.splitlines()] == [
            "before-lunch",
            "after-lunch",
        ]
        assert (
            "is whole: 1 agents"
            in holdfast_here("snapshot", "verify", "before-lunch", cwd=place).stdout
        )
        done = holdfast_here("snapshot", "restore", "before-lunch", "--to", "then", cwd=place)
        assert "delivery is in then: snapshot before-lunch" in done.stdout
        assert battery(place, "then", "d-1") == 50.0
        holdfast_here("snapshot", "delete", "before-lunch", cwd=place)
        lines = holdfast_here("snapshot", "list", "--json", cwd=place).stdout.splitlines()
        assert [json.loads(line)["name"] for line in lines] == ["after-lunch"]
        (place / "holdfast-data/snapshots/snapshots/00000001.auto-1").write_bytes(b"garbage")
        done = holdfast_here("snapshot", "list", cwd=place, code=3)
        assert done.stdout.startswith("after-lunch\t")
        assert "snapshot auto-1: damaged" in done.stderr
    holdfast_here("doctor", "--data", "then", cwd=place)


def test_back_up_and_restore(place: Path) -> None:
    """The newest snapshot and the log behind it, also into other partitions and by other code."""
    with folding("fleet.py", cwd=place, data="holdfast-data"):
        folded(place, "d-1", 50.0)
        holdfast_here("backup", "file:backup", cwd=place)
        folded(place, "d-1", 40.0)
        folded(place, "d-2", 30.0)
        done = holdfast_here("backup", "file:backup", cwd=place)
        assert "every event is archived" in done.stdout
        lines = holdfast_here("snapshot", "list", "--snapshots", "file:backup", cwd=place).stdout
        first = lines.splitlines()[0].split("\t")[0]
        words = ("--snapshots", "file:backup", "--to", "first")
        holdfast_here("snapshot", "restore", first, *words, cwd=place)
        assert battery(place, "first", "d-1") == 50.0
        holdfast_here("restore", "file:backup", "--to", "now", cwd=place)
        assert battery(place, "now", "d-1") == 40.0
        point = ("--to", "second", "--until", "0:2", "fleet.py", "--snapshots", "file:backup")
        done = holdfast_here("snapshot", "restore", first, *point, cwd=place)
        assert "1 events behind it folded" in done.stdout
        assert battery(place, "second", "d-1") == 40.0
        holdfast_here(
            "restore", "file:backup", "--to", "wide", "--partitions", "3", "fleet.py", cwd=place
        )
        assert battery(place, "wide", "d-2") == 30.0
    with folding("fleet.py", cwd=place, data="wide"):
        holdfast_here("send", "Drone/d-2", "Battery", "percent=20", "--data", "wide", cwd=place)
        eventually("it goes on", lambda: battery(place, "wide", "d-2") == 20.0)


def test_a_running_fleet_makes_snapshots_by_itself(place: Path) -> None:
    """Also after its snapshotter was killed; and workers do not mind."""
    words = ("--snapshot-events", "1", "--snapshot-seconds", "1")
    with Running("fleet.py", *words, cwd=place) as fleet:
        folded(place, "d-1", 50.0)
        found = place / "holdfast-data" / "snapshots" / "snapshots"
        eventually("there is a snapshot", lambda: found.exists() and bool(list(found.iterdir())))
        (snapshotter,) = children(fleet.process.pid, "snapshots.running")
        os.kill(snapshotter, signal.SIGKILL)
        count = len(list(found.iterdir()))
        folded(place, "d-1", 45.0)
        eventually("there is another", lambda: len(list(found.iterdir())) > count)
    name = holdfast_here("snapshot", "list", cwd=place).stdout.splitlines()[-1].split("\t")[0]
    assert name.startswith("auto-")
    holdfast_here("snapshot", "verify", name, cwd=place)
    holdfast_here("snapshot", "restore", name, "--to", "then", cwd=place)
    assert battery(place, "then", "d-1") == 45.0


def test_by_way_of_s3(place: Path, seaweed: Seaweed) -> None:
    with folding("fleet.py", cwd=place, data="holdfast-data"):
        folded(place, "d-1", 50.0)
    url = seaweed.url()
    holdfast_here("backup", url, cwd=place, variables=WRITER)
    holdfast_here("restore", url, "--to", "then", cwd=place, variables=WRITER)
    assert battery(place, "then", "d-1") == 50.0
    refused(holdfast_here("backup", url, cwd=place, code=None), "AWS_ACCESS_KEY_ID")
    assert "AWS_ACCESS_KEY_ID" not in environment()


def test_mistakes(place: Path) -> None:
    run = ("fleet.py", "--snapshots", "none", "--archive", "file:archive")
    with Running(*run, cwd=place) as running:
        folded(place, "d-1", 50.0)
        holdfast_here("snapshot", "create", "one", cwd=place)
        assert running.stop() == 0  # a kill might leave nothing in the archive
    for words, parts in (
        (("snapshot", "create", "one"), ("already",)),
        (
            ("run", "fleet.py", "--engine", "memory:", "--snapshots", "file:x"),
            ("memory: is gone with its process",),
        ),
        (("snapshot", "create", "o/ne"), ("cannot name a snapshot",)),
        (("snapshot", "create", "x", "--snapshots", "ftp://x"), ("unknown store",)),
        (("snapshot", "verify", "two"), ("there is no snapshot two",)),
        (("snapshot", "restore", "two", "--to", "x"), ("there is no snapshot two",)),
        (("snapshot", "restore", "one", "--to", "holdfast-data"), ("is not empty",)),
        (("snapshot", "restore", "one", "--to", "x", "--until", "1h ago"), ("add fleet.py",)),
        (("snapshot", "restore", "one", "--to", "x", "--partitions", "3"), ("add fleet.py",)),
        (
            ("snapshot", "restore", "one", "--to", "x", "--until", "yesterday", "fleet.py"),
            ("is no time",),
        ),
        (
            ("snapshot", "restore", "one", "--to", "x", "--until", "2125-01-01", "fleet.py"),
            ("in the future", "leave it out"),
        ),
        (("restore", "file:archive", "--to", "x"), ("no snapshot", "--archive and --snapshots")),
        (("restore", "file:nothing", "--to", "x"), ("no snapshots",)),
        (("restore", "file:nothing"), ("--to",)),
        (("run", "fleet.py", "--snapshots", "ftp://x"), ("unknown store",)),
    ):
        refused(holdfast_here(*words, cwd=place, code=2), *parts)
    assert not (place / "x").exists()
