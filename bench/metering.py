"""`python -m bench.metering`: what metering costs, on and off within one run.

Large commits: instructions per event, as bench.instructions counts them, of producer and worker in
one thread, interpreted and compiled. Small ones, of a single event, where what is done per commit
weighs most: processor time of the worker, block by block in turn, the median of the ratios.
Publishing is on another thread, once a second: its processor time is told by itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.contenders.holdfast import Holdfast
from bench.drones import KEYS, Drone, Position, fleet
from bench.instructions import LONG_SENDS, SHORT_SENDS, count, counter
from bench.ours.one_thread import SEND
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.metering.board import publish
from holdfast.runtime.metering.reporting import of_worker
from holdfast.runtime.metering.vitals import vitals
from holdfast.runtime.worker import Worker

BLOCKS = 60
COMMITS = 50  # of one block


def large(folder: Path) -> dict[str, object]:
    tool = counter()
    figures: dict[str, object] = {"tool": tool}
    for compiled in (False, True):
        Holdfast(compiled).prepare()
        if compiled:
            count(tool, folder, 0, compiled)  # to the tool's processor the kernels are new
        off, on = (per_event(tool, folder, compiled, metered) for metered in (False, True))
        figures["compiled" if compiled else "interpreted"] = {
            "instructions_off": round(off, 1),
            "instructions_on": round(on, 1),
            "percent": round(100 * (on / off - 1), 2),
        }
        print(json.dumps(figures), file=sys.stderr)
    return figures


def per_event(tool: str, folder: Path, compiled: bool, metered: bool) -> float:
    more = count(tool, folder, LONG_SENDS, compiled, metered=metered)
    more -= count(tool, folder, SHORT_SENDS, compiled, metered=metered)
    return more / ((LONG_SENDS - SHORT_SENDS) * SEND)


def small(folder: Path) -> dict[str, object]:
    runs = [one_by_one(folder / str(metered), metered) for metered in (False, True)]
    pairs = [[run() for run in runs] for _ in range(BLOCKS)]
    pairs = pairs[1:]  # the first block warms it up
    return {
        "microseconds_off": round(1e6 * statistics.median(off for off, _ in pairs) / COMMITS, 1),
        "microseconds_on": round(1e6 * statistics.median(on for _, on in pairs) / COMMITS, 1),
        "percent": round(100 * (statistics.median(on / off for off, on in pairs) - 1), 2),
    }


def one_by_one(folder: Path, metered: bool) -> Callable[[], float]:
    """A worker with a fleet of its own, and how much processor time a block of commits takes it."""
    engine = open_engine(f"sqlite:{folder}", fleet.name, create_partitions=1)
    live = Live(fleet, engine)
    worker = Worker(fleet, engine, [0], metered=metered)
    sent = 0

    def block() -> float:
        nonlocal sent
        taken = 0.0
        for _ in range(COMMITS):
            live.send(Drone, KEYS[sent % len(KEYS)], Position(1.0, 2.0, 3.0))
            sent += 1
            begin = time.thread_time()
            while worker.tick():
                pass
            taken += time.thread_time() - begin
        return taken

    return block


def publishing(folder: Path) -> float:
    """Processor time of telling once, which every process does once a second."""
    engine = open_engine(f"sqlite:{folder}", fleet.name, create_partitions=1)
    worker = Worker(fleet, engine, [0], metered=True)
    worker.tick()
    begin = time.thread_time()
    for _ in range(100):
        publish(folder / "metrics", "worker-0", [*vitals("worker-0"), *of_worker(worker, "w")])
    return round((time.thread_time() - begin) * 10, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Without counting instructions.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        figures: dict[str, object] = {
            "commits_of_one_event": small(folder),
            "publishing_milliseconds": publishing(folder / "publishing"),
        }
        if not options.quick:
            figures["large_commits"] = large(folder)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
