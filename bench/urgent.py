"""`python -m bench.urgent`: how long an order takes past a backlog of telemetry.

A worker folds; producers send more positions than it can take, so that a backlog grows. Ten times
a second one order is sent that is urgent, and now and then one that is not. Told is the time from
before the send to the commit that has its action.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.urgent_fleet import Drone, LandInTurn, LandNow, Position, fleet
from holdfast import Event, Live

FLEET = Path(__file__).with_name("urgent_fleet.py")
HOLDFAST = Path(sys.executable).with_name("holdfast")
DRONES = 1_000
PER_SEND = 1_000


def flood(url: str, stop: threading.Event, per_second: int) -> None:
    rows = [(Drone, f"d-{i % DRONES}", Position(lat=i / 7, lon=i / 9)) for i in range(PER_SEND)]
    due = time.monotonic()
    with fleet.connect(url) as live:
        while not stop.is_set():
            live.send_many(rows)
            due += PER_SEND / per_second
            time.sleep(max(0.0, due - time.monotonic()))


def seconds_for(live: Live, key: str, order: Event) -> float:
    begun = time.perf_counter()
    receipt = live.send(Drone, key, order)
    live.state(Drone, key, after=receipt, timeout=600.0)
    return time.perf_counter() - begun


def measure(url: str, seconds: float, per_second: int) -> dict[str, object]:
    stop, urgent, in_turn, backlog = threading.Event(), [0.0], [0.0], 0
    threads = [threading.Thread(target=flood, args=(url, stop, per_second // 2)) for _ in range(2)]
    with fleet.connect(url) as live, fleet.connect(url) as other:
        begun = time.monotonic()

        def without() -> None:
            while not stop.is_set():
                in_turn.append(seconds_for(other, "d-2", LandInTurn()))

        threads.append(threading.Thread(target=without))
        for thread in threads:
            thread.start()
        while time.monotonic() - begun < seconds:
            time.sleep(0.1)
            urgent.append(seconds_for(live, "d-1", LandNow()))
            backlog = max(backlog, sum(each.lag for each in live.positions().values()))
        stop.set()
        for thread in threads:
            thread.join()
        live.settle(timeout=600.0)
    return {
        "orders": len(urgent) - 1,
        "backlog_most": backlog,
        "urgent_p50_ms": round(1e3 * statistics.median(urgent[1:]), 1),
        "urgent_p99_ms": round(1e3 * sorted(urgent[1:])[int(0.99 * (len(urgent) - 1))], 1),
        "urgent_most_ms": round(1e3 * max(urgent), 1),
        "in_turn_most_ms": round(1e3 * max(in_turn), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=150_000, help="positions a second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-urgent-") as folder:
        url = f"sqlite:{folder}/data"
        words = [str(HOLDFAST), "run", str(FLEET), "--engine", url]
        run = subprocess.Popen([*words, "--workers", "1", "--port", "none"])
        try:
            while not (Path(folder) / "data" / "p000" / "state.db").exists():
                time.sleep(0.1)
            print(json.dumps(measure(url, arguments.seconds, arguments.rate)))
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait()


if __name__ == "__main__":
    main()
