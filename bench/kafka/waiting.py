"""Ours on events that wait in a topic when its workers start, as the peers have them.

    python -m bench.kafka.waiting BOOTSTRAP frames|records EVENTS

The same mixed events without the watchdog, which the peers do not have: once as frames, as our
producers write them, once as the very JSON records of the peers' topic, which a source reader takes
apart and routes first. The clock begins with the first commit and ends when all is committed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from bench.contenders.base import judged
from bench.events import Stream
from bench.kafka.loading import counts_of, make_topics, preload
from bench.kafka.places import fresh
from bench.ours.processes import Producers
from bench.ours.run import Run, packed, read_outcome
from bench.program import fleet
from bench.workloads import Workload
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.launching import Launcher
from holdfast.runtime.sourcing.starting import SourceOptions

WORKERS = 2  # and as many partitions
RECORD_PARTITIONS = 4  # of the topic of records, as the peers have it
LOOK_SECONDS = 0.1
WAIT_SECONDS_MAX = 600.0
PROGRAM = str(Path(__file__).parents[1] / "program.py")


def waiting(bootstrap: str, form: str, events: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as place:
        folder = Path(place)
        workload = Workload(
            "waiting", Stream(mix="mixed"), send=4_096, most=events, watchdog=False, seconds=600.0
        )
        wanted = Run(workload, folder, engine=fresh(bootstrap, folder))
        open_engine(wanted.url, fleet.name, create_partitions=WORKERS).close()
        fill = _frames if form == "frames" else _records
        sources, counts = fill(wanted, bootstrap, events)
        helpers = SourceOptions(sources).helpers(fleet, wanted.url)
        launcher = Launcher(PROGRAM, wanted.url, WORKERS, range(WORKERS), helpers=helpers)
        thread = threading.Thread(target=launcher.run)
        thread.start()
        try:
            with fleet.connect(wanted.url) as live:
                per_second, seconds = _watched(live, sum(counts))
            found = {"counts": counts, "seconds": seconds, **packed(read_outcome(wanted))}
        finally:
            launcher.stop()
            thread.join()
    result = judged("holdfast", workload, form, found)
    return {
        "events": sum(counts),
        "seconds": round(seconds, 2),
        "per_second": round(per_second),
        "wrong": list(result.wrong),
    }


def _frames(wanted: Run, bootstrap: str, events: int) -> tuple[list[str], list[int]]:
    producers = Producers(wanted.spec(), 1)
    producers.begin()
    producers.join()
    return [], list(wanted.counters().all())


def _records(wanted: Run, bootstrap: str, events: int) -> tuple[list[str], list[int]]:
    topic = f"{wanted.folder.name}-events"
    make_topics(AdminClient({"bootstrap.servers": bootstrap}), RECORD_PARTITIONS, topic)
    preload(bootstrap, topic, RECORD_PARTITIONS, wanted.workload.stream, events)
    return [f"{topic}=Drone"], counts_of(events, RECORD_PARTITIONS)


def _watched(live: Live, events: int) -> tuple[float, float]:
    """Events per second from the first commit that was seen on, and in how many seconds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    first: tuple[float, int] | None = None
    while True:
        folded = sum(each.folded for each in live.positions().values())
        now = time.monotonic()
        if first is None and folded:
            first = now, folded
        if first is not None and folded >= events:
            seconds = now - first[0]
            return (folded - first[1]) / seconds, seconds
        if now > deadline:
            raise TimeoutError(f"{folded} of {events} events are committed")
        time.sleep(LOOK_SECONDS)


def main() -> None:
    bootstrap, form, events = sys.argv[1:]
    if os.environ.get("BENCH_WATCHDOG_SECONDS") != "0":
        raise SystemExit("set BENCH_WATCHDOG_SECONDS=0: the peers have no watchdog")
    print(json.dumps(waiting(bootstrap, form, int(events))))


if __name__ == "__main__":
    main()
