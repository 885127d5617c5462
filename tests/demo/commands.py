"""The demo's commands as a person starts them, and the processes behind them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from holdfast.demo.audit import main

SCRIPT = str(Path(sys.executable).parent / "holdfast")
PATIENCE_SECONDS = 60.0


def demo(*options: object) -> subprocess.CompletedProcess[str]:
    command = [SCRIPT, "demo", *map(str, options)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False
    )


def start_demo(*options: object) -> subprocess.Popen[str]:
    """A demo that goes on; returns once its first line of figures is there."""
    command = [SCRIPT, "demo", *map(str, options)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        if " events/s  p50" in line:
            return running
    raise AssertionError(f"the demo ended with {running.wait()}")


def audit_of(data: Path) -> tuple[int, str]:
    """`python -m holdfast.demo.audit DIR` without the start of an interpreter: code and output."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output), patch("sys.argv", ["audit", str(data)]):
        code = main()
    return code, output.getvalue()


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task")
    found = [int(p) for task in path.iterdir() for p in (task / "children").read_text().split()]
    return sorted(found)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def environment() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "30"}
