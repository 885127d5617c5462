"""`python -m bench.stages`: what an event costs, stage by stage, in nanoseconds.

Producer and worker take turns in one thread, so nothing overlaps and nothing waits but for the
disk. The library of bench/slow_sync is loaded to tell how long syncs took; here it makes none
slower.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contenders.holdfast import COLUMNS_SEND, ROWS_SEND
from bench.events import Events, Stream
from bench.ours.producing import columns_sender, rows_sender
from bench.program import COMPILED, fleet
from bench.slow_sync import build
from holdfast import Live
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.state import SqliteState
from holdfast.engine.urls import open_engine
from holdfast.runtime.heap import keep_freed_memory
from holdfast.runtime.partition import Partition
from holdfast.runtime.worker import Worker
from holdfast.stepping.stepper import Stepper

EVENTS_PER_COMMIT = 131_072
COMMITS, WARM_COMMITS = 16, 3

STAGES: tuple[tuple[str, str, type, str], ...] = (
    ("producer", "check, split by partition, encode", Live, "send_columns"),
    ("producer", "check, split by partition, encode", Live, "send_many"),
    ("producer", "append: dedupe, write", SqliteInbox, "append"),
    ("worker", "read: fetch, check the sum", SqliteInbox, "read"),
    ("worker", "decode", Partition, "_decode"),
    ("worker", "fold", Stepper, "step"),
    ("worker", "encode states and outputs", Stepper, "_commit"),
    ("worker", "commit: write", SqliteState, "commit"),
    ("worker", "compaction", SqliteState, "compact"),
    ("worker", "the rest", Worker, "tick"),
)


class Stopwatch:
    """Time by stage; what a stage calls that is a stage itself is not its own."""

    def __init__(self, synced: Callable[[], int]) -> None:
        self.taken: dict[tuple[str, str], int] = defaultdict(int)
        self._synced = synced
        self._inner = [0]

    def around(self, process: str, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            begin, synced = time.perf_counter_ns(), self._synced()
            self._inner.append(0)
            try:
                return work(*arguments, **named)
            finally:
                inner = self._inner.pop()
                whole = time.perf_counter_ns() - begin
                if stage in _SYNCING:
                    disk = self._synced() - synced
                    self.taken[process, "wait for the disk"] += disk
                    inner += disk
                self.taken[process, stage] += whole - inner
                self._inner[-1] += whole

        return timed


_SYNCING = {stage for _, stage, cls, _ in STAGES if cls in (SqliteInbox, SqliteState)}


def measure(folder: str) -> None:
    library = ctypes.CDLL(str(build()))
    library.synced_nanoseconds.restype = ctypes.c_longlong
    watch = Stopwatch(library.synced_nanoseconds)
    for process, stage, cls, name in STAGES:
        setattr(cls, name, watch.around(process, stage, getattr(cls, name)))
    size = (COLUMNS_SEND if COMPILED else ROWS_SEND)[0]
    engine = open_engine(f"sqlite:{folder}/data", fleet.name, create_partitions=1)
    live = Live(fleet, engine)
    stream = Stream()
    send = (columns_sender if COMPILED else rows_sender)(live, stream.agents)

    def make_and_send(at: int) -> None:
        send(Events(stream, 0, 1, at, size), "one", at + 1)

    make = watch.around("producer", "make the events", make_and_send)
    worker = Worker(fleet, engine, [0])
    gc.freeze()
    keep_freed_memory()  # as worker processes do
    at = 0
    for commit in range(WARM_COMMITS + COMMITS):
        if commit == WARM_COMMITS:
            watch.taken.clear()
        for _ in range(EVENTS_PER_COMMIT // size):
            make(at)
            at += size
        while worker.tick():
            pass
    print(f"\n{'compiled' if COMPILED else 'interpreted'}, sends of {size:,}, ns per event")
    for process in ("producer", "worker"):
        own = {stage: taken for (who, stage), taken in watch.taken.items() if who == process}
        for stage, taken in sorted(own.items(), key=lambda each: -each[1]):
            print(f"  {process:9}{stage:36}{taken / COMMITS / EVENTS_PER_COMMIT:8.1f}")


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        os._exit(0)
    Path("bench-data").mkdir(exist_ok=True)
    for compiled in "10":
        folder = tempfile.mkdtemp(dir=Path("bench-data").resolve())
        environment = {
            **os.environ,
            "BENCH_COMPILED": compiled,
            "BENCH_WATCHDOG_SECONDS": "3600",
            "LD_PRELOAD": str(build()),
            "SLOW_SYNC_MICROSECONDS": "0",
        }
        try:
            words = [sys.executable, "-u", "-m", "bench.stages", folder]
            subprocess.run(words, env=environment, check=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
