"""Goal: the commands that need no running fleet do what their help says: memory: in one process,
files of events, diagrams, the version; and those of later releases say that they are."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.commands import (
    PATIENCE_SECONDS,
    SCRIPT,
    environment,
    event_line,
    fold,
    folding,
    holdfast,
    holdfast_here,
    json_lines,
    refused,
)
from tests.cli.fleets import DELIVERY

LATER = ["bench"]
TIMERS = """
from holdfast import Action, Agent, Context, Event, Fleet, on

class Start(Event):
    seconds: float

class Due(Event):
    pass

class Beep(Action):
    pass

class Clock(Agent):
    @on
    def start(self, event: Start, ctx: Context) -> None:
        ctx.after(event.seconds, Due())

    @on
    def due(self, event: Due, ctx: Context) -> None:
        ctx.emit(Beep())

fleet = Fleet("clocks", agents=[Clock])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "fleet.py").write_text(DELIVERY)
    return tmp_path


@pytest.fixture
def data(place: Path) -> Path:
    """`data` as a run that was stopped has left it, with nothing folded."""
    fold("fleet.py", cwd=place, partitions=2)
    return place


# ---------------------------------------------------------------- about the command line itself


def test_version_and_help(tmp_path: Path) -> None:
    assert holdfast("--version", cwd=tmp_path).stdout == f"holdfast {version('holdfast')}\n"
    text = holdfast_here("--help", cwd=tmp_path).stdout
    for word in ["run", "send", "dead-letters", "check", "debug", "doctor", "migrate", *LATER]:
        assert word in text
    assert holdfast_here("send", "--help", cwd=tmp_path).stdout.startswith("Usage: holdfast send")


@pytest.mark.parametrize("name", LATER)
def test_later_releases(tmp_path: Path, name: str) -> None:
    done = holdfast_here(name, "fleet.py", "--speed", "9", cwd=tmp_path, code=2)
    refused(done, f"`holdfast {name}` comes with a later release")


def test_an_unexpected_error_shows_its_traceback(place: Path) -> None:
    (place / "sitecustomize.py").write_text(
        "import holdfast.runtime.untyped as untyped\n"
        "def broken(url): raise RuntimeError('a bug of ours')\n"
        "untyped.connect_untyped = broken\n"
    )
    done = holdfast("paused", cwd=place, code=1, variables={"PYTHONPATH": str(place)})
    assert "Traceback" in done.stderr
    assert "a bug of ours" in done.stderr


