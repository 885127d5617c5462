"""`python -m bench.metering`: what metering costs, on and off in turn within one run.

Two workers on fleets of their own, one metered, take the same blocks of commits one after the
other; told is the processor time of their threads, and the median of the ratios. Commits of one
event, where what is done per commit weighs most, and of 16,384, interpreted and compiled.
Publishing is on another thread, once a second: its processor time is told by itself.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.events import Stream
from bench.in_turn import AGENTS, BLOCKS, LARGE, SMALL, Size, block_of, print_both_kinds
from bench.ours.producing import columns_sender, rows_sender
from bench.program import COMPILED, fleet
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.metering.board import publish
from holdfast.runtime.metering.reporting import of_worker
from holdfast.runtime.metering.vitals import vitals
from holdfast.runtime.worker import Worker


def in_turn(folder: Path, size: Size) -> dict[str, float]:
    off, on = (prepare(folder / str(metered), metered, size) for metered in (False, True))
    pairs = [(off(), on()) for _ in range(BLOCKS)][1:]  # the first warms them up
    commits = size[2]
    return {
        "microseconds_off": round(1e6 * statistics.median(a for a, _ in pairs) / commits, 1),
        "microseconds_on": round(1e6 * statistics.median(b for _, b in pairs) / commits, 1),
        "percent": round(100 * (statistics.median(b / a for a, b in pairs) - 1), 2),
    }


def prepare(folder: Path, metered: bool, size: Size) -> Callable[[], float]:
    """A worker, and how much processor time a block of commits takes it."""
    stream = Stream(agents=AGENTS)
    engine = open_engine(f"sqlite:{folder}", fleet.name, create_partitions=1)
    live = Live(fleet, engine)
    send = (columns_sender if COMPILED else rows_sender)(live, stream.agents)
    worker = Worker(fleet, engine, [0], metered=metered)
    return block_of(worker, stream, size, lambda part, first: send(part, "one", first))


def publishing(folder: Path) -> float:
    """Milliseconds of telling once, which every process does once a second."""
    engine = open_engine(f"sqlite:{folder}", fleet.name, create_partitions=1)
    worker = Worker(fleet, engine, [0], metered=True)
    worker.tick()
    begin = time.thread_time()
    for _ in range(100):
        publish(folder / "metrics", "worker-0", [*vitals("worker-0"), *of_worker(worker, "w")])
    return round((time.thread_time() - begin) * 10, 3)


def one_kind() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        figures = {
            "commits_of_1": in_turn(folder / "small", SMALL),
            "commits_of_16384": in_turn(folder / "large", LARGE),
            "publishing_milliseconds": publishing(folder / "publishing"),
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    one_kind() if sys.argv[1:] else print_both_kinds("bench.metering")
