"""`python -m bench.ours.recovering URL BEGIN`: opens a fleet and takes one event, as JSON.

BEGIN is when whoever started this process did so; both clocks are the machine's.
"""

from __future__ import annotations

import json
import os
import sys
import time

from bench.program import Drone, Heartbeat, fleet
from bench.results import memory_bytes


def main() -> None:
    url, begin = sys.argv[1], float(sys.argv[2])
    imported = time.perf_counter()
    with fleet.open(url) as live:
        receipt = live.send(Drone, "warm-0", Heartbeat(number=0), timeout=120.0)
        live.wait_for(receipt, timeout=120.0)
        ready = time.perf_counter()
    found = {
        "seconds": ready - begin,
        "imports_seconds": imported - begin,
        "bytes": memory_bytes(os.getpid()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
