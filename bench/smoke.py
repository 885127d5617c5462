"""`make bench-smoke`: throughput and latency of the interpreted path, as JSON.

Throughput: one producer process sends batches of 4,096 positions of 5,000 drones as fast as it
can; the clock runs from the first send until every event is folded and its action committed.
Construction of the events is counted. States and actions are compared with an oracle afterwards.

Latency: an open loop offers 5,000 events/s, each of which makes an action; the clock of an event
runs from the moment it was due to be sent until a reader in another process sees its action.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.drones import DRONES, KEYS, Drone, Position, coordinates, fleet
from holdfast.engine.urls import open_engine
from holdfast.runtime.launching import Launcher

BATCH = 4_096
POOL = 262_144


def produce(url: str, producer: int, events: int, ready: object, go: object) -> None:
    rows = coordinates(producer, POOL)
    with fleet.connect(url) as live:
        ready.release()  # type: ignore[attr-defined]
        go.wait()  # type: ignore[attr-defined]
        sent = 0
        while sent < events:
            at = sent % POOL
            part = rows[at : at + BATCH]
            batch = [(Drone, key, Position(lat, lon, alt)) for key, lat, lon, alt in part]
            live.send_many(batch, source=f"producer-{producer}", first_seq=sent + 1)
            sent += len(batch)


def expected(producer: int, events: int) -> tuple[dict[str, float], int]:
    """The last altitude per drone and the number of actions, without Holdfast."""
    rows = coordinates(producer, POOL)
    altitude: dict[str, float] = {}
    actions = 0
    for n in range(events):
        key, _, _, alt = rows[n % POOL]
        altitude[key] = alt
        actions += alt > 100.0
    return altitude, actions


def throughput(url: str, events: int) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    process = context.Process(target=produce, args=(url, 1, events, ready, go))
    process.start()
    ready.acquire()
    with fleet.connect(url) as live:
        live.send(Drone, KEYS[0], Position(0.0, 0.0, 0.0))
        live.settle()  # workers are up
        begin = time.perf_counter()
        go.set()
        process.join()
        sent = time.perf_counter() - begin
        live.settle(timeout=600)
        seconds = time.perf_counter() - begin
        altitude, actions = expected(1, events)
        states = dict(live.states(Drone))
        wrong = sum(states[key].alt != alt for key, alt in altitude.items())
        issued, cursor = 0, None
        while page := live.actions(after=cursor):
            issued, cursor = issued + len(page), page.cursor
    if process.exitcode or wrong or issued != actions:
        found = f"exit {process.exitcode}, {wrong} states wrong, {issued} of {actions} actions"
        sys.exit(f"wrong result: {found}")
    return {
        "events": events,
        "events_per_second": round(events / seconds),
        "producer_events_per_second": round(events / sent),
        "seconds": round(seconds, 3),
        "actions": issued,
        "states_checked": len(altitude),
    }


def watch(url: str, expected: int, ready: object, seen: object) -> None:
    """A reader in a process of its own: when it first saw each action."""
    seen_at: dict[str, float] = {}
    with fleet.connect(url) as reader:
        cursor = reader.actions(most=10**9).cursor
        ready.release()  # type: ignore[attr-defined]
        while len(seen_at) < expected:
            page = reader.actions(after=cursor)
            now = time.perf_counter()
            for action in page:
                seen_at[action.id] = now
            cursor = page.cursor
            time.sleep(0.001)
    seen.put(seen_at)  # type: ignore[attr-defined]


def latency(url: str, rate: int, seconds: float) -> dict[str, object]:
    """Versions number a drone's events, so an action's id tells which event made it."""
    total = int(rate * seconds)
    context = multiprocessing.get_context("spawn")
    ready, seen = context.Semaphore(0), context.Queue()
    watcher = context.Process(target=watch, args=(url, total, ready, seen))
    watcher.start()
    ready.acquire()
    due_at: dict[str, float] = {}
    versions = dict.fromkeys(KEYS, 0)
    with fleet.connect(url) as live:
        begin = time.perf_counter()
        sent = 0
        while sent < total:
            due = min(total, int((time.perf_counter() - begin) * rate))
            if due == sent:
                time.sleep(0.001)
                continue
            batch = []
            for n in range(sent, due):
                key = KEYS[n % DRONES]
                versions[key] += 1
                due_at[f"bench/Drone/{key}/{versions[key]}/0"] = begin + n / rate
                batch.append((Drone, key, Position(0.0, 0.0, 101.0)))
            live.send_many(batch)
            sent = due
        seen_at = seen.get()
        watcher.join()
    taken = sorted(1000 * (seen_at[i] - due) for i, due in due_at.items())

    def at(share: float) -> float:
        return round(float(taken[min(len(taken) - 1, int(len(taken) * share))]), 3)

    return {
        "offered_per_second": rate,
        "events": total,
        "p50_ms": at(0.50),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
    }


def sync_milliseconds(folder: Path) -> float:
    path = folder / "sync-probe"
    with open(path, "wb") as file:
        begin = time.perf_counter()
        for _ in range(100):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        taken = time.perf_counter() - begin
    path.unlink()
    return round(taken * 10, 3)


def with_workers(folder: Path, workers: int, job: Callable[[str], dict[str, object]]) -> object:
    url = f"sqlite:{folder}/data-{workers}-{time.time_ns()}"
    open_engine(url, fleet.name, create_partitions=workers).close()
    launcher = Launcher(str(Path(__file__).with_name("drones.py")), url, workers, range(workers))
    thread = threading.Thread(target=launcher.run)
    thread.start()
    try:
        return job(url)
    finally:
        launcher.stop()
        thread.join()
        shutil.rmtree(url.partition(":")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    options.events -= options.events % -BATCH  # whole batches
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.folder or "."))
    try:
        result = {
            "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
            "sync_ms": sync_milliseconds(folder),
            # First, because what throughput leaves to be written back would stand in its way.
            "latency_1_worker": with_workers(
                folder, 1, lambda url: latency(url, 5_000, options.seconds)
            ),
            "throughput_1_worker": with_workers(
                folder, 1, lambda url: throughput(url, options.events)
            ),
            "throughput_2_workers": with_workers(
                folder, 2, lambda url: throughput(url, options.events)
            ),
        }
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
