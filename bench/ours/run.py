"""One run of ours: `python -m bench.ours.run SPEC OUT`, started by the contender.

SPEC is JSON: the workload, a folder, workers, producers, rows or columns. OUT gets the result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.oracle import Outcome
from bench.ours.processes import BACKLOG_EVENTS, RETAIN_BYTES, Counters, Producers, Workers, told
from bench.ours.producing import Spec
from bench.ours.reading import outcome_of
from bench.program import fleet
from bench.results import forget_pages, memory_bytes, percentiles
from bench.workloads import Workload
from holdfast import Live

SETTLE_SECONDS = 600.0


@dataclass(frozen=True)
class Run:
    workload: Workload
    folder: Path
    workers: int = 1
    producers: int = 1
    columns: bool = False
    pinned: bool = False
    one_core: bool = False  # workers and producer share a core: nothing overlaps
    engine: str = ""  # an engine URL; empty: SQLite, in the folder

    @property
    def url(self) -> str:
        if self.engine:
            return self.engine
        options = f"retain_bytes={RETAIN_BYTES}&backlog_events_max={BACKLOG_EVENTS}"
        return f"sqlite:{self.folder / 'data'}?{options}"

    def counters(self) -> Counters:
        return Counters(self.folder / "counters", self.producers * self.workload.threads)

    def spec(self, repeat: int = 0) -> Path:
        spec = Spec(
            self.url,
            self.workload,
            self.producers,
            self.columns,
            self.folder / "counters",
            repeat,
        )
        return spec.write(self.folder / "producer.json")


def run(wanted: Run) -> dict[str, Any]:
    if wanted.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    workers = Workers(wanted.url, wanted.workers, wanted.pinned)
    try:
        with fleet.connect(wanted.url) as live, told(wanted.workload, wanted.counters()):
            measure = latency if wanted.workload.rate else throughput
            found = measure(wanted, live)
        if wanted.workload.kill:
            workers.kill()
            workers = Workers(wanted.url, wanted.workers)
            found = goes_on(wanted, found)
        found["worker_bytes"] = sum(map(memory_bytes, workers.pids()))
        found["outcome"] = packed(read_outcome(wanted))
    finally:
        workers.stop()
    if wanted.workload.recover:
        found["recovery"] = recovery(wanted)
    return found


def throughput(wanted: Run, live: Live) -> dict[str, Any]:
    producers = Producers(wanted.spec(), wanted.producers)
    begin = producers.begin()
    if wanted.workload.kill:
        while sum(wanted.counters().all()) == 0 or (
            time.perf_counter() < begin + wanted.workload.seconds / 2
        ):
            time.sleep(0.01)
        producers.kill()  # the workers follow at once
        return {"killed_at": wanted.counters().all()}
    producers.join()
    sent = time.perf_counter() - begin
    live.settle(timeout=SETTLE_SECONDS)
    return {
        "counts": wanted.counters().all(),
        "seconds": time.perf_counter() - begin,
        "sent_seconds": sent,
    }


def goes_on(wanted: Run, before: dict[str, Any]) -> dict[str, Any]:
    """After kill -9: new workers, new producers that repeat their last send under old numbers. Not
    more: another one may be stored that nobody acknowledged, and two of 65,536 are the window."""
    with fleet.connect(wanted.url) as live:
        producers = Producers(wanted.spec(repeat=1), wanted.producers)
        begin = producers.begin()
        producers.join()
        live.settle(timeout=SETTLE_SECONDS)
    counts = wanted.counters().all()
    seconds = time.perf_counter() - begin
    sent = sum(counts) - sum(before["killed_at"])
    return {"counts": counts, "seconds": seconds, "counted": sent, **before}


def latency(wanted: Run, live: Live) -> dict[str, Any]:
    """From the moment an event was due until a reader in another process sees its action."""
    out = wanted.folder / "seen.npz"
    words = [sys.executable, "-m", "bench.ours.reading", wanted.url, str(out)]
    reader = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    producers = Producers(wanted.spec(), wanted.producers)
    begin = producers.begin()
    producers.join()
    counts = wanted.counters().all()
    actions = -(-sum(counts) // wanted.workload.stream.every)
    stop = out.with_name(out.name + ".stop")
    partial = out.with_name(out.name + ".part")
    partial.write_text(str(actions))
    partial.rename(stop)
    if reader.wait(timeout=SETTLE_SECONDS):
        raise RuntimeError(f"the reader ended with {reader.returncode}")
    seconds = time.perf_counter() - begin
    with np.load(out) as seen:
        due = begin + seen["number"] / wanted.workload.rate
        taken = (seen["time"] - due)[seen["number"] >= wanted.workload.first_counted]
    return {"counts": counts, "seconds": seconds, "latency": percentiles(taken)}


def read_outcome(wanted: Run) -> Outcome:
    with fleet.connect(wanted.url) as live:
        return outcome_of(live, wanted.workload.stream.agents)


def packed(outcome: Outcome) -> dict[str, Any]:
    return {"agents": outcome.agents, "states": outcome.states, "actions": outcome.actions}


def recovery(wanted: Run) -> dict[str, Any]:
    """A fresh process with a cold page cache, until it has folded and committed one event."""
    forget_pages(wanted.folder)
    begin = time.perf_counter()
    words = [sys.executable, "-m", "bench.ours.recovering", wanted.url, repr(begin)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    recovered: dict[str, Any] = json.loads(told)
    return recovered


def main() -> None:
    fields = json.loads(Path(sys.argv[1]).read_text())
    workload = Workload.from_json(fields.pop("workload"))
    wanted = Run(workload, Path(fields.pop("folder")), **fields)
    Path(sys.argv[2]).write_text(json.dumps(run(wanted)))


if __name__ == "__main__":
    main()
