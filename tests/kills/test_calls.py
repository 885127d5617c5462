"""Goal: whoever is killed while calls run, every call is answered once and has run at least once.

Victims are workers, the process that runs the calls, its children, the supervisor, and all of them
together. HOLDFAST_KILL_SEEDS and HOLDFAST_KILLS as in test_random_kills.py.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.kills import clerks
from tests.kills.harness import (
    PATIENCE_SECONDS,
    Site,
    children,
    ended,
    eventually,
    gone,
    site,
    strike,
)

SEEDS = [int(seed) for seed in os.environ.get("HOLDFAST_KILL_SEEDS", "1").split(",")]
KILLS = int(os.environ.get("HOLDFAST_KILLS", "8"))
VICTIMS = {"worker": 4, "caller": 5, "child": 8, "keeper": 3, "everyone": 1}
AGENTS = 12


class Office:
    """The processes of one run by their parts."""

    def __init__(self, place: Site, seed: int) -> None:
        self._site = place
        self._chance = random.Random(seed)
        self.keeper = place.keeper(2)
        self.kills: Counter[str] = Counter()

    def parts(self) -> dict[str, list[int]]:
        callers = children(self.keeper.pid, "calling.process")
        return {
            "worker": children(self.keeper.pid, "runtime.process"),
            "caller": callers,
            "child": [pid for caller in callers for pid in children(caller)],
        }

    def everybody(self) -> list[int]:
        return [pid for pids in self.parts().values() for pid in pids]

    def kill(self) -> None:
        victim = self._chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        parts = self.parts()
        if victim == "everyone":
            for pid in self.everybody():
                strike(pid)
        elif victim != "keeper" and parts[victim]:
            strike(self._chance.choice(parts[victim]))
        if victim in ("keeper", "everyone"):
            left = self.everybody()
            ended(self.keeper)
            eventually(lambda: gone(left), "all end with their supervisor")
            self.keeper = self._site.keeper(2)
        self.kills[victim] += 1


def runs(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def goes_on(log: Path, before: int) -> bool:
    return runs(log) > before


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_call_is_answered_once_whoever_is_killed(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(f"tasks {seed}")
    with site("partitions=2", "tests.kills.clerks:fleet") as place:
        log = place.folder / "log"
        office = Office(place, seed)
        place.laid_out()
        with clerks.fleet.connect(place.url) as live:
            before = 0
            for _ in range(KILLS):
                for _ in range(chance.randrange(1, 6)):
                    task = clerks.Task(str(log), chance.choice((0.0, 0.1, 0.5, 1.0)))
                    live.send(clerks.Clerk, f"c-{chance.randrange(AGENTS)}", task)
                eventually(partial(goes_on, log, before), "calls go on after the last kill")
                time.sleep(chance.uniform(0.0, 0.3))
                office.kill()
                before = runs(log)
            live.settle(timeout=PATIENCE_SECONDS)
            states = dict(live.states(clerks.Clerk))
            assert live.dead_letters() == []
        made = [call for clerk in states.values() for call in clerk.made]
        done = Counter[str]()
        for clerk in states.values():
            done.update(clerk.done)
            assert clerk.failed == []
        ran = Counter(log.read_text().split())
        print(f"seed {seed}: {dict(office.kills)}, {len(made)} calls, run {ran.total()} times")
        assert made, "nothing was called"
        assert done == Counter(made), "each is answered once"
        assert set(ran) == set(made), "each has run, and nothing else"
        assert ran.total() > len(made), "no kill hit a call: the run was too gentle"
        assert place.surprises() == []


@pytest.mark.kill
def test_nobody_outlives_the_supervisor() -> None:
    with site("partitions=2", "tests.kills.clerks:fleet") as place:
        office = Office(place, 0)
        place.laid_out()
        with clerks.fleet.connect(place.url) as live:
            live.send(clerks.Clerk, "c", clerks.Task(str(place.folder / "log"), 600.0))
            eventually(lambda: len(office.parts()["child"]) == 2, "both functions run")
            everybody = office.everybody()
            assert len(everybody) == 2 + 1 + 2
            ended(office.keeper)
            eventually(lambda: gone(everybody), "all end with their supervisor")


@pytest.mark.kill
def test_calls_of_a_worker_that_died_before_it_could_tell_are_run() -> None:
    """Every worker dies right behind its first commit, so nobody hears of the call it holds."""
    with site("partitions=1", "tests.kills.clerks:fleet") as place:
        place.environment["HOLDFAST_FAULT"] = "commit.after:1:kill"
        place.keeper(1)
        place.laid_out()
        with clerks.fleet.connect(place.url) as live:
            live.send(clerks.Clerk, "c", clerks.Task(str(place.folder / "log"), 0.0))
            live.settle(timeout=PATIENCE_SECONDS)
            clerk = live.state(clerks.Clerk, "c")
            assert sorted(clerk.done) == sorted(clerk.made)
        died = "worker 0 ended (-9)"
        eventually(lambda: place.log("keeper").count(died) >= 2, "both deaths are told")


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_running_functions_and_keeps_their_calls(how: signal.Signals) -> None:
    with site("partitions=1", "tests.kills.clerks:fleet") as place:
        log = place.folder / "log"
        keeper = run_command(place)
        place.laid_out()
        with clerks.fleet.connect(place.url) as live:
            live.send(clerks.Clerk, "c", clerks.Task(str(log), 600.0))
            eventually(lambda: log.exists() and len(log.read_text().split()) == 2, "runs")
            hosts = [pid for below in children(keeper.pid) for pid in children(below)]
            assert len(hosts) == 2
            keeper.send_signal(how)
            assert keeper.wait(PATIENCE_SECONDS) == 0
            assert gone(hosts)
            assert len(live._engine.view(0).calls(0, 10)) == 2
        assert place.surprises() == []


def run_command(place: Site) -> subprocess.Popen[bytes]:
    words = ["run", "tests.kills.clerks:fleet", "--engine", place.url]
    return place.start("run", ["tests.kills.holdfast_command", *words])
