"""Holdfast, interpreted and compiled: the same source, as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.contenders.base import ROOT, Guarantees, call, judged, read
from bench.results import Result, Unavailable
from bench.slow_sync import build
from bench.workloads import Workload

RUN_SECONDS_MAX = 3_600.0
# Events in a send, and threads that send: columns cost the same for many, rows are objects.
COLUMNS_SEND, ROWS_SEND = (65_536, 2), (4_096, 1)


class Holdfast:
    guarantees = Guarantees(
        log="every event, synced before the send returns, deduplicated by source and number",
        state="exactly once; each commit synced",
        actions="committed with the state; readable by anybody at once, with a stable id",
        not_given="the loss of the disk",
    )

    def __init__(self, compiled: bool, columns: bool | None = None) -> None:
        """Compiled agents are sent columns, others rows, unless told otherwise."""
        self.name = "Holdfast compiled" if compiled else "Holdfast interpreted"
        self._compiled = compiled
        self._columns = compiled if columns is None else columns

    def prepare(self) -> None:
        """Without numba or numpy it is told when the fleet is opened or keys are asked for."""
        keys = "live.keys(Drone, ['d-0'])" if self._columns else "pass"
        program = (
            f"from bench.program import Drone, fleet\nwith fleet.open('memory:') as live: {keys}"
        )
        words = [sys.executable, "-c", program]
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=self._environment(Workload("")),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1].replace(f"{ROOT}/", "")
            raise Unavailable(f"cannot run here: {why}")

    def settings(self) -> Sequence[str]:
        return ("1 worker", "2 workers")

    def refuses(self, workload: Workload) -> str:
        return ""

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        found = self.measure(workload, folder, workers=int(setting.split(maxsplit=1)[0]))
        names = ("latency", "worker_bytes", "recovery", "sent_seconds", "killed_at")
        figures = {name: found[name] for name in names if name in found}
        return judged(self.name, workload, setting, {**found, **found["outcome"]}, **figures)

    def measure(self, workload: Workload, folder: Path, **options: Any) -> dict[str, Any]:
        """One run with more choices than a setting has, for the on/off table."""
        if not workload.send:
            send, threads = COLUMNS_SEND if self._columns else ROWS_SEND
            threads = 1 if workload.rate else threads
            workload = replace(workload, send=send, threads=threads)
        spec, out = folder / "run.json", folder / "result.json"
        fields = {"workload": workload.as_json(), "folder": str(folder), "columns": self._columns}
        spec.write_text(json.dumps({**fields, **options}))
        words = [sys.executable, "-m", "bench.ours.run", str(spec), str(out)]
        call(words, folder, self._environment(workload), RUN_SECONDS_MAX)
        return read(out)

    def _environment(self, workload: Workload) -> Mapping[str, str]:
        environment = dict(os.environ)
        environment["BENCH_COMPILED"] = "1" if self._compiled else "0"
        environment["BENCH_WATCHDOG_SECONDS"] = "3600" if workload.watchdog else "0"
        if workload.slow_sync:
            environment["LD_PRELOAD"] = str(build())
        return environment
