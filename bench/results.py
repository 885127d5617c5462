"""What a run gives back, and what is measured of the machine around it."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.oracle import Outcome


def without_places(text: str) -> str:
    """A reason may be published: paths and addresses of this machine are nobody's business."""
    return re.sub(r"(https?://|(?<![\w.])/)\S+", "…", text)


class Unavailable(Exception):
    """This contender cannot run here; the reason goes into the report."""


@dataclass(frozen=True)
class Result:
    """One contender, one workload. `missing` says why there is nothing else."""

    contender: str
    workload: str
    setting: str = ""  # such as "2 workers"
    counts: tuple[int, ...] = ()  # events of each lane
    seconds: float = 0.0
    per_second: float = 0.0
    outcome: Outcome | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()  # what the oracle says against it
    missing: str = ""
    slow_sync: bool = False

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["outcome"]  # sums of hashes tell a reader nothing
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Result:
        listed = {name: tuple(fields[name]) for name in ("counts", "wrong")}
        return cls(**{**fields, **listed})


def percentiles(seconds: Sequence[float] | NDArray[np.float64]) -> dict[str, float]:
    """In milliseconds. A share of nothing is left out, not made up."""
    taken = np.sort(np.asarray(seconds, dtype=np.float64)) * 1000.0
    found = {"samples": float(len(taken))}
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)):
        if len(taken) * (1.0 - share) >= 1.0:
            found[name] = round(float(taken[int(len(taken) * share)]), 3)
    if len(taken):
        found["max_ms"] = round(float(taken[-1]), 3)
    return found


def sync_milliseconds(folder: Path) -> float:
    """The mean of 100 `fdatasync` of 4 KiB."""
    path = folder / "sync-probe"
    with open(path, "wb") as file:
        begin = time.perf_counter()
        for _ in range(100):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        taken = time.perf_counter() - begin
    path.unlink()
    return round(taken * 10.0, 3)


def machine(folder: Path) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "holdfast": version("holdfast"),
        "sync_ms": sync_milliseconds(folder),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_bytes(pid: int) -> int:
    """What this process alone would free: its share of every page."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no Pss of process {pid}")


def forget_pages(folder: Path) -> None:
    """Put the cached pages of these files away, and of no others: the machine may have users."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