def test_an_interrupt_is_quiet(data: Path) -> None:
    following = subprocess.Popen(
        [SCRIPT, "actions", "--follow", "--json", "--data", "data"],
        cwd=data,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with folding("fleet.py", cwd=data):
        holdfast_here("send", "Drone/d-1", "Battery", "percent=9", "--data", "data", cwd=data)
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["type"] == "Land"
        assert "cursor" in json.loads(following.stdout.readline())
    following.send_signal(signal.SIGINT)
    out, errors = following.communicate(timeout=PATIENCE_SECONDS)
    assert (following.returncode, out, errors) == (130, "", "")


def test_a_reader_that_has_seen_enough_ends_it_quietly(place: Path) -> None:
    lines = "".join(event_line(f"d-{i}", "Battery", percent=9) for i in range(20_000))
    pipeline = f'"{SCRIPT}" run fleet.py --engine memory: | head -1'
    done = subprocess.run(
        ["bash", "-c", pipeline],
        cwd=place,
        env=environment(),
        input=lines,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert json.loads(done.stdout)["type"] == "Land"
    assert done.stderr == ""


def test_it_ends_quietly_while_its_input_stays_open(place: Path) -> None:
    """The thread that reads is blocked then, and must not hold what Python locks at its end."""
    running = subprocess.Popen(
        [SCRIPT, "run", "fleet.py", "--engine", "memory:"],
        cwd=place,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdin.write(event_line("d-1", "Battery", percent=9))
    running.stdin.flush()
    running.stdout.readline()
    running.stdout.close()
    running.stdin.write(event_line("d-2", "Battery", percent=9))
    running.stdin.flush()
    running.wait(PATIENCE_SECONDS)
    assert running.stderr.read() == ""
    running.stdin.close()
    running.stderr.close()


# ---------------------------------------------------------------- memory:


def test_memory_folds_what_comes_in(place: Path) -> None:
    lines = event_line("d-1", "Position", lat=1, lon=2, alt=300) + "\n"
    lines += event_line("d-1", "Battery", percent=50) + event_line("d-2", "Battery", percent=9)
    done = holdfast("run", "fleet.py", "--engine", "memory:", cwd=place, given=lines)
    found = [(a["agent"], a["key"], a["type"], a["data"]) for a in json_lines(done.stdout)]
    assert found == [("Drone", "d-1", "Descend", {"to": 80.0}), ("Drone", "d-2", "Land", {})]
    assert done.stderr == ""
    assert list(place.iterdir()) == [place / "fleet.py"] or (place / "__pycache__").exists()


def test_memory_stops_at_a_wrong_line_after_what_came_before(place: Path) -> None:
    lines = event_line("d-2", "Battery", percent=9) + event_line("d-1", "Battery", percnt=9)
    done = holdfast("run", "fleet.py", "--engine", "memory:", cwd=place, given=lines, code=2)
    assert [a["key"] for a in json_lines(done.stdout)] == ["d-2"]
    assert "line 2: Battery has no field 'percnt': did you mean percent?" in done.stderr
    done = holdfast("run", "fleet.py", "--engine", "memory:", cwd=place, given="{]", code=2)
    refused(done, "line 1: JSON is malformed", 'write {"agent": "Drone"')


def test_memory_shows_actions_while_the_input_stays_open(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(TIMERS)
    run = subprocess.Popen(
        [SCRIPT, "run", "fleet.py", "--engine", "memory:"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdin is not None
    assert run.stdout is not None
    run.stdin.write('{"agent": "Clock", "key": "c", "type": "Start", "data": {"seconds": 0.3}}\n')
    run.stdin.flush()
    assert json.loads(run.stdout.readline())["type"] == "Beep"
    # A timer of tomorrow does not keep it from ending.
    run.stdin.write('{"agent": "Clock", "key": "c", "type": "Start", "data": {"seconds": 86400}}\n')
    out, _ = run.communicate(timeout=PATIENCE_SECONDS)
    assert (out, run.returncode) == ("", 0)


# ---------------------------------------------------------------- sending and drawing


def test_a_file_of_events(data: Path) -> None:
    lines = [event_line(f"d-{i % 100}", "Battery", percent=i) for i in range(9_000)]
    (data / "events.ndjson").write_text("".join(lines))
    words = ["send", "--file", "events.ndjson", "--source", "gcs", "--seq", 1, "--data", "data"]
    first = holdfast_here(*words, cwd=data).stdout.strip()
    positions = dict(part.split(":") for part in first.split(","))
    assert sum(map(int, positions.values())) == 9_000
    assert len(positions) == 2
    assert holdfast_here(*words, cwd=data).stdout.strip() == first  # all of them repeats
    (data / "events.ndjson").write_text("".join([*lines[:5000], "oops\n"]))
    done = holdfast_here(*words[:3], "--data", "data", cwd=data, code=2)
    refused(done, "events.ndjson: 4,096 events were sent, then line 5001:", "before it was sent")
    (data / "events.ndjson").write_bytes(b'{"agent": "\xff"}\n')
    done = holdfast_here(*words[:3], "--data", "data", cwd=data, code=2)
    refused(done, "events.ndjson: line 1: ")
    refused(
        holdfast_here("send", "--file", "none.ndjson", "--data", "data", cwd=data, code=3),
        "none.ndjson: No such file",
    )


def on_terminal(*words: str, columns: int, cwd: Path) -> str:
    ours, theirs = pty.openpty()
    variables = environment({"COLUMNS": str(columns), "TERM": "xterm"})
    subprocess.run([str(SCRIPT), *words], cwd=cwd, env=variables, stdout=theirs, check=True)
    os.close(theirs)
    text = os.read(ours, 100_000).decode()
    os.close(ours)
    return text


def test_a_narrow_terminal_cuts_no_id(data: Path) -> None:
    """What is listed is copied into the next command, such as `compensate ID`."""
    words = ["send", "Drone/d-1-of-the-second-squadron", "Battery", "percent=9"]
    holdfast_here(*words, "--data", "data", cwd=data)
    fold("fleet.py", cwd=data)
    listed = on_terminal("actions", "--data", "data", columns=60, cwd=data)
    (issued,) = json_lines(holdfast_here("actions", "--json", "--data", "data", cwd=data).stdout)[
        :1
    ]
    assert str(issued["id"]) in listed
    assert "…" not in listed
    assert on_terminal("paused", "--data", "data", columns=60, cwd=data).strip() == "none"


def test_a_terminal_gets_a_table_and_no_control_characters(data: Path) -> None:
    note = "[bold]\x1b[31mred"
    words = ["send", "Drone/d-1", "Calibrate", json.dumps({"note": note}), "--data", "data"]
    holdfast_here(*words, cwd=data)
    fold("fleet.py", cwd=data)
    text = on_terminal("state", "Drone", "--data", "data", columns=200, cwd=data)
    assert "agent" in text
    assert "Drone/d-1" in text
    assert "note=[bold]\\x1b[31mred" in text


def test_many_states_are_listed_page_by_page(place: Path) -> None:
    with folding("fleet.py", cwd=place, partitions=2):
        lines = "".join(event_line(f"d-{i:03}", "Battery", percent=i) for i in range(120))
        sent = holdfast_here("send", "--file", "-", "--data", "data", cwd=place, given=lines)
        words = ["state", "Drone", "--json", "--data", "data"]
        page = holdfast_here(*words, "--after", sent.stdout.strip(), cwd=place)
        assert [x["key"] for x in json_lines(page.stdout)] == [f"d-{i:03}" for i in range(50)]
        assert page.stderr == "holdfast: there are more: --from d-050\n"
        page = holdfast_here(*words, "--limit", 500, "--from", "d-050", cwd=place)
        assert [x["key"] for x in json_lines(page.stdout)] == [f"d-{i:03}" for i in range(50, 120)]
        assert page.stderr == ""
        words = ["actions", "--json", "--limit", "7", "--data", "data"]
        issued = json_lines(holdfast_here(*words, cwd=place).stdout)
        assert len(issued) == 8
        more = holdfast_here(*words, "--after", issued[-1]["cursor"], cwd=place).stdout
        found = {x["id"] for x in [*issued, *json_lines(more)] if "id" in x}
        assert len(found) == 14  # 15 drones are below 15 %
        assert (
            holdfast_here("state", "Drone/d-999", "--data", "data", cwd=place, code=1).stdout == ""
        )


def test_values_are_what_the_field_is(data: Path) -> None:
    words = ["send", "Drone/d-1", "Calibrate", "--data", "data"]
    holdfast_here(*words, "note=7", cwd=data)
    holdfast_here(*words, "note=", '{"factor": 2}', cwd=data)
    holdfast_here(*words, '{"note": "a"}', "note={x}=1", "factor=1e3", cwd=data)
    holdfast_here(*words, cwd=data)
    fold("fleet.py", cwd=data)
    found = holdfast_here("history", "Drone/d-1", "--json", "--data", "data", cwd=data).stdout
    assert [entry["data"] for entry in json_lines(found)] == [
        {"factor": 1.0, "note": "7"},
        {"factor": 2.0, "note": ""},
        {"factor": 1000.0, "note": "{x}=1"},
        {"factor": 1.0, "note": ""},
    ]


def test_an_ask_that_nobody_answers_says_so(data: Path) -> None:
    words = ["ask", "Drone/d-1", "Status", "--timeout", "0.2", "--data", "data"]
    refused(holdfast_here(*words, cwd=data, code=3), "did not answer", "does a worker run?")
    with folding("fleet.py", cwd=data):
        words = ["ask", "Drone/d-1", "Battery", "percent=9", "--data", "data"]
        refused(holdfast_here(*words, cwd=data, code=3), "no handler replied to Battery")


def test_a_diagram(place: Path) -> None:
    text = holdfast_here("diagram", "fleet.py", cwd=place).stdout
    assert "stateDiagram-v2" in text
    assert "FLYING --> LANDING : Battery / Land" in text
    holdfast_here("diagram", "fleet:fleet", "--format", "svg", "--out", "fleet.svg", cwd=place)
    assert (place / "fleet.svg").read_text().startswith("<svg")
