"""What every contender offers, and what it guarantees, in words for the table of results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TextIO

from bench.oracle import Outcome, expect
from bench.results import Result
from bench.workloads import Workload

LOOK_SECONDS = 0.2
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Guarantees:
    log: str  # what is durable before an event counts
    state: str
    actions: str
    not_given: str


class Contender(Protocol):
    name: str
    guarantees: Guarantees

    def prepare(self) -> None:
        """Install and build what is needed; `Unavailable` with the reason if that fails."""

    def settings(self) -> Sequence[str]:
        """Ways to run it, such as 1 and 2 workers: the better one counts."""

    def refuses(self, workload: Workload) -> str:
        """Why it does not take this workload; empty if it does."""

    def run(self, workload: Workload, setting: str, folder: Path) -> Result:
        """Alone, from an empty folder, compared with the oracle."""


def judged(
    contender: str, workload: Workload, setting: str, found: Mapping[str, Any], **figures: Any
) -> Result:
    """What a process reported, against what had to come out."""
    actions = {name: (count, value) for name, (count, value) in found["actions"].items()}
    outcome = Outcome(found["agents"], dict(found["states"]), actions)
    counts = tuple(found["counts"])
    result = Result(
        contender,
        workload.name,
        setting,
        counts,
        round(found["seconds"], 3),
        round(found.get("counted", sum(counts)) / found["seconds"], 1),
        outcome,
        figures,
        slow_sync=workload.slow_sync,
    )
    return replace(result, wrong=tuple(expect(workload.stream, counts).differences(outcome)))


def call(
    words: Sequence[str | Path], folder: Path, environment: Mapping[str, str], seconds: float
) -> None:
    """Run a contender's process. Its own words go to a log; lines of progress are shown.

    A file, not a pipe: who waits for the end of a pipe waits for every process that holds it.
    """
    log = folder / "log.txt"
    end = time.monotonic() + seconds
    with open(log, "w") as file, open(log) as shown:
        process = subprocess.Popen(
            [str(word) for word in words],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=ROOT,
        )
        try:
            while process.poll() is None:
                _show_progress(shown)
                if time.monotonic() > end:
                    raise TimeoutError(f"not done after {seconds:g} s: {_last_words(log)}")
                time.sleep(LOOK_SECONDS)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"ended with {process.returncode}: {_last_words(log)}")


def _show_progress(log: TextIO) -> None:
    for line in log:
        if line.startswith("    ") and " M events " in line:
            print(line.rstrip(), file=sys.stderr, flush=True)


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    last = (errors or lines or ["it said nothing"])[-1][:300]
    return last.replace(f"{ROOT}/", "")  # it may be published


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
