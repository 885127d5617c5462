"""Where the files of a run of tests are: in memory where there is enough of it, else on the disk.

Tests kill processes, and a killed process loses nothing it has written, in memory or not. What a
power loss does is shown by recorded writes (tests/crashes), so no test needs a disk that waits.
Where TMPDIR is set, they are there. Each process of a run has a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 6 * 1024**3  # a run of all tests holds less than half of it at any moment
PREFIX = "holdfast-tests-"
KEPT_SECONDS = 3 * 3600.0


def choose() -> Path | None:
    """Point TMPDIR, of this process and of all it starts, to a folder of its own; that folder, if
    it goes with this run."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # ours is in our parent's
        _point_to(Path(os.environ["TMPDIR"]) / worker)
        return None
    roomy = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK)
    if roomy:
        _remove_old_ones()
        roomy = shutil.disk_usage(MEMORY).free >= NEEDED_BYTES
    folder = (MEMORY if roomy else Path(tempfile.gettempdir())) / f"{PREFIX}{os.getpid()}"
    _point_to(folder)
    return folder


def _remove_old_ones() -> None:
    """Of runs that failed, or were killed: somebody may have wanted to look."""
    for left in MEMORY.glob(f"{PREFIX}*"):
        ended = not Path(f"/proc/{left.name.removeprefix(PREFIX)}").exists()
        if ended and left.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _point_to(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it may have been asked before
