"""What a snapshot of 100,000 agents costs: bytes, seconds, and to whoever waits for an action.

    python -m bench.snapshots [--agents N] [--seconds S]

A fleet runs as `holdfast run` has it, with two worker processes; one percent of its agents change
every second. A client sends an event every few milliseconds and waits for the action it leads to:
first without snapshots, then while another process makes one after the other, then without again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import Action, Agent, Context, Event, Fleet, Live, on
from holdfast.blob.files import FileBlob
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.launching import Launcher
from holdfast.runtime.snapshots.creating import Creation, Memory
from holdfast.runtime.snapshots.running import NICENESS
from holdfast.runtime.snapshots.store import SnapshotStore

BATCH = 10_000
PAUSE_SECONDS = 0.005


class Report(Event):
    lat: float
    lon: float
    battery: float


class Probe(Event):
    pass


class Seen(Action):
    pass


class Drone(Agent):
    name: str = ""
    lat: float = 0.0
    lon: float = 0.0
    battery: float = 100.0
    reports: int = 0

    @on
    def report(self, event: Report, ctx: Context) -> None:
        self.name = f"drone {ctx.key}"
        self.lat, self.lon, self.battery = event.lat, event.lon, event.battery
        self.reports += 1

    @on
    def probe(self, event: Probe, ctx: Context) -> None:
        ctx.emit(Seen())


fleet = Fleet("bench", agents=[Drone])


def report(key: int) -> tuple[type[Drone], str, Report]:
    place = random.uniform(-90, 90), random.uniform(-180, 180)
    return Drone, f"d-{key}", Report(lat=place[0], lon=place[1], battery=random.uniform(0, 100))


def latencies(live: Live, seconds: float, done: threading.Event | None = None) -> list[float]:
    """Event to action, in milliseconds, until the time is over or `done` is set."""
    cursor = live.actions().cursor
    while page := live.actions(after=cursor):
        cursor = page.cursor
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (done is not None and done.is_set()):
        start = time.perf_counter()
        live.send(Drone, f"d-{random.randrange(1000)}", Probe())
        while not (page := live.actions(after=cursor)):
            pass
        found.append((time.perf_counter() - start) * 1000)
        cursor = page.cursor
        time.sleep(PAUSE_SECONDS)
    return found


def told(what: str, found: list[float]) -> None:
    cuts = statistics.quantiles(found, n=1000)
    print(
        f"{what:<28} {len(found):>6} probes: p50 {cuts[499]:6.2f} ms, p99 {cuts[989]:6.2f} ms, "
        f"p99.9 {cuts[998]:6.2f} ms, max {max(found):6.2f} ms",
        flush=True,
    )


def snapshots(root: Path, count: int) -> None:
    """The other process: as the snapshotter of `holdfast run`, but without rests."""
    os.nice(NICENESS)
    engine = SqliteEngine(root / "data")
    creation = Creation(engine, SnapshotStore(FileBlob(root / "snapshots")), Memory())
    for _ in range(count):
        made = creation.run()
        print(f"  {made.chunks} chunks, {made.bytes:,} bytes, {made.seconds:.2f} s", flush=True)


def measure(root: Path, agents: int, seconds: float) -> None:
    SqliteEngine.create(root / "data", fleet.name, 2)
    launcher = Launcher(f"{__file__}:fleet", f"sqlite:{root / 'data'}", 2, range(2))
    supervisor = threading.Thread(target=launcher.run)
    supervisor.start()
    try:
        with fleet.connect(f"sqlite:{root / 'data'}") as live:
            for first in range(0, agents, BATCH):
                live.send_many([report(key) for key in range(first, first + BATCH)])
            live.settle(timeout=120.0)
            with changing(live, agents):
                told("without a snapshot", latencies(live, seconds))
                told("with snapshots under way", beside(root, live))
                told("without again", latencies(live, seconds))
    finally:
        launcher.stop()
        supervisor.join()


def beside(root: Path, live: Live) -> list[float]:
    words = [sys.executable, "-m", "bench.snapshots", "--root", str(root), "--count", "8"]
    child = subprocess.Popen(words)
    over = threading.Event()

    def wait() -> None:
        child.wait()
        over.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    found = latencies(live, 600.0, over)
    waiting.join()
    return found


@contextmanager
def changing(live: Live, agents: int) -> Iterator[None]:
    over = threading.Event()

    def change() -> None:
        while not over.wait(1.0):
            live.send_many([report(key) for key in random.sample(range(agents), agents // 100)])

    changes = threading.Thread(target=change)
    changes.start()
    try:
        yield
    finally:
        over.set()
        changes.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.root is not None:
        snapshots(wanted.root, wanted.count)
        return
    root = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        measure(root, wanted.agents, wanted.seconds)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
