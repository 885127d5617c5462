"""Faults for tests of real processes, asked for by the environment and by nothing else.

HOLDFAST_FAULT="commit.inside:3:stop"    at the third pass, SIGSTOP this process
HOLDFAST_FAULT="append.after:1:kill"     at the first pass, SIGKILL it
"""

from __future__ import annotations

import os
import signal

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.errors import UsageError

_SIGNALS = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}


def faults_from_environment() -> FaultPoints:
    wanted = os.environ.get("HOLDFAST_FAULT", "")
    if not wanted:
        return no_faults
    point, count, action = (*wanted.split(":"), "", "")[:3]
    if not count.isdigit() or action not in _SIGNALS:
        raise UsageError(f"HOLDFAST_FAULT={wanted!r}: give POINT:COUNT:stop or POINT:COUNT:kill")
    passes = 0

    def reach(name: str) -> None:
        nonlocal passes
        if name == point:
            passes += 1
            if passes == int(count):
                os.kill(os.getpid(), _SIGNALS[action])

    return reach
