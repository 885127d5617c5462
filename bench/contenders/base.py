"""What every contender offers, and what it guarantees, in words for the table of results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from bench.oracle import Outcome, expect
from bench.results import Result
from bench.workloads import Workload


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

    def takes(self, workload: Workload) -> str:
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
    """Run a contender's process. Its own words go to a log; lines of progress pass through."""
    log = folder / "log.txt"
    with (
        open(log, "w") as file,
        subprocess.Popen(
            [str(word) for word in words],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as process,
    ):
        assert process.stderr is not None
        patience = threading.Timer(seconds, process.kill)
        patience.start()
        try:
            for line in process.stderr:
                file.write(line)
                if line.startswith("    "):
                    print(line.rstrip(), file=sys.stderr, flush=True)
            code = process.wait()
        finally:
            patience.cancel()
            process.kill()
    if code:
        raise RuntimeError(f"ended with {code}: {_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line or "NotYet" in line]
    return (errors or lines or ["it said nothing"])[-1][:300]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
