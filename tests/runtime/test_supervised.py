"""Goal: a helper that cannot run says so in one line, stops no fleet, and holds up no stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.runtime.supervisor import EXIT_REFUSED

HELPERS = {
    "snapshots": ("holdfast.runtime.snapshots.running", ["1", "1.0"]),
    "archive": ("holdfast.runtime.archiving.process", ["1.0"]),
}


@contextmanager
def supervised(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """With a test for a supervisor, who only has to hold its end of the pipe."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", module, *words, str(theirs)]
    try:
        with subprocess.Popen(
            command, pass_fds=[theirs], stderr=subprocess.PIPE, text=True
        ) as process:
            yield process
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("missing", HELPERS)
def test_a_helper_without_data(tmp_path: Path, missing: str) -> None:
    module, words = HELPERS[missing]
    places = [f"sqlite:{tmp_path}/none", f"file:{tmp_path}/store"]
    with supervised(module, *places, *words) as helper:
        assert helper.stderr is not None
        told = helper.stderr.readline()
        helper.send_signal(signal.SIGTERM)
    assert told.startswith(f"holdfast: no {missing}: {tmp_path}/none: no fleet here")
    assert helper.returncode == -signal.SIGTERM  # in the middle of its pause, not after it


def test_a_worker_without_data(tmp_path: Path) -> None:
    words = ["tests.archiving.bots:fleet", f"sqlite:{tmp_path}/none", "0", "0"]
    with supervised("holdfast.runtime.process", *words) as worker:
        _, told = worker.communicate()
    assert told.startswith(f"holdfast: {tmp_path}/none: no fleet here")
    assert told.count("\n") == 1
    assert worker.returncode == EXIT_REFUSED
