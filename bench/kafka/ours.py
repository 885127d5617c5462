"""Ours on Kafka: `python -m bench.kafka.ours [--seconds 20] [--out FILE]` prints JSON.

One broker, two workers and one producer on this machine: throughput interpreted and compiled,
latency by offered rate and by the interval between transactions, takeover with and without a
standby, restoring 100,000 agents, and events that wait in the topic. Every run is held against the
oracle.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contenders.base import judged
from bench.events import Stream
from bench.kafka.places import fresh
from bench.ours.processes import Workers
from bench.ours.run import Run, run
from bench.workloads import SAMPLES_PER_SECOND, Workload
from tests.servers.kafka import KafkaCluster

AGENTS = 100_000
SESSION_SECONDS = 1.0  # the brokers of the tests allow it
RATES = (1_000, 10_000, 50_000)
INTERVALS = (0.02, 0.1, 0.5)  # seconds between transactions, at the middle rate
WAITING_EVENTS = {"frames": 4_000_000, "records": 1_000_000}


def measured(
    bootstrap: str, workload: Workload, *, columns: bool, **settings: object
) -> dict[str, Any]:
    """One run with two workers, and what the oracle says of it."""
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as place:
        folder = Path(place)
        url = fresh(bootstrap, folder, **settings)
        found = run(Run(workload, folder, workers=2, columns=columns, engine=url))
    outcome = found.pop("outcome")
    result = judged("holdfast", workload, "2 workers", {**found, **outcome})
    told = {"events": sum(found["counts"]), "per_second": round(result.per_second)}
    if "latency" in found:
        told["latency"] = found["latency"]
    return {**told, "wrong": list(result.wrong), "sent_seconds": found.get("sent_seconds")}


def throughput(bootstrap: str, seconds: float) -> dict[str, Any]:
    rows = Workload("positions", seconds=seconds, send=4_096)
    columns = Workload("positions", seconds=seconds, send=65_536)
    return {
        "interpreted": measured(bootstrap, rows, columns=False),
        "compiled": in_another("compiled", bootstrap, columns.seconds, {"BENCH_COMPILED": "1"}),
    }


def compiled(bootstrap: str, seconds: float) -> dict[str, Any]:
    workload = Workload("positions", seconds=seconds, send=65_536)
    return measured(bootstrap, workload, columns=True)


def latency(bootstrap: str, seconds: float) -> dict[str, Any]:
    return {
        str(rate): measured(bootstrap, _offered(rate, seconds), columns=False) for rate in RATES
    }


def intervals(bootstrap: str, seconds: float) -> dict[str, Any]:
    workload = _offered(RATES[1], seconds)
    return {
        f"{interval:g}": measured(
            bootstrap, workload, columns=False, commit_interval_seconds=interval
        )
        for interval in INTERVALS
    }


def _offered(rate: int, seconds: float) -> Workload:
    stream = Stream(every=max(1, rate // SAMPLES_PER_SECOND))
    return Workload("latency", stream, seconds=seconds, rate=rate, warmup=3.0)


def waiting(bootstrap: str, _: float) -> dict[str, Any]:
    found = {}
    for form, events in WAITING_EVENTS.items():
        words = [sys.executable, "-m", "bench.kafka.waiting", bootstrap, form, str(events)]
        environment = {**os.environ, "BENCH_WATCHDOG_SECONDS": "0"}
        told = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        found[form] = json.loads(told.stdout)
    return found


def takeover(bootstrap: str, _: float) -> dict[str, Any]:
    """From kill -9 of a machine's only worker until the other has folded what was sent since."""
    return {
        "session_seconds": SESSION_SECONDS,
        "standby": _taken_over(bootstrap, "yes"),
        "no standby": _taken_over(bootstrap, "no"),
        "restarted": _taken_over(bootstrap, "no", restarted=True),
    }


def _taken_over(bootstrap: str, standby: str, *, restarted: bool = False) -> float:
    from bench.program import Drone, Heartbeat, fleet

    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as place:
        first, second = Path(place) / "a", Path(place) / "b"
        url = fresh(bootstrap, first, session_seconds=SESSION_SECONDS, standby=standby)
        a = Workers(url, 2)  # who is restarted has a partition: there are as many, and no b
        b = None if restarted else Workers(url.replace(str(first), str(second)), 1)
        try:
            with fleet.connect(url) as live:
                keys = [f"d-{n}" for n in range(AGENTS)]
                for start in range(0, AGENTS, 10_000):
                    rows = [(Drone, key, Heartbeat(number=1)) for key in keys[start:][:10_000]]
                    live.send_many(rows, timeout=60.0)
                live.settle(timeout=120.0)
                time.sleep(3.0)  # copies of standbys are up to date
                victims = a.pids()
                begin = time.perf_counter()
                if restarted:
                    os.kill(victims[0], signal.SIGKILL)
                else:
                    a.kill()
                receipt = live.send_many([(Drone, key, Heartbeat(number=2)) for key in keys[:64]])
                live.wait_for(receipt, timeout=120.0)
                return round(time.perf_counter() - begin, 2)
        finally:
            if b is not None:
                b.stop()
            a.stop()


def restore(bootstrap: str, _: float) -> dict[str, Any]:
    """A process without any copy, until it has all agents: from the changelog, from a base copy."""
    from bench.program import Drone, Heartbeat, fleet
    from holdfast.engine.kafka.engine import KafkaEngine

    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as place:
        url = fresh(bootstrap, Path(place) / "a", retain_seconds=0.001)
        found: dict[str, Any] = {}
        with fleet.open(url, partitions=2) as live:
            for number in range(10):
                for start in range(0, AGENTS, 10_000):
                    keys = range(start, start + 10_000)
                    live.send_many([(Drone, f"d-{n}", Heartbeat(number)) for n in keys])
            live.settle(timeout=300.0)
            found["changelog"] = _copied(url, Path(place) / "b")
            assert isinstance(live._engine, KafkaEngine)
            live._engine.make_base_copies()
            found["base copy"] = _copied(url, Path(place) / "c")
        return found


def _copied(url: str, cache: Path) -> float:
    words = [sys.executable, "-m", "bench.kafka.copying", url, str(cache)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told)
    if found["agents"] != AGENTS:
        raise RuntimeError(f"{found['agents']} agents, not {AGENTS}")
    return round(float(found["seconds"]), 2)


PARTS: dict[str, Callable[[str, float], dict[str, Any]]] = {
    "throughput": throughput,
    "waiting": waiting,
    "latency": latency,
    "intervals": intervals,
    "takeover": takeover,
    "restore": restore,
}


def in_another(
    name: str, bootstrap: str, seconds: float, environment: dict[str, str]
) -> dict[str, Any]:
    """In a process whose environment chooses the program, as its workers do."""
    words = [sys.executable, "-m", "bench.kafka.ours", "--only", name, "--seconds", str(seconds)]
    done = subprocess.run(
        [*words, "--bootstrap", bootstrap],
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)[name]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", choices=[*PARTS, "compiled"], action="append")
    parser.add_argument("--bootstrap", help="brokers that are there")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    parts = {**PARTS, "compiled": compiled}

    def all_of(bootstrap: str) -> dict[str, Any]:
        return {name: parts[name](bootstrap, wanted.seconds) for name in wanted.only or PARTS}

    if wanted.bootstrap:
        found = all_of(wanted.bootstrap)
    else:
        with KafkaCluster(tests=False, heap_mb=1024) as cluster:
            found = all_of(cluster.bootstrap)
    text = json.dumps(found, indent=2)
    print(text)
    if wanted.out is not None:
        wanted.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
