"""A plain producer process: `python -m tests.kills.sender URL SOURCE KEY COUNT START`.

Waits for the file START, then sends COUNT drops to one pool, one by one, and writes a line for each
acknowledgement. Fault points are open to HOLDFAST_FAULT, which decides where it stops or dies.
"""

import sys
import time
from pathlib import Path

from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.faulting import faults_from_environment
from tests.kills import floods


def main(url: str, source: str, key: str, count: str, start: str) -> None:
    engine = open_engine(url, "floods", faults=faults_from_environment())
    with Live(floods.fleet, engine) as live:
        print("ready", flush=True)
        while not Path(start).exists():
            time.sleep(0.005)
        for number in range(1, int(count) + 1):
            drop = floods.Drop(source, number, key, 0)
            live.send(floods.Pool, key, drop, source=source, seq=number, timeout=30.0)
            print(f"sent {number} {time.monotonic():.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:6])
