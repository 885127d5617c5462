"""How much slower this run is than a quiet machine; deadlines of tests follow it.

Measured once, at the start of a run, and handed to all its processes. A deadline is for a test that
would else hang for ever, so it is generous; where seconds are a promise (a takeover below two), the
promise is for a quiet machine, and is stretched by what was measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

SLOWNESS = "HOLDFAST_TEST_SLOWNESS"
QUIET_SECONDS = 0.1  # what the work below takes on two quiet cores
SLOWEST = 5.0  # more would be a bad moment; and deadlines stay below that of pytest
SIDE_BY_SIDE = "PYTEST_XDIST_WORKER_COUNT"


def measure() -> None:
    """Some work of the kind that tests do: start processes, and compute, on every core at once."""
    if SLOWNESS in os.environ:
        return
    taken = statistics.median(_some_work() for _ in range(3))
    os.environ[SLOWNESS] = f"{min(SLOWEST, max(1.0, taken / QUIET_SECONDS)):.2f}"


def _some_work() -> float:
    program = [sys.executable, "-ISc", "sum(range(4_000_000))"]
    begun = time.monotonic()
    running = [subprocess.Popen(program) for _ in range(os.cpu_count() or 1)]
    for each in running:
        each.wait()
    return time.monotonic() - begun


def slowness() -> float:
    """1.0 is a quiet machine; more where others compute, or more tests run than there are cores."""
    beside = int(os.environ.get(SIDE_BY_SIDE, "1")) / (os.cpu_count() or 1)
    return float(os.environ.get(SLOWNESS, "1")) * max(1.0, beside)


def patient(seconds: float) -> float:
    """As many seconds here as those on a quiet machine."""
    return seconds * slowness()
