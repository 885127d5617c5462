"""Peers that are a Python script of their own: PyFlink in thread mode, and Bytewax."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.contenders.base import Guarantees, call, judged, read
from bench.contenders.venvs import PEERS, install
from bench.results import Result, percentiles
from bench.slow_sync import build
from bench.workloads import Workload

START_SECONDS_MAX = 300.0
TRIAL_EVENTS = 40_000


class Scripted:
    """`bench/peers/<folder>/drones.py PLAN OUT`."""

    guarantees: Guarantees
    name: str
    folder: str
    ways: Sequence[str]
    until_time = True  # it can end after so many seconds; others are told how many events

    def prepare(self) -> None:
        self._python = install(self.folder)

    def settings(self) -> Sequence[str]:
        return self.ways

    def refuses(self, workload: Workload) -> str:
        return "it has no sends" if workload.name.startswith("send-") or workload.kill else ""

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        if not self.until_time and not workload.most:
            workload = replace(workload, most=self._enough(workload, setting, folder))
        return self._run(workload, setting, folder)

    def _enough(self, workload: Workload, setting: str, folder: Path) -> int:
        """As many events as fill the time, by a short trial."""
        if workload.rate:
            return workload.offered
        trial = folder / "trial"
        trial.mkdir()
        events = max(TRIAL_EVENTS, workload.stream.agents)
        rate = self._run(replace(workload, most=events), setting, trial).per_second
        return max(events, int(rate * (workload.warmup + workload.seconds)))

    def _run(self, workload: Workload, setting: str, folder: Path) -> Result:
        plan, out = folder / "plan.json", folder / "result.json"
        fields = {
            **workload.as_json()["stream"],
            "workers": int(setting.rsplit(maxsplit=1)[-1]),
            "seconds": workload.seconds,
            "most": workload.most or workload.offered,
            "first_counted": self._first_counted(workload),
            "rate": workload.rate,
            "watchdog": 3600 if workload.watchdog else 0,
            "folder": str(folder),
        }
        plan.write_text(json.dumps(fields))
        # The embedded interpreter of PyFlink does not find the environment by itself.
        packages = next(self._python.parents[1].glob("lib/python*/site-packages"))
        environment = {"PYTHONPATH": str(packages)}
        if workload.slow_sync:
            environment["LD_PRELOAD"] = str(build())
        words = [self._python, PEERS / self.folder / "drones.py", plan, out]
        # A peer that cannot keep up with an offered rate takes longer than its time.
        call(words, folder, environment, 10 * workload.seconds + START_SECONDS_MAX)
        found = read(out)
        figures = {"arrival": percentiles(found["latencies"])} if workload.rate else {}
        return judged(self.name, workload, setting, found, **figures)

    def _first_counted(self, workload: Workload) -> int:
        """The number of the event where the clock begins."""
        if workload.rate:
            return workload.first_counted
        whole = workload.warmup + workload.seconds
        return int(workload.most * workload.warmup / whole)


class PyFlink(Scripted):
    guarantees = Guarantees(
        log="none: its sequence source gives each number again after a failure",
        state="exactly once, as of the last checkpoint (every second, synced to a local directory)",
        actions="counted when they reach the last step; a failure would repeat some",
        not_given="as Flink; and actions here do not wait for their checkpoint",
    )
    name = "PyFlink, thread mode"
    folder = "pyflink"
    ways = ("parallelism 1", "parallelism 2")
    until_time = False


class Bytewax(Scripted):
    guarantees = Guarantees(
        log="none: its source makes each event again from a number after a failure",
        state="exactly once, as of the last epoch (every second, synced into SQLite)",
        actions="counted when they reach the sink; a failure would repeat some",
        not_given="an event outlives a crash only if its source can give it again; messages "
        "between drones go one way, to a second step",
    )
    name = "Bytewax"
    folder = "bytewax"
    ways = ("workers 1", "workers 2")
