"""Goal: `holdfast demo` touches nothing that is not its own, leaves no process behind however it
ends, and is readable in a terminal of 80 columns."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.demo.directory import FORMAT, DemoDirectory, Manifest, Sent
from holdfast.demo.run import DemoRun, PartitionSample, Sample, Settings
from holdfast.demo.screen import plain, render
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.locks import HolderLock
from tests.demo.commands import (
    SCRIPT,
    children_of,
    demo,
    environment,
    gone,
    start_demo,
    wait_until,
)
from tests.demo.conftest import Finished
from tests.demo.tampering import copy_of

MANIFEST = Manifest(FORMAT, 1, 10, 5.0, 2)


def everything_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def notes_of_a_person(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("do not lose this")


def data_of_another_fleet(folder: Path) -> None:
    SqliteEngine.create(folder, "delivery", 1)


def a_demo_with_notes_in_it(folder: Path) -> None:
    DemoDirectory(folder).begin(MANIFEST)
    (folder / "notes.txt").write_text("do not lose this")


def another_programs_settings(folder: Path) -> None:
    folder.mkdir()
    (folder / "demo.json").write_text('{"volume": 11}')


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (notes_of_a_person, "notes.txt is not of a demo"),
        (data_of_another_fleet, "it holds no demo data"),
        (a_demo_with_notes_in_it, "notes.txt is not of a demo"),
        (another_programs_settings, "it holds no demo data"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], why: str
) -> None:
    folder = tmp_path / "data"
    prepare(folder)
    before = everything_in(folder)
    done = demo("--seconds", 2, "--data", folder)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert why in done.stderr
    assert "--data" in done.stderr
    assert everything_in(folder) == before


def test_a_file_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.write_text("a file")
    done = demo("--seconds", 2, "--data", place)
    assert done.returncode == 2
    assert f"{place}: is a file; name a directory with --data DIR" in done.stderr
    assert place.read_text() == "a file"


def test_a_demo_that_runs_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    DemoDirectory(folder).begin(MANIFEST)
    lock = HolderLock(folder / "holder.lock")
    lock.acquire()
    try:
        done = demo("--seconds", 2, "--data", folder)
    finally:
        lock.release()
    assert done.returncode == 3
    assert f"process {os.getpid()} runs this fleet already" in done.stderr
    assert done.stderr.count("\n") == 1
    assert DemoDirectory(folder).manifest() == MANIFEST


def test_data_of_an_earlier_demo_is_replaced(finished: Finished, tmp_path: Path) -> None:
    """All that a whole run leaves behind is known as the demo's own."""
    folder = copy_of(finished.data, tmp_path / "data")
    os.mkfifo(folder / "p000" / "wake")
    DemoDirectory(folder).begin(MANIFEST)
    assert [path.name for path in folder.iterdir()] == ["demo.json"]
    assert DemoDirectory(folder).manifest() == MANIFEST


@pytest.mark.kill
def test_ctrl_c_ends_early_and_audits(tmp_path: Path) -> None:
    options = ("--seconds", 60, "--drones", 100, "--rate", 1000, "--no-kill")
    running = start_demo(*options, "--data", tmp_path / "data")
    family = children_of(running.pid)
    assert len(family) == 3, "two workers and a producer"
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 0, output + errors
    assert "stopping early" in output
    assert "PASSED" in output
    assert all(map(gone, family))


def test_a_producer_that_is_told_to_end_while_it_starts_is_no_failure(tmp_path: Path) -> None:
    """As by a Ctrl-C in the first second. Python and its imports take time, and hear no signal."""
    directory = DemoDirectory(tmp_path / "data")
    run = DemoRun(directory, Settings(60.0, 10, 2, 100.0, kill=False))
    directory.begin(run.manifest)
    run._listening = threading.Thread(target=lambda: None)
    run._listening.start()
    with subprocess.Popen(["sleep", "60"]) as run._producer:
        run.end_sending()
    assert directory.sent() == Sent()


@pytest.mark.kill
def test_nothing_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    options = ("--seconds", 60, "--drones", 100, "--rate", 1000, "--no-kill")
    running = start_demo(*options, "--data", tmp_path / "data")
    family = children_of(running.pid)
    running.kill()
    running.communicate()
    wait_until(lambda: all(map(gone, family)), f"one of {family} lives on")


@pytest.mark.kill
def test_the_live_view_runs_in_a_terminal(tmp_path: Path) -> None:
    terminal, inside = pty.openpty()
    options = ["--seconds", "2", "--drones", "50", "--rate", "500", "--data", str(tmp_path / "d")]
    running = subprocess.Popen(
        [SCRIPT, "demo", *options], stdin=inside, stdout=inside, stderr=inside, env=environment()
    )
    os.close(inside)
    shown = bytearray()
    while True:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            break
    os.close(terminal)
    text = shown.decode()
    assert running.wait() == 0, text
    for expected in ("events/s", "event to action", "kill -9 of worker 1", "went on", "PASSED"):
        assert expected in text


def a_sample(lines: list[str]) -> Sample:
    return Sample(
        elapsed=3599.0,
        seconds=3600.0,
        events_per_second=999_999.0,
        latency=(0.0123, 12.3456),
        partitions=[
            PartitionSample(0, "process 4194304", 999_999_999, 0),
            PartitionSample(15, "", 999_999_999, 2_000_000),
        ],
        folded=999_999_999,
        messages=9_999_999,
        timers=9_999_999,
        actions=9_999_999,
        lines=lines,
    )


def test_the_largest_figures_fit_in_80_columns() -> None:
    lines = ["3600.0 s  kill -9 of worker 15, process 4194304, partition 15"] * 9
    output = io.StringIO()
    console = Console(file=output, width=80)
    console.print(render(a_sample(lines)))
    shown = output.getvalue().splitlines()
    assert max(map(len, shown)) <= 80
    text = "\n".join(shown)
    for expected in ("999,999 events/s", "12.3 ms", "12,346 ms", "nobody", "2,000,000"):
        assert expected in text
    assert text.count("kill -9 of worker 15, process 4194304, partition 15") == 6
    assert len(plain(a_sample([])).splitlines()) == 1
