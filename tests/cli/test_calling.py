"""Goal: `holdfast run` starts a process for calls where there are calls, and `holdfast calls` tells
what is open and how the functions do."""

import json
import os
import signal
from pathlib import Path

import pytest

from holdfast.runtime.calling.status import read_status
from tests.cli.commands import holdfast_here, refused
from tests.kills import clerks
from tests.kills.harness import Site, children, site, wait_until
from tests.kills.test_calls import run_command

PLAIN = "tests.kills.swarm:fleet"


def callers(pid: int) -> list[int]:
    return children(pid, "calling.process")


def laid_out(place: Site) -> None:
    wait_until((place.folder / "data" / "fleet.db").exists, 120.0, "the directory is laid out")


@pytest.mark.kill
def test_open_calls_and_functions_are_listed() -> None:
    with site("partitions=2", "tests.kills.clerks:fleet") as place:
        keeper = run_command(place)
        laid_out(place)
        engine = ("--engine", place.url)
        wait_until(lambda: callers(keeper.pid), 120.0, "a fleet with calls has a process for them")
        with clerks.fleet.connect(place.url) as live:
            for n in range(5):
                live.send(clerks.Clerk, f"c-{n}", clerks.Task("/dev/null", 600.0))
        assert_listed(place, engine)
        (first,) = callers(keeper.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: callers(keeper.pid) not in ([], [first]), 120.0, "it is started again")
        assert_listed(place, engine)


def assert_listed(place: Site, engine: tuple[str, str]) -> None:
    def running() -> list[int]:
        status = read_status(place.folder / "data")
        return [] if status is None else [each.running for each in status.functions]

    wait_until(lambda: running() == [3, 5], 120.0, "all is told")
    told = holdfast_here("calls", "--functions", "--json", *engine, cwd=place.folder).stdout
    assert json.loads(told.splitlines()[0]) == {
        "function": "work",
        "kind": "process",
        "concurrency": 3,
        "running": 3,
        "waiting": 2,
        "attempts": 3,
        "failures": 0,
        "breaker": "closed",
    }
    table = holdfast_here("calls", "--functions", *engine, cwd=place.folder).stdout
    assert "work\tprocess\t3\t3\t2\t3\t0\tclosed\n" in table
    listed = holdfast_here("calls", "--json", *engine, cwd=place.folder).stdout
    calls = [json.loads(line) for line in listed.splitlines()]
    assert sorted((c["key"], c["function"]) for c in calls) == sorted(
        (f"c-{n}", name) for n in range(5) for name in ("work", "work_async")
    )
    assert calls[0]["arguments"] == ["/dev/null", 600.0]
    some = holdfast_here("calls", "--limit", "3", *engine, cwd=place.folder)
    assert len(some.stdout.splitlines()) == 3
    assert "there are more: --limit 6" in some.stderr
    assert "/1/call1\t" in some.stdout


@pytest.mark.kill
def test_a_fleet_without_calls_has_no_process_for_them() -> None:
    with site("partitions=1", PLAIN) as place:
        keeper = place.start(
            "run",
            [
                "tests.kills.holdfast_command",
                "run",
                PLAIN,
                "--engine",
                place.url,
                "--snapshots",
                "none",
            ],
        )
        laid_out(place)
        wait_until(lambda: children(keeper.pid), 120.0, "a worker runs")
        wait_until(
            lambda: "fleet runs" in place.log("run") or " runs on " in place.log("run"),
            120.0,
            "it says so",
        )
        assert callers(keeper.pid) == []
        assert len(children(keeper.pid)) == 1
        done = holdfast_here("calls", "--engine", place.url, cwd=place.folder)
        assert (done.stdout, done.stderr) == ("", "")
        refused(
            holdfast_here("calls", "--functions", "--engine", place.url, cwd=place.folder, code=2),
            "nobody runs calls here now: `holdfast run` starts them",
        )
        keeper.send_signal(signal.SIGTERM)
        assert keeper.wait(120.0) == 0


def test_calls_of_a_fleet_that_is_not_there(tmp_path: Path) -> None:
    done = holdfast_here("calls", "--data", "nowhere", cwd=tmp_path, code=2)
    assert "no fleet here" in done.stderr
