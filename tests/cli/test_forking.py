"""Goal: `holdfast fork` from the terminal: report, files, exit codes, one line for every mistake;
the same result with any number of processes; production is not touched."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from holdfast.demo import fleet as demo_fleet
from holdfast.demo.fleet import Drone, Order, Telemetry
from holdfast.demo.script import Script
from tests.cli.commands import holdfast, holdfast_here, refused

CODE = Path(demo_fleet.__file__).read_text()
CHANGED = CODE.replace("BATTERY_LOW = 25.0", "BATTERY_LOW = 45.0")
KPI = """
def figures(actions):
    kinds = [type(issued.action).__name__ for issued in actions]
    return {"docks": kinds.count("Dock"), "flights": kinds.count("FlyTo")}

def wrong(actions):
    return {"docks": "many"}

def leaves(actions):
    raise SystemExit(0)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo recorded live on three partitions, and two candidates beside it."""
    folder = tmp_path_factory.mktemp("fork")
    classes = {"Telemetry": Telemetry, "Order": Order}
    lines = Script(5, 40, 10.0).lines()
    with demo_fleet.fleet.open(f"sqlite:{folder / 'data'}", partitions=3) as live:
        for _ in range(100):
            batch = [next(lines) for _ in range(40)]
            live.send_many([(Drone, line.key, classes[line.event](*line.values)) for line in batch])
        live.settle()
    (folder / "same.py").write_text(CODE)
    (folder / "changed.py").write_text(CHANGED)
    (folder / "kpi.py").write_text(KPI)
    (folder / "other.py").write_text(CODE.replace('"delivery-demo"', '"other"'))
    schemas = CODE.replace("    altitude: float\n    battery: float\n\n", "    altitude: float\n\n")
    (folder / "schemas.py").write_text(schemas.replace("event.battery", "50.0"))
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Of every file that holds data; WAL indexes are only memory."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".db", ".seg", ".db-wal", ".seg-wal")
    }


def test_unchanged_code_makes_no_difference(place: Path) -> None:
    before = contents(place / "data")
    done = holdfast_here("fork", "same.py", "--data", "data", "--fail-above", 0, cwd=place)
    assert done.stdout.splitlines()[-1] == "no difference"
    assert contents(place / "data") == before


def without_speed(path: Path) -> dict[str, object]:
    report: dict[str, object] = json.loads(path.read_text())
    for name in ("jobs", "seconds", "inputs_per_second"):
        del report[name]
    return report


def test_any_number_of_processes_gives_the_same_report(place: Path) -> None:
    for jobs in (1, 3):
        words = ["fork", "changed.py", "--data", "data", "--jobs", jobs, "--json", f"{jobs}.json"]
        holdfast_here(*words, "--kpi", "kpi.py:figures", cwd=place)
    assert json.loads((place / "3.json").read_text())["jobs"] == 3
    assert without_speed(place / "1.json")["different"] != 0
    assert without_speed(place / "1.json") == without_speed(place / "3.json")


def test_the_report_of_changed_code(place: Path) -> None:
    words = ["fork", "changed.py", "--data", "data", "--jobs", 1, "--kpi", "kpi.py:figures"]
    done = holdfast_here(
        *words, "--json", "r.json", "--html", "r.html", "--fail-above", "100000", cwd=place
    )
    report = json.loads((place / "r.json").read_text())
    docks = next(row for row in report["actions"] if row["name"] == "Dock")
    # As many where recording took so long that timers sent all of them to their docks.
    assert docks["fork"] >= docks["recorded"]
    assert report["different"] > 0
    assert report["kpis"][0] == {
        "name": "docks",
        "recorded": docks["recorded"],
        "fork": docks["fork"],
    }
    assert "decisions differ" in done.stdout.splitlines()[-1]
    first = report["first_differences"][0]
    assert first["led_by"]
    assert first["led_by"][-1]["time"] <= first["time"]
    assert sum(map(sum, report["over_time"]["counts"].values())) == report["different"]
    page = (place / "r.html").read_text()
    assert "<svg" in page
    assert not re.search(r"https?://|<script|src=|@import|url\(", page), "it stands alone"
    assert f"{report['different']:,}" in page


def test_the_exit_code_follows_the_threshold(place: Path) -> None:
    words = ["fork", "changed.py", "--data", "data", "--jobs", 1]
    for above, code in (("3", 1), ("0.5%", 1), ("1000000", 0), ("100000%", 0)):
        holdfast_here(*words, "--fail-above", above, cwd=place, code=code)


def test_a_baseline_leaves_only_the_difference_of_the_code(place: Path) -> None:
    words = ["fork", "--data", "data", "--jobs", 1, "--json", "b.json"]
    holdfast_here(*words, "same.py", "--baseline", "same.py", cwd=place)
    assert json.loads((place / "b.json").read_text())["different"] == 0
    holdfast_here(*words, "same.py", "--baseline", "changed.py", cwd=place)
    turned = json.loads((place / "b.json").read_text())
    assert turned["different"] > 0
    assert turned["compared_with"] == "changed.py"
    docks = next(row for row in turned["actions"] if row["name"] == "Dock")
    assert docks["fork"] <= docks["recorded"]


def test_from_a_snapshot_and_from_a_time(place: Path) -> None:
    holdfast_here("snapshot", "create", "end", "--data", "data", cwd=place)
    words = ["fork", "changed.py", "--data", "data", "--from", "end"]
    refused(holdfast_here(*words, cwd=place, code=2), "nothing came", "nothing to compare")
    words = ["fork", "same.py", "--data", "data", "--json", "t.json", "--from", "1:500"]
    holdfast_here(*words, "--baseline", "same.py", cwd=place)
    report = json.loads((place / "t.json").read_text())
    assert report["inputs"] > 0
    assert report["different"] == 0
    assert report["start"].startswith("a time")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["other.py"], ["'delivery-demo'", "'other'"]),
        (["schemas.py"], ["Telemetry.battery is stored, but the class has no such field"]),
        (["same.py", "--agents", "Dron/d-1"], ["no agent 'Dron'", "did you mean Drone?"]),
        (["same.py", "--agents", "Drone/none*"], ["nobody of that name", "holdfast state"]),
        (["same.py", "--until", "2001-09-10"], ["nothing to compare"]),
        (["same.py", "--from", "0s ago", "--baseline", "same.py"], ["production has folded up to"]),
        (["same.py", "--from", "1:500", "--until", "2001-09-10"], ["is before --from"]),
        (["same.py", "--until", "7:5"], ["position 7:5", "partitions are 0 to 2"]),
        (["same.py", "--until", "12"], ["position 12", "write PARTITION:NUMBER"]),
        (["same.py", "--until", "soon"], ["'soon' is no time"]),
        (["same.py", "--from", "nothing"], ["there is no snapshot nothing"]),
        (["same.py", "--from", "1:5"], ["no snapshot is from before that time", "--baseline"]),
        (["same.py", "--fail-above", "some"], ["--fail-above 'some'", "0.5%"]),
        (["same.py", "--kpi", "kpi.py"], ["module:function"]),
        (["same.py", "--kpi", "kpi.py:none"], ["kpi.py has no function 'none'"]),
        (["same.py", "--kpi", "kpi.py:wrong"], ["kpi.py:wrong", "return a dict of numbers"]),
        (["same.py", "--kpi", "kpi.py:leaves"], ["kpi.py:leaves", "SystemExit: 0"]),
        (["gone.py"], ["gone.py: no such file"]),
    ],
)
def test_mistakes_get_one_line(place: Path, words: list[str], parts: list[str]) -> None:
    refused(
        holdfast_here(
            "fork",
            *words,
            "--data",
            "data",
            "--jobs",
            1,
            cwd=place,
            code=2 if words[0] != "other.py" else 3,
        ),
        *parts,
    )


def test_history_that_retention_has_cut(tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text(CODE)
    url = f"sqlite:{tmp_path / 'data'}?segment_bytes=4096&retain_seconds=0.001"
    with demo_fleet.fleet.open(url) as live:
        for serial in range(200):
            live.send(Drone, "d-1", Telemetry(serial, 0.0, 0.0, 50.0, 90.0))
        live.settle()
        live._engine.maintain()
        live._engine.maintain()
    done = holdfast_here("fork", "same.py", "--data", "data", cwd=tmp_path, code=2)
    refused(done, "partition 0: retention has removed the history before position", "--from")


def test_code_that_exits_at_import_is_refused(place: Path) -> None:
    (place / "exits.py").write_text("raise SystemExit(0)\n")
    for command in ("fork", "replay"):
        done = holdfast_here(command, "exits.py", "--data", "data", cwd=place, code=2)
        refused(done, "exits.py:1: SystemExit: 0")


def test_a_replay_whose_code_ends_its_process_is_told_in_a_line(place: Path) -> None:
    first = "        self._note(event.number, ctx)\n        self.delivered += 1\n"
    assert first in CODE
    (place / "ends.py").write_text(CODE.replace(first, "        __import__('os')._exit(5)\n"))
    done = holdfast("replay", "ends.py", "--data", "data", cwd=place, code=3)
    refused(done, "ends its process on")
