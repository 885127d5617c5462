"""Goal: `holdfast query` answers in a table, in lines and in JSON, again and again with --watch,
and of another time with --at; what it refuses is one line."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import (
    PATIENCE_SECONDS,
    SCRIPT,
    environment,
    event_line,
    folding,
    holdfast_here,
    json_lines,
    refused,
)
from tests.cli.fleets import DELIVERY

GROUPED = (
    "SELECT mode, count(*) AS drones, avg(battery) AS battery FROM drone "
    "GROUP BY mode ORDER BY mode"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fleet that runs, with some drones, and the time when only the first of them were there."""
    place = tmp_path_factory.mktemp("query")
    (place / "fleet.py").write_text(DELIVERY)
    with folding("fleet.py", cwd=place, data="holdfast-data"):
        for part, levels in {"first": (80, 9), "second": (60, 40)}.items():
            lines = [event_line(f"{part}-{n}", "Battery", percent=n) for n in levels]
            done = holdfast_here("send", "--file", "-", cwd=place, given="".join(lines))
            holdfast_here("state", "Drone", "--after", done.stdout.split()[-1], cwd=place)
            time.sleep(0.05)
            (place / part).write_text(str(time.time()))
            time.sleep(0.05)
        yield place


def test_a_table(place: Path) -> None:
    done = holdfast_here("query", GROUPED, cwd=place)
    assert done.stdout == "flying\t3\t60.0\nlanding\t1\t9.0\n"
    assert done.stderr.startswith("holdfast: as of 0:")


def test_json(place: Path) -> None:
    done = holdfast_here("query", GROUPED, "--json", cwd=place)
    assert json_lines(done.stdout) == [
        {"mode": "flying", "drones": 3, "battery": 60.0},
        {"mode": "landing", "drones": 1, "battery": 9.0},
    ]
    twice = holdfast_here("query", "SELECT 1 a, 2 a, 3 a_2", "--json", cwd=place)
    assert json_lines(twice.stdout) == [{"a": 1, "a_2": 2, "a_2_2": 3}]


def test_tables_are_listed(place: Path) -> None:
    lines = holdfast_here("query", "--tables", cwd=place).stdout.splitlines()
    assert "drone\tbattery\tDOUBLE" in lines
    assert "events\tpayload\tJSON" in lines
    found = json_lines(holdfast_here("query", "--tables", "--json", cwd=place).stdout)
    assert {"table": "partitions", "column": "owner", "type": "VARCHAR"} in found


def test_what_was_left_out_is_told(place: Path) -> None:
    done = holdfast_here("query", "SELECT * FROM drone", "--rows", "2", cwd=place)
    assert len(done.stdout.splitlines()) == 2
    assert "there are more rows than these 2: --rows" in done.stderr
    done = holdfast_here("query", "SELECT count(*) FROM events", "--log-rows", "2", cwd=place)
    assert done.stdout == "2\n"
    assert "of events the newest 2 were read, 2 older ones were not" in done.stderr


def test_since_a_time(place: Path) -> None:
    since = (place / "first").read_text()
    done = holdfast_here("query", "SELECT count(*) FROM events", "--since", since, cwd=place)
    assert done.stdout == "2\n"


def test_at_a_time(place: Path) -> None:
    words = ("--at", (place / "first").read_text(), "--fleet", "fleet.py", "--json")
    done = holdfast_here("query", GROUPED, *words, cwd=place)
    assert [(row["mode"], row["drones"]) for row in json_lines(done.stdout)] == [
        ("flying", 1),
        ("landing", 1),
    ]


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_watching_in_lines_ends_quietly(place: Path, ends: signal.Signals) -> None:
    watching = subprocess.Popen(
        [SCRIPT, "query", "SELECT count(*) n FROM drone", "--watch", "0.2", "--json"],
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    for _ in range(3):
        assert json.loads(watching.stdout.readline()) == {"n": 4}
    watching.send_signal(ends)
    _, errors = watching.communicate(timeout=PATIENCE_SECONDS)
    assert watching.returncode == (130 if ends is signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in errors


def test_watching_on_a_terminal_draws_in_place(place: Path) -> None:
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [SCRIPT, "query", "SELECT key FROM drone ORDER BY key", "--watch", "0.2"],
        cwd=place,
        env=environment({"TERM": "xterm", "COLUMNS": "100"}),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""
    while shown.count(b"first-80") < 3:
        shown += os.read(ours, 65_536)
    watching.send_signal(signal.SIGINT)
    while shown.count(b"\x1b[?25h") < 1:
        shown += os.read(ours, 65_536)  # the cursor is shown again
    _, errors = watching.communicate(timeout=PATIENCE_SECONDS)
    os.close(ours)
    assert watching.returncode == 130
    assert errors == b""
    assert b"\x1b[1A" in shown, "the cursor goes up"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "give one SELECT statement, or --tables"),
        (["SELECT 1", "--tables"], "give one SELECT statement, or --tables"),
        (["DROP TABLE drone"], "only one SELECT statement can be asked"),
        (["SELECT 1; SELECT 2"], "and these are 2"),
        (["SELEC"], 'syntax error at or near "SELEC" (at character 1)'),
        (["SELECT * FROM drones"], "no table 'drones': there is actions, dead_letters, drone"),
        (["SELECT lift FROM drone"], 'Referenced column "lift" not found'),
        (["SELECT 1", "--at", "-1h"], "give the code that folds them: --fleet FILE"),
        (["SELECT 1", "--at", "soon"], "'soon' is no time"),
        (["SELECT 1", "--at", "-1h", "--fleet", "none.py"], "none.py: no such file"),
        (["SELECT 1", "--memory", "1"], "--memory"),
        (["SELECT count(*) FROM range(1000000000000)", "--seconds", "0.2"], "(--seconds)"),
        (["SELECT range(1000000000)", "--memory", "64"], "more memory than 64 MiB"),
    ],
)
def test_refusals_are_one_line(place: Path, words: list[str], part: str) -> None:
    code = 3 if "--seconds" in words else 2
    refused(holdfast_here("query", *words, cwd=place, code=code), part)
