"""One process of a check: reads a job, runs user code, writes what came of it to a file.

User code may print, hang or die, so neither its output nor its end is trusted: the result is a file
that is there or not. `comparing` starts these processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.testing.checking.doubling import Broken, Doubling
from holdfast.testing.checking.folding import Fold, Folding, Window
from holdfast.testing.checking.limiting import STEP_SECONDS, TimeLimit
from holdfast.testing.checking.recording import generated_recording, read_recording

PATIENCE_SECONDS = 60.0
PATIENCE_PER_EVENT_SECONDS = 0.01


class Job(msgspec.Struct):
    fleet: str
    way: Literal["record", "alone", "batches", "twice"]
    recording: str
    result: str
    seed: int
    events: int = 0
    window: Window | None = None
    step_seconds: float = STEP_SECONDS


class Result(msgspec.Struct):
    folds: list[Fold] = []
    broken: list[Broken] = []
    doubled: int = 0
    error: str = ""


def work(job: Job) -> Result:
    fleet, limit = load_fleet(job.fleet), TimeLimit(job.step_seconds)
    if job.way == "record":
        made = generated_recording(fleet, job.seed, job.events, limit)
        made.write(Path(job.recording))
        return Result()
    recording, result = read_recording(Path(job.recording)), Result()
    for inbox in recording.inboxes:
        window = job.window
        if window is not None and window.partition != inbox.partition:
            continue
        if job.way == "twice":
            doubling = Doubling(fleet, recording, inbox, limit)
            doubling.run()
            result.broken += doubling.broken.values()
            result.doubled += doubling.doubled
            continue
        folding = Folding(fleet, recording, inbox, window, limit)
        alone = job.way == "alone"
        result.folds.append(folding.alone() if alone else folding.in_batches(job.seed))
    return result


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    try:
        result = work(job)
    except HoldfastError as error:
        result = Result(error=str(error))
    Path(job.result).write_bytes(msgspec.msgpack.encode(result))


class Processes:
    """Starts jobs. Those that fold in batches have another hash seed and another time zone."""

    def __init__(
        self, fleet: str, seed: int, folder: Path, step_seconds: float = STEP_SECONDS
    ) -> None:
        self._fleet = fleet
        self._step_seconds = step_seconds
        self._seed = seed
        self._folder = folder
        self._events = 0
        self.recording = folder / "recording"

    def record(self, events: int) -> None:
        self._events = events * 4
        self.run("record", events=events)

    def use(self, events: int) -> None:
        """How long a recording from elsewhere is; what it begins with counts too."""
        self._events = events

    def both(self, window: Window | None = None) -> tuple[list[Fold], list[Fold]]:
        """The same inputs alone and in batches, at the same time."""
        with ThreadPoolExecutor(2) as pool:
            alone = pool.submit(self.run, "alone", window=window)
            batches = pool.submit(self.run, "batches", window=window)
            return alone.result().folds, batches.result().folds

    def run(
        self,
        way: Literal["record", "alone", "batches", "twice"],
        *,
        events: int = 0,
        window: Window | None = None,
    ) -> Result:
        result = self._folder / f"result-{way}"
        job = Job(
            fleet=self._fleet,
            way=way,
            recording=str(self.recording),
            result=str(result),
            seed=self._seed,
            events=events,
            window=window,
            step_seconds=self._step_seconds,
        )
        result.unlink(missing_ok=True)
        other = way == "batches"
        patience = PATIENCE_SECONDS + PATIENCE_PER_EVENT_SECONDS * self._events
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(self._seed * 2 % 4_000_000_000 + (2 if other else 1)),
            "TZ": "XXX-05:45" if other else "UTC",
        }
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "holdfast.testing.checking.running"],
                input=msgspec.json.encode(job),
                env=environment,
                capture_output=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"{self._fleet}: folding took longer than {patience:.0f} seconds: a handler does "
                f"not end, or give fewer --events"
            ) from None
        if not result.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            why = f"code {done.returncode}{': ' + last[0] if last else ''}"
            raise UsageError(f"{self._fleet}: the process that folds it ended with {why}")
        found = msgspec.msgpack.decode(result.read_bytes(), type=Result)
        if found.error:
            raise UsageError(found.error)
        return found


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="holdfast-check-")


def claims(fleet: FleetModel) -> list[str]:
    """The handlers that are declared idempotent."""
    return [
        f"{agent.__name__}.{handler.name}"
        for agent in fleet.agents.values()
        for handler in agent.__holdfast__.handlers
        if handler.idempotent
    ]


if __name__ == "__main__":
    main()
