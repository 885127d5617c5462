"""Goal: `holdfast check` from the command line: exit codes, lines, JSON, stored data, refusals."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime.loading import load_fleet
from holdfast.runtime.rescaling import rescale
from tests.cli.commands import holdfast_here, json_lines, refused
from tests.cli.fleets import DELIVERY

ROOT = Path(__file__).parents[2]
FILL = """
import sys
sys.path.insert(0, ".")
from fleet import *
with fleet.open("sqlite:./data", partitions=2) as live:
    for number in range(40):
        live.send(Drone, f"d-{number % 4}", Battery(percent=50.0))
        live.send(Drone, f"d-{number % 4}", Position(lat=1.0, lon=2.0, alt=float(number)))
    live.settle()
"""
CLOCK = DELIVERY.replace("self.battery = event.percent", "self.battery = time.time()").replace(
    "from enum", "import time\nfrom enum"
)
# For tests that say at which event: two processes may read the same time, and never the same id.
PROCESS = DELIVERY.replace(
    "self.battery = event.percent", "self.battery = float(os.getpid())"
).replace("from enum", "import os\nfrom enum")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    (folder / "fleet.py").write_text(DELIVERY)
    (folder / "clock.py").write_text(CLOCK)
    (folder / "process.py").write_text(PROCESS)
    subprocess.run([sys.executable, "-c", FILL], cwd=folder, check=True, timeout=600)
    return folder


@pytest.mark.parametrize("path", ["examples/drones.py", "src/holdfast/demo/fleet.py"])
def test_the_shipped_fleets_are_clean(path: str) -> None:
    shown = holdfast_here("check", path, "--events", 200, cwd=ROOT).stdout
    assert shown.splitlines()[-1].startswith("clean: ")


def test_findings_exit_with_1_and_are_lines(place: Path) -> None:
    done = holdfast_here("check", "clock.py", "--events", 100, cwd=place, code=1)
    line = 1 + CLOCK.splitlines().index("        self.battery = time.time()")
    finding, divergence, *notes, verdict = done.stdout.splitlines()
    assert finding == (
        f"clock.py:{line}:24: Drone.drained: time.time reads the clock of the machine; use ctx.now"
    )
    assert divergence.startswith(f"clock.py:{line - 1}: Drone.drained: event ")
    assert all(each.startswith("note: Drone.calibrated raised") for each in notes)
    assert verdict.startswith("2 findings: 4 handlers read, ")
    assert done.stderr == ""


def test_json(place: Path) -> None:
    done = holdfast_here("check", "clock.py", "--events", 100, "--json", cwd=place, code=1)
    lines = json_lines(done.stdout)
    assert [(each["level"], each.get("kind")) for each in lines if each["level"] != "note"] == [
        ("finding", "code"),
        ("finding", "divergence"),
        ("summary", None),
    ]
    assert (lines[0]["file"], lines[0]["subject"]) == ("clock.py", "Drone.drained")
    assert lines[-1]["clean"] is False


def test_stored_events_of_all_partitions_are_folded(place: Path) -> None:
    clean = holdfast_here("check", "fleet.py", "--data", "data", cwd=place).stdout
    assert clean == "clean: 4 handlers read, 80 inputs folded in two processes\n"
    done = holdfast_here("check", "process.py", "--engine", "sqlite:data", cwd=place, code=1)
    divergences = [line for line in done.stdout.splitlines() if "two runs differ" in line]
    assert len(divergences) == 2, "the first of each partition"
    assert "event 1 (Drone/d-" in divergences[0]
    assert "event 1 of partition 1 (Drone/d-" in divergences[1]
    few = holdfast_here("check", "fleet.py", "--data", "data", "--events", 5, cwd=place).stdout
    assert "10 inputs folded" in few


INHERITED = DELIVERY.replace("from enum", "import os\nfrom enum").replace(
    "        if event.alt > 100.0",
    "        if event.alt < 0.0 and self.battery == 50.0:\n"
    "            self.note = str(os.getpid())\n"
    "        if event.alt > 100.0",
)


def test_partitions_of_a_rescaling_begin_with_what_they_inherited(
    place: Path, tmp_path: Path
) -> None:
    """Retired partitions are folded too. What shows the process needs a state of before."""
    shutil.copytree(place / "data", tmp_path / "data")
    (tmp_path / "fleet.py").write_text(DELIVERY)
    (tmp_path / "inherited.py").write_text(INHERITED)
    for count in (3, 1):
        rescale(load_fleet(str(tmp_path / "fleet.py")), f"sqlite:{tmp_path}/data", count)
    sending = "live.send(Drone, 'd-1', Position(lat=1.0, lon=2.0, alt=-1.0))\n    live.settle()\n"
    more = FILL[: FILL.index(", partitions")] + ") as live:\n    " + sending
    subprocess.run([sys.executable, "-c", more], cwd=tmp_path, check=True, timeout=600)
    clean = holdfast_here("check", "fleet.py", "--data", "data", cwd=tmp_path).stdout
    assert clean == "clean: 4 handlers read, 81 inputs folded in two processes\n"
    done = holdfast_here("check", "inherited.py", "--data", "data", cwd=tmp_path, code=1)
    (divergence,) = [line for line in done.stdout.splitlines() if "two runs differ" in line]
    assert "event 1 of partition 5 (Drone/d-1, Position(" in divergence


def test_a_seed_is_a_stream(place: Path) -> None:
    runs = [
        holdfast_here("check", "process.py", "--events", 50, "--seed", seed, cwd=place, code=1)
        for seed in (3, 3, 4)
    ]
    lines = [line for run in runs for line in run.stdout.splitlines() if "two runs differ" in line]
    events = [line.partition(": two runs")[0] for line in lines]
    assert events[0] == events[1] != events[2]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["gone.py"], ["gone.py: no such file"]),
        (["fleet.py", "--events", "0"], ["--events"]),
        (["fleet.py", "--seed", "-1"], ["--seed"]),
        (["fleet.py", "--data", "a", "--engine", "sqlite:b"], ["give one of them"]),
        (["fleet.py", "--data", "nowhere"], ["no fleet here"]),
        (["fleet.py", "--engine", "memory:"], ["memory: keeps nothing to check"]),
        (["broken.py"], ["broken.py:1: ValueError: at import"]),
        (["pattern.py"], ["Call.sign: no text for the pattern", "example"]),
    ],
)
def test_wrong_commands_are_refused(place: Path, words: list[str], parts: list[str]) -> None:
    (place / "broken.py").write_text("raise ValueError('at import')\n")
    (place / "pattern.py").write_text(
        "from typing import Annotated\nfrom msgspec import Meta\n"
        "from holdfast import Agent, Context, Event, Fleet, on\n"
        "class Call(Event):\n    sign: Annotated[str, Meta(pattern='^[A-Z]{9}$')]\n"
        "class Tower(Agent):\n    @on\n"
        "    def called(self, event: Call, ctx: Context) -> None:\n        pass\n"
        "fleet = Fleet('calls', agents=[Tower])\n"
    )
    refused(holdfast_here("check", *words, cwd=place, code=2), *parts)


def test_data_of_another_fleet_is_refused(place: Path) -> None:
    (place / "other.py").write_text(DELIVERY.replace('"delivery"', '"other"'))
    done = holdfast_here("check", "other.py", "--data", "data", cwd=place, code=3)
    refused(done, "delivery")
