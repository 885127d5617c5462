"""How fast a fork folds beside the live fold of the same events: `python -m bench.forking`.

The demo's fleet is fed and folded live, then its history is forked with one process and with one
per partition. Rates are of events from outside; CPU seconds hold on a machine that others use too.
"""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from itertools import islice

from holdfast.demo.fleet import Drone, Order, Telemetry, fleet
from holdfast.demo.script import Script
from holdfast.runtime.forking.fork import Options
from holdfast.runtime.forking.study import Question, study

EVENTS = 200_000
DRONES = 1_000
PARTITIONS = 2
SEND_EVENTS = 1_000


def live(url: str) -> tuple[float, float]:
    """Events per second, and per CPU second of the thread that folds."""
    classes = {"Telemetry": Telemetry, "Order": Order}
    lines = islice(Script(5, DRONES, 10.0).lines(), EVENTS)
    rows = [(Drone, line.key, classes[line.event](*line.values)) for line in lines]
    with fleet.open(url, partitions=PARTITIONS) as handle:
        threads = [t for t in threading.enumerate() if t.name == "holdfast-worker" and t.ident]
        clock = time.pthread_getcpuclockid(threads[0].ident or 0)
        started, used = time.monotonic(), time.clock_gettime(clock)
        for first in range(0, EVENTS, SEND_EVENTS):
            handle.send_many(rows[first : first + SEND_EVENTS])
        handle.settle()
        wall, cpu = time.monotonic() - started, time.clock_gettime(clock) - used
    return EVENTS / wall, EVENTS / cpu


def cpu_seconds() -> float:
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(who)[:2]) for who in both)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/data"
        wall, cpu = live(url)
        print(f"live: {wall:,.0f} events/s, {cpu:,.0f} per CPU second of the fold")
        for jobs in (1, PARTITIONS):
            used = cpu_seconds()
            found = study(Question("holdfast.demo.fleet:fleet", url, Options(jobs=jobs)))
            used = cpu_seconds() - used
            print(
                f"fork with {jobs}: {EVENTS / found.seconds:,.0f} events/s "
                f"({EVENTS / found.seconds / wall:.2f} of live), {EVENTS / used:,.0f} per CPU "
                f"second ({EVENTS / used / cpu:.2f}); {found.different} differences"
            )


if __name__ == "__main__":
    main()
