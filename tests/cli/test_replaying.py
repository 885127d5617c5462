"""Goal: history as an instrument on the command line: `replay`, `state --at` and `compensate` say
what they find in one line each, beside a running fleet, and what is wrong in one line too."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.cli.times import Place, parse_place, parse_time
from holdfast.errors import UsageError
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.replaying import running
from tests.cli.commands import eventually, folding, holdfast, holdfast_here, json_lines, refused

FLEET = """
from holdfast import Action, Agent, Context, Event, Fleet, on

class Put(Event):
    what: str

class Open(Action):
    what: str
    def undo(self) -> "Shut":
        return Shut(what=self.what)

class Shut(Action):
    what: str

class Box(Agent):
    count: int = 0
    last: str = ""
    @on
    def put(self, event: Put, ctx: Context) -> None:
        self.count += 1
        self.last = event.what
        ctx.emit(Open(what=event.what))

fleet = Fleet("boxes", agents=[Box])
"""
FILL = """
import sys, time
sys.path.insert(0, ".")
from fleet import *
with fleet.open("sqlite:./data", partitions=2) as live:
    for n in range(10):
        for key in ("b-1", "b-2", "b-3"):
            live.send(Box, key, Put(what=f"w-{n}"))
        live.settle()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "fleet.py").write_text(FLEET)
    (folder / "other.py").write_text(FLEET.replace("self.count += 1", "self.count += 2"))
    (folder / "fill.py").write_text(FILL)
    subprocess.run([sys.executable, "fill.py"], cwd=folder, check=True)
    return folder


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay starts no processes."""
    executor = lambda processes, context: ThreadPoolExecutor(processes)  # noqa: E731
    monkeypatch.setattr(running, "ProcessPoolExecutor", executor)


def moments(place: Path) -> list[float]:
    done = holdfast_here("history", "Box/b-1", "--json", "--data", "data", cwd=place)
    return [float(str(line["now"])) for line in json_lines(done.stdout)]


def test_equal(place: Path) -> None:
    """In processes of its own, one per partition."""
    done = holdfast("replay", "fleet.py", "--data", "data", cwd=place)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(": equal: " in line for line in lines)


@pytest.mark.usefixtures("here")
def test_different(place: Path) -> None:
    done = holdfast_here("replay", "other.py", "--data", "data", "--json", cwd=place, code=1)
    found = [line["difference"] for line in json_lines(done.stdout)]
    assert any(each is not None for each in found)
    one = next(each for each in found if isinstance(each, dict))
    assert str(one["agent"]).startswith("Box/b-")
    assert one["event"] == "Put(what='w-0')"
    assert "commit 1" in str(one["what"])
    text = holdfast_here("replay", "other.py", "--data", "data", cwd=place, code=1).stdout
    assert "differs at position 0" in text
    assert "  committed" in text


def test_one_agent(place: Path) -> None:
    words = ("replay", "fleet.py", "--agent", "Box/b-1", "--data", "data")
    done = holdfast_here(*words, cwd=place).stdout
    assert "equal: 10 events" in done
    assert done.endswith("the state of Box/b-1\n")
    other = ("replay", "other.py", "--agent", "Box/b-1", "--data", "data")
    assert "came out" in holdfast_here(*other, cwd=place, code=1).stdout


@pytest.mark.usefixtures("here")
def test_until(place: Path) -> None:
    at = str(moments(place)[4])
    words = ("replay", "fleet.py", "--json", "--data", "data", "--until")
    done = holdfast_here(*words, at, cwd=place)
    events = [int(str(line["events"])) for line in json_lines(done.stdout)]
    assert 0 < sum(events) < 30
    done = holdfast_here(*words, "0:3", cwd=place)
    assert [line["events"] for line in json_lines(done.stdout)] == [3]


def test_state_at(place: Path) -> None:
    times = moments(place)
    words = ("state", "Box/b-1", "--json", "--data", "data")
    for number in (0, 4, 9):
        at = (*words, "--at", times[number], "--fleet", "fleet.py")
        (found,) = json_lines(holdfast_here(*at, cwd=place).stdout)
        assert found["state"] == {"count": number + 1, "last": f"w-{number}"}
    # The last one needs no code: nothing has changed since.
    (found,) = json_lines(holdfast_here(*words, "--at", time.time(), cwd=place).stdout)
    assert found["version"] == 10


WRONG: list[tuple[list[str], list[str]]] = [
    (["replay", "fleet.py", "--until", "soon"], ["is no time", "2026-11-16T03:00:00Z"]),
    (["replay", "fleet.py", "--until", "12"], ["PARTITION:NUMBER"]),
    (["replay", "fleet.py", "--until", "9:12"], ["no partition 9"]),
    (["replay", "fleet.py", "--agent", "Box"], ["names no agent"]),
    (["replay", "fleet.py", "--agent", "Bag/b-1"], ["has no agent Bag"]),
    (["replay", "fleet.py", "--agent", "Box/b-99"], ["nothing has come to Box/b-99", "state Box"]),
    (["replay", "nothing.py"], ["no such file"]),
    (["replay", "fleet.py", "--engine", "memory:"], ["keeps no history"]),
    (["state", "Box/b-1", "--at", "never"], ["is no time"]),
    (["state", "Box/b-1", "--at", "2125-01-01"], ["in the future"]),
    (["state", "Box/b-1", "--at", "2001-01-01"], ["before the history", "it begins at"]),
    (["state", "Box/b-1", "--at", "1e999"], ["is no time"]),
    (["state", "Box", "--at", "-1h"], ["--at is for one agent"]),
    (["compensate", "nonsense", "--why", "x"], ["is no id of an action"]),
    (["compensate", "boxes/Box/b-1/1/0", "--why", ""], ["say why"]),
    (["compensate", "boxes/Box/b-1/99/0", "--why", "x"], ["never issued"]),
]


@pytest.mark.parametrize(("words", "parts"), WRONG)
def test_a_wrong_command(place: Path, words: list[str], parts: list[str]) -> None:
    data = [] if "--engine" in words else ["--data", "data"]
    refused(holdfast_here(*words, *data, cwd=place, code=2), *parts)


def test_state_at_a_time_since_which_it_changed_needs_the_code(place: Path) -> None:
    at = moments(place)[2]
    words = ("state", "Box/b-1", "--at", at, "--data", "data")
    refused(holdfast_here(*words, cwd=place, code=2), "--fleet FILE")
    refused(
        holdfast_here(*words, "--fleet", "other.py", cwd=place, code=2),
        "this code makes another state",
        "count",
    )


@pytest.mark.usefixtures("here")
def test_beside_a_running_fleet_and_an_action_taken_back(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "site")
    site = tmp_path / "site"
    with folding("fleet.py", cwd=site):
        id = "boxes/Box/b-1/1/0"
        done = holdfast_here("compensate", id, "--why", "wrong box", "--data", "data", cwd=site)
        assert done.stdout.strip() == f"{id}/undo"
        again = holdfast_here(
            "compensate", id, "--why", "again", "--data", "data", cwd=site, code=2
        )
        refused(again, "compensated before: wrong box")
        shown = holdfast_here("actions", "--json", "--data", "data", cwd=site).stdout
        undos = [line for line in json_lines(shown) if line.get("undoes")]
        assert [(u["type"], u["undoes"], u["why"]) for u in undos] == [("Shut", id, "wrong box")]
        text = holdfast_here("history", "Box/b-1", "--data", "data", cwd=site).stdout
        assert f"compensate {id} wrong box" in text
        assert "equal" in holdfast_here("replay", "fleet.py", "--data", "data", cwd=site).stdout
    late = ("compensate", "boxes/Box/b-2/1/0", "--why", "x", "--timeout", "0.2", "--data", "data")
    refused(holdfast_here(*late, cwd=site, code=3), "does a worker run?")


@pytest.mark.usefixtures("here")
def test_history_that_retention_has_cut(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "site")
    url = f"sqlite:{tmp_path / 'site' / 'data'}?retain_seconds=0.001&segment_bytes=1"
    fleet = load_fleet(str(place / "fleet.py"))
    box, put = fleet.agents["Box"], fleet.events["Put"]
    with fleet.open(url) as live:
        for n in range(4):
            live.send(box, "b-1", put(what=str(n)))  # type: ignore[call-arg]
            live.settle()
        view = live._engine.view(live._router.partition_of("b-1"))
        eventually("something is forgotten", lambda: view.inbox_first() > 0)
    done = holdfast_here("replay", "fleet.py", "--data", "data", cwd=tmp_path / "site", code=2)
    assert "was not compared: history begins at position" in done.stderr
    assert "has no snapshot from which on all is kept: name another place" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("here")
def test_history_that_retention_has_cut_behind_a_snapshot(place: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(place, site)
    fleet = load_fleet(str(place / "fleet.py"))
    box, put = fleet.agents["Box"], fleet.events["Put"]
    words = ("--data", "data")
    with fleet.open(f"sqlite:{site / 'data'}?retain_seconds=0.001&segment_bytes=1") as live:
        number = live._router.partition_of("b-1")
        view = live._engine.view(number)
        live.send(box, "b-1", put(what="old"))  # type: ignore[call-arg]
        eventually("all is forgotten", lambda: view.inbox_first() == view.inbox_next() > 10)
    holdfast_here("snapshot", "create", "kept", *words, cwd=site)
    with fleet.open(f"sqlite:{site / 'data'}") as live:
        live.send(box, "b-1", put(what="then"))  # type: ignore[call-arg]
        live.settle()
        then = time.time()
        live.send(box, "b-1", put(what="now"))  # type: ignore[call-arg]
        live.settle()
        last = live._engine.view(number).head().position - 1
    done = holdfast_here("replay", "fleet.py", "--json", *words, cwd=site)
    ours = json_lines(done.stdout)[number]
    assert (ours["events"], ours["since"], ours["difference"]) == (2, "snapshot kept", None)
    done = holdfast_here("replay", "other.py", "--agent", "Box/b-1", *words, cwd=site, code=1)
    assert f"differs at position {last}" in done.stdout
    at = ("state", "Box/b-1", "--fleet", "fleet.py", "--json", *words, "--at")
    (found,) = json_lines(holdfast_here(*at, then, cwd=site).stdout)
    assert found["state"] == {"count": 12, "last": "then"}
    (site / "data" / "snapshots").rename(site / "far")
    far = ("--snapshots", "file:far")
    (found,) = json_lines(holdfast_here(*at, then, *far, cwd=site).stdout)
    assert found["state"] == {"count": 12, "last": "then"}
    one = ("replay", "fleet.py", "--agent", "Box/b-1", *words)
    assert "from snapshot kept on" in holdfast_here(*one, *far, cwd=site).stdout
    refused(holdfast_here(*one, cwd=site, code=2), "has no snapshot from which on all is kept")
    early = ("--until", "2001-01-01", *far)
    refused(holdfast_here(*one, *early, cwd=site, code=2), "the oldest snapshot behind it, kept,")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1700000000.5", 1_700_000_000.5),
        ("1970-01-02T00:00:00Z", 86_400.0),
        ("1970-01-02T01:00:00+01:00", 86_400.0),
        ("1970-01-02 00:00:10", 86_410.0),
        ("1970-01-02", 86_400.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("-2h", 7200.0), ("30m ago", 1800.0), ("- 1.5 d", 129_600.0), ("-5s", 5)]
)
def test_times_ago(text: str, seconds: float) -> None:
    before = time.time()
    assert before - seconds <= parse_time(text) <= time.time() - seconds


@pytest.mark.parametrize("text", ["", "2h", "yesterday", "12:30", "1970-13-01", "--", "0x10"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_time(text)


def test_places() -> None:
    assert parse_place("3:77") == Place(3, 77)
    assert parse_place("77") == Place(None, 77)
    assert parse_place("1700000000") == 1_700_000_000.0
    assert parse_place("1970-01-02") == 86_400.0
