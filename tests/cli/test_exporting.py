"""Goal: `holdfast export` does what its help says, from a directory alone, and says in one line
what is wrong with a target; a missing package is named with the command that installs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.cli.commands import (
    PATIENCE_SECONDS,
    SCRIPT,
    copied,
    environment,
    eventually,
    folding,
    holdfast,
    holdfast_here,
    json_lines,
    refused,
)
from tests.cli.fleets import DELIVERY


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data` and no fleet.py: three events, two actions. Not to be changed."""
    place = tmp_path_factory.mktemp("stored")
    (place / "fleet.py").write_text(DELIVERY)
    with folding("fleet.py", cwd=place):
        for words in (["d-1", "percent=9"], ["d-2", "percent=5"], ["d-2", "percent=4"]):
            holdfast_here(
                "send", f"Drone/{words[0]}", "Battery", words[1], "--data", "data", cwd=place
            )
        holdfast_here("ask", "Drone/d-2", "Status", "--data", "data", cwd=place)
    (place / "fleet.py").unlink()
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    return copied(stored, tmp_path / "place")


def test_to_standard_output_again_and_again(place: Path) -> None:
    for run in (holdfast, holdfast_here):
        done = run("export", "events", "--to", "ndjson:-", "--data", "data", cwd=place)
        assert done.stderr == ""
        rows = json_lines(done.stdout)
        assert [(row["key"], row["type"]) for row in rows] == [
            ("d-1", "Battery"),
            ("d-2", "Battery"),
            ("d-2", "Battery"),
            ("d-2", "Status"),
        ]
        assert rows[0]["payload"] == {"percent": 9.0}
    done = holdfast_here("export", "actions", "--to", "ndjson:-", "--data", "data", cwd=place)
    assert [row["type"] for row in json_lines(done.stdout)] == ["Land", "Land"]
    done = holdfast_here("export", "states", "--to", "ndjson:-", "--data", "data", cwd=place)
    states = json_lines(done.stdout)
    assert [row["key"] for row in states] == ["d-1", "d-2"]
    assert states[0]["state"]["mode"] == "landing"  # type: ignore[index]


def test_to_files_each_row_once(place: Path) -> None:
    words = ("export", "events", "--to", "parquet:out", "--data", "data")
    assert holdfast_here(*words, cwd=place).stdout == "exported 4 events\n"
    assert holdfast_here(*words, cwd=place).stdout == "exported 0 events\n"
    assert holdfast_here(*words, "--from", "beginning", cwd=place).stdout == "exported 4 events\n"
    rows = parquet.read_table(place / "out" / "events").to_pylist()
    assert [json.loads(row["payload"]) for row in rows[:3]] == [
        {"percent": 9.0},
        {"percent": 5.0},
        {"percent": 4.0},
    ]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["events"], ["Missing option '--to'"]),
        (["things", "--to", "ndjson:-"], ["'things' is not one of"]),
        (["events", "--to", "csv:x"], ["unknown target 'csv:x'", "parquet:DIR"]),
        (["events", "--to", "parquet:"], ["unknown target 'parquet:'"]),
        (["events", "--to", "out.ndjson"], ["unknown target 'out.ndjson'"]),
        (["events", "--to", "postgres:x"], ["unknown target 'postgres:x'"]),
        (["events", "--to", "ndjson:no/where"], ["No such file or directory"]),
        (["events", "--to", "parquet:data/fleet.db"], ["fleet.db", "check the path"]),
        (["events", "--to", "postgres://u:hidden@127.0.0.1:1/x"], ["u@127.0.0.1:1/x", "refused"]),
        (["events", "--to", "postgres://u@h/x?no=1"], ["is no address of a database"]),
        (["events", "--to", "ndjson:-", "--from", "end"], ["'end' is not 'beginning'"]),
        (["events", "--to", "ndjson:-", "--data", "nothing"], ["nothing: no fleet here"]),
        (["events", "--to", "ndjson:-", "--engine", "memory:"], ["memory: lives in one process"]),
    ],
)
def test_what_is_wrong_is_one_line(stored: Path, words: list[str], parts: list[str]) -> None:
    given = [] if "--engine" in words or "nothing" in words else ["--data", "data"]
    done = holdfast_here("export", *words, *given, cwd=stored, code=None)
    refused(done, *parts)
    assert "hidden" not in done.stderr


@pytest.mark.parametrize(
    ("package", "to", "text"),
    [
        ("pyarrow", "parquet:out", "Parquet needs pyarrow: pip install 'holdfast[parquet]'"),
        ("psycopg", "postgres://h/x", "PostgreSQL needs psycopg: pip install 'holdfast[postgres]'"),
    ],
)
def test_a_missing_package_is_named(
    place: Path, package: str, to: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.startswith(package) or name.startswith("holdfast.runtime.exporting."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = holdfast_here("export", "events", "--to", to, "--data", "data", cwd=place, code=2)
    refused(done, text)


def test_a_full_standard_output_is_one_line(place: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [SCRIPT, "export", "events", "--to", "ndjson:-", "--data", "data"],
            cwd=place,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "standard output: no room left" in done.stderr


def test_another_fleet_in_a_target_is_one_line(place: Path) -> None:
    holdfast_here("export", "events", "--to", "parquet:out", "--data", "data", cwd=place)
    path = place / "out" / "events" / "_position.json"
    path.write_text(path.read_text().replace('"delivery"', '"ferries"'))
    done = holdfast_here(
        "export", "events", "--to", "parquet:out", "--data", "data", cwd=place, code=3
    )
    refused(done, "belongs to an export of events of fleet 'ferries'", "name another target")


@pytest.mark.kill
def test_following_until_interrupted(place: Path) -> None:
    (place / "fleet.py").write_text(DELIVERY)
    out = place / "events.ndjson"
    words = ["export", "events", "--to", "ndjson:events.ndjson", "--data", "data", "--follow"]

    def rows() -> int:
        return len(out.read_text().splitlines()) if out.exists() else 0

    with folding("fleet.py", cwd=place):
        process = subprocess.Popen(
            [SCRIPT, *words],
            cwd=place,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually("the first rows", lambda: rows() == 4)
            again = holdfast_here(*words[:-1], cwd=place, code=3)
            refused(again, "another export writes here")
            holdfast_here("send", "Drone/d-3", "Battery", "percent=3", "--data", "data", cwd=place)
            eventually("the row that came meanwhile", lambda: rows() == 5)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
    assert (process.returncode, output) == (130, b"")
    # The last row was seen before its place was kept, perhaps: then it is written once more, in
    # the place of the first.
    holdfast_here(*words[:-1], cwd=place)
    assert rows() == 5
    assert holdfast_here(*words[:-1], cwd=place).stdout == "exported 0 events\n"
