"""Goal: `holdfast run` folds in workers while other processes send, read and operate; it drains
when told to, its workers end with it, a successor takes over, and an idle fleet costs nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import (
    Running,
    alive,
    cpu_seconds,
    event_line,
    eventually,
    holdfast,
    holdfast_here,
    json_lines,
    refused,
    wakeups,
)
from tests.cli.fleets import DELIVERY
from tests.run.speed import patient

# And no other process: one for snapshots would start after five seconds.
TWO_WORKERS = ("fleet.py", "--workers", 2, "--data", "data", "--snapshots", "none")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "fleet.py").write_text(DELIVERY)
    return tmp_path


@pytest.fixture
def running(place: Path) -> Iterator[Running]:
    with Running(*TWO_WORKERS, cwd=place) as running:
        yield running


DATA = {"HOLDFAST_ENGINE": "sqlite:data"}


def receipt_of(place: Path, *words: object) -> str:
    return holdfast_here(*words, cwd=place, variables=DATA).stdout.strip()


def state_of(place: Path, key: str, receipt: str) -> dict[str, object]:
    words = ["state", f"Drone/{key}", "--after", receipt, "--timeout", 120, "--json"]
    [found] = json_lines(holdfast_here(*words, cwd=place, variables=DATA).stdout)
    assert isinstance(found["state"], dict)
    return found["state"]


def test_sending_asking_and_reading_beside_the_workers(place: Path, running: Running) -> None:
    assert "delivery runs on sqlite:data, 2 partitions, 2 workers" in running.start_line
    assert "holdfast send Drone/KEY Position lat=… lon=… alt=…" in running.start_line
    eventually("two workers", lambda: len(running.workers()) == 2)

    first = ["send", "Drone/d-1", "Battery", "percent=9", "--source", "gcs", "--seq", 1]
    receipt = receipt_of(place, *first)
    assert state_of(place, "d-1", receipt)["battery"] == 9.0
    receipt_of(place, *first)  # a resend is a no-op
    receipt = receipt_of(place, "send", "Drone/e-1", "Position", '{"lat": 1, "lon": 2, "alt": 300}')
    assert state_of(place, "e-1", receipt)["alt"] == 300.0

    reply = holdfast("ask", "Drone/d-1", "Status", cwd=place, variables=DATA).stdout
    assert json_lines(reply) == [{"type": "StatusReply", "data": {"mode": "landing", "battery": 9}}]

    text = holdfast_here("state", "Drone/d-1", cwd=place, variables=DATA).stdout
    assert text.startswith("Drone/d-1  version 2, changed ")
    assert "\n  mode     landing\n" in text
    listed = holdfast_here("state", "Drone", cwd=place, variables=DATA).stdout
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["Drone/d-1", "Drone/e-1"]

    entries = json_lines(
        holdfast_here("history", "Drone/d-1", "--json", cwd=place, variables=DATA).stdout
    )
    assert [(e["type"], e["data"], e["source"], e["seq"]) for e in entries][:1] == [
        ("Battery", {"percent": 9.0}, "gcs", 1)
    ]
    assert [e["type"] for e in entries] == ["Battery", "Status"]

    issued = json_lines(holdfast_here("actions", "--json", cwd=place, variables=DATA).stdout)
    cursor = issued.pop()["cursor"]
    assert {(a["id"], a["type"], a["priority"]) for a in issued} == {
        ("delivery/Drone/d-1/1/0", "Land", "urgent"),
        ("delivery/Drone/e-1/1/0", "Descend", "normal"),
    }
    again = holdfast_here("actions", "--json", "--after", cursor, cwd=place, variables=DATA).stdout
    assert json_lines(again) == [{"cursor": cursor}]


def test_failures_are_listed_shown_and_redriven(place: Path, running: Running) -> None:
    receipt_of(place, "send", "Drone/d-1", "Calibrate", "factor=0", "note=7")
    receipt = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=50")
    assert state_of(place, "d-1", receipt)["note"] == ""
    [letter] = json_lines(holdfast_here("dead-letters", "--json", cwd=place, variables=DATA).stdout)
    assert letter["data"] == {"factor": 0.0, "note": "7"}
    assert "ZeroDivisionError" in str(letter["error"])
    shown = holdfast_here("dead-letters", "show", letter["id"], cwd=place, variables=DATA).stdout
    assert "Calibrate factor=0.0 note=7" in shown
    assert "self.battery / event.factor" in shown

    redriven = receipt_of(place, "dead-letters", "redrive", letter["id"]).split("\t")
    assert redriven[:2] == [letter["id"], "Drone/d-1"]
    assert state_of(place, "d-1", redriven[2])["battery"] == 50.0
    done = holdfast_here("dead-letters", "redrive", letter["id"], cwd=place, code=2, variables=DATA)
    refused(done, "redriven already")
    left = json_lines(holdfast_here("dead-letters", "--json", cwd=place, variables=DATA).stdout)
    assert [x["id"] for x in left] == [str(letter["id"])[:2] + "2"]  # it failed again


def test_a_paused_agent_holds_its_events(place: Path, running: Running) -> None:
    receipt_of(place, "pause", "Drone/d-1", "--reason", "rotor check")
    receipt = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=50")
    assert state_of(place, "d-1", receipt)["battery"] == 100.0
    assert (
        holdfast_here("paused", cwd=place, variables=DATA).stdout == "Drone/d-1\t1\trotor check\n"
    )
    assert state_of(place, "d-1", receipt_of(place, "resume", "Drone/d-1"))["battery"] == 50.0
    assert holdfast_here("paused", cwd=place, variables=DATA).stdout == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(place: Path, number: signal.Signals) -> None:
    lines = "".join(event_line(f"d-{i % 50}", "Battery", percent=i) for i in range(1000, 3000))
    with Running(*TWO_WORKERS, cwd=place) as running:
        eventually("two workers", lambda: len(running.workers()) == 2)
        workers = running.workers()
        sent = holdfast_here("send", "--file", "-", cwd=place, given=lines, variables=DATA)
        assert running.stop(number) == 0
        assert "delivery has stopped" in running.rest_of_output()
        assert not any(map(alive, workers))
        assert running.errors.read_text() == ""
    with Running("fleet.py", "--data", "data", cwd=place):
        receipt = sent.stdout.strip()
        assert [state_of(place, f"d-{i}", receipt)["battery"] for i in (0, 49)] == [2950.0, 2999.0]


@pytest.mark.kill
def test_workers_end_with_a_killed_supervisor_and_a_successor_takes_over(place: Path) -> None:
    with Running(*TWO_WORKERS, cwd=place) as first:
        eventually("two workers", lambda: len(first.workers()) == 2)
        workers = first.workers()
        before = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=40")
        assert state_of(place, "d-1", before)["battery"] == 40.0
        first.process.kill()
        first.process.wait()
        begun = time.monotonic()
        eventually("the workers end by themselves", lambda: not any(map(alive, workers)))
        assert time.monotonic() - begun < patient(2.0), "they go on without a supervisor"
    with Running(*TWO_WORKERS, cwd=place):
        after = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=30")
        assert state_of(place, "d-1", after)["battery"] == 30.0


@pytest.mark.kill
def test_a_successor_need_not_wait_for_the_workers_of_a_killed_supervisor(place: Path) -> None:
    with Running(*TWO_WORKERS, cwd=place) as first:
        eventually("two workers", lambda: len(first.workers()) == 2)
        workers = first.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)  # they cannot notice that they are alone
        first.process.kill()
        first.process.wait()
    try:
        with Running(*TWO_WORKERS, cwd=place):
            after = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=30")
            assert state_of(place, "d-1", after)["battery"] == 30.0
            for pid in filter(alive, workers):
                os.kill(pid, signal.SIGCONT)
            eventually("the old workers end", lambda: not any(map(alive, workers)))
    finally:
        for pid in filter(alive, workers):
            os.kill(pid, signal.SIGKILL)


def test_one_directory_has_one_supervisor(place: Path, running: Running) -> None:
    done = holdfast_here("run", "fleet.py", "--data", "data", cwd=place, code=3)
    refused(done, f"process {running.process.pid} runs this fleet already")


def test_an_idle_fleet_costs_nothing(place: Path, running: Running) -> None:
    eventually("two workers", lambda: len(running.workers()) == 2)
    receipt = receipt_of(place, "send", "Drone/d-1", "Battery", "percent=40")
    state_of(place, "d-1", receipt)  # both have started, and one has folded
    pids = [running.process.pid, *running.workers()]

    def is_idle() -> bool:
        """Through a second, by what the processes do: others on the machine change none of it.

        Who looks every few milliseconds is never idle, and neither is who does not wait at all.
        What a start leaves behind, such as compiling files, has its end.
        """
        before = [(wakeups(pid), cpu_seconds(pid)) for pid in pids]
        time.sleep(1.0)
        spent = [
            (wakeups(pid) - woken, round(cpu_seconds(pid) - used, 2))
            for pid, (woken, used) in zip(pids, before, strict=True)
        ]
        print(spent)
        return all(woken <= 50 and used <= 0.02 for woken, used in spent)

    eventually("a second with few wake-ups", is_idle)
    assert sum(is_idle() for _ in range(3)) >= 2, "idle only now and then"


def test_the_number_of_partitions_belongs_to_the_data(place: Path) -> None:
    with Running("fleet.py", "--workers", 3, "--partitions", 2, "--data", "data", cwd=place) as run:
        assert "2 partitions, 2 workers" in run.start_line
        assert run.stop() == 0
    done = holdfast_here("run", "fleet.py", "--partitions", 3, "--data", "data", cwd=place, code=2)
    refused(done, "has 2 partitions, not 3", "leave --partitions out")


def pinned(workers: list[int]) -> list[int]:
    """The cores that any of their threads may use; none of a worker that has ended meanwhile."""
    folders = [Path(f"/proc/{pid}/task") for pid in workers]
    threads = [{int(each.name) for each in folder.glob("*")} for folder in folders]
    allowed = [set().union(*map(os.sched_getaffinity, each)) for each in threads]
    return sorted(core for cores in allowed for core in cores)


def test_pinned_workers_keep_to_one_core_each(place: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    two = [cores[0], cores[1 % len(cores)]]
    with Running(*TWO_WORKERS, "--pin", cwd=place) as running:
        receipt_of(place, "send", "Drone/d-1", "Battery", "percent=9")
        eventually("two workers", lambda: len(running.workers()) == 2)
        eventually("their cores", lambda: pinned(running.workers()) == two)
        os.kill(running.workers()[0], signal.SIGKILL)
        eventually("a successor", lambda: len(running.workers()) == 2)
        eventually("its core", lambda: pinned(running.workers()) == two)
