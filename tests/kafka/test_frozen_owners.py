"""Goal: a reader that has files of its own does not wait long for an owner that stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from holdfast import Live
from tests.kafka.drones import FILE, Drone, Note, fleet
from tests.kills.harness import children, process_state, wait_until

WORKER = "holdfast.runtime.process"


def seconds_to_read(live: Live) -> float:
    begun = time.monotonic()
    assert live.state(Drone, "d-1").note == "before"
    return time.monotonic() - begun


@pytest.mark.kill
@pytest.mark.slow
def test_files_from_before_are_read_on(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"frozen-{uuid.uuid4().hex[:8]}"
    url = f"kafka://{kafka}/{prefix}?cache={tmp_path}"
    with fleet.open(f"{url}/reader", partitions=1) as live:  # so that there are files
        live.send(Drone, "d-1", Note(text="before"))
        live.settle()
    words = ["run", str(FILE), "--engine", f"{url}/owner", "--workers", "1"]
    program = "from holdfast.cli.main import main; main()"
    supervisor = subprocess.Popen([sys.executable, "-c", program, *words])
    try:
        with fleet.connect(f"{url}/beside") as beside:
            wait_until(lambda: _owns(beside, supervisor.pid), 60.0, "a worker owns it")
        (worker,) = children(supervisor.pid, WORKER)
        # Who had the patience of those without files would wait as long as any reader: 10 s.
        monkeypatch.setattr("holdfast.engine.kafka.view.TAKEOVER_SECONDS", 60.0)
        with fleet.connect(f"{url}/reader") as live:
            os.kill(supervisor.pid, signal.SIGSTOP)  # it would end a worker that is silent
            os.kill(worker, signal.SIGSTOP)
            wait_until(lambda: process_state(worker) == "T", 10.0, "it stands still")
            assert seconds_to_read(live) < 8.0
            assert seconds_to_read(live) < 8.0
    finally:
        for pid in (*children(supervisor.pid, WORKER), supervisor.pid):
            os.kill(pid, signal.SIGKILL)
        supervisor.wait()


def _owns(live: Live, supervisor: int) -> bool:
    workers = children(supervisor, WORKER)
    owner = live._engine.view(0).owner()
    return len(workers) == 1 and f"process {workers[0]} " in owner
