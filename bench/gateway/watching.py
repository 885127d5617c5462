"""Memory and processor time of a fleet's processes, looked at from outside, once a second."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from statistics import median

EVERY_SECONDS = 1.0
GROWTH_MAX, GROWTH_BYTES_MAX = 1.10, 8 * 1024 * 1024
SAMPLES_MIN = 40  # fewer say nothing about growth
_TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Of a supervisor and its children, from `begin` to `end`."""

    def __init__(self, supervisor: int) -> None:
        self._supervisor = supervisor
        self._names = {supervisor: "supervisor"} | children_of(supervisor)
        self._memory: dict[int, list[int]] = {pid: [] for pid in self._names}
        self._cpu_before = {pid: cpu_seconds(pid) for pid in self._names}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            for pid, samples in self._memory.items():
                with suppress(OSError, ValueError):  # it went away: `end` says so
                    samples.append(memory_bytes(pid))

    def end(self) -> dict[str, dict[str, object]]:
        self._ended.set()
        self._thread.join()
        now = {self._supervisor: "supervisor"} | children_of(self._supervisor)
        if not self._names.items() <= now.items():  # others come and go, such as for snapshots
            raise RuntimeError(f"processes went away: {self._names} became {now}")
        return {name: self._figures(pid) for pid, name in self._names.items()}

    def _figures(self, pid: int) -> dict[str, object]:
        samples = self._memory[pid]
        found: dict[str, object] = {
            "cpu_seconds": round(cpu_seconds(pid) - self._cpu_before[pid], 2)
        }
        if samples:
            found |= {"rss_first_mb": _mb(samples[0]), "rss_last_mb": _mb(samples[-1])}
            found["rss_most_mb"] = _mb(max(samples))
            found["flat"] = is_flat(samples)
        return found


def is_flat(samples: list[int]) -> bool | None:
    """The last quarter beside the second one: what is warm by then must not grow on."""
    if len(samples) < SAMPLES_MIN:
        return None
    quarter = len(samples) // 4
    early, late = median(samples[quarter : 2 * quarter]), median(samples[-quarter:])
    return late <= max(early * GROWTH_MAX, early + GROWTH_BYTES_MAX)


def children_of(parent: int) -> dict[int, str]:
    """By process id what each of them is, as in gateway, process-1."""
    found: dict[int, str] = {}
    for place in sorted(Path("/proc").glob("[0-9]*"), key=lambda place: int(place.name)):
        try:
            status = (place / "stat").read_text().rpartition(")")[2].split()
            words = (place / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended between the two
        if int(status[1]) == parent:
            module = next((word for word in words if word.startswith("holdfast.")), words[0])
            found[int(place.name)] = _name(module, list(found.values()))
    return found


def _name(module: str, others: list[str]) -> str:
    name = "gateway" if "gateway" in module else module.removeprefix("holdfast.runtime.")
    name = "worker" if name == "process" else name
    return name if name not in others else f"{name} {len(others)}"


def memory_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no memory: it has ended")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mb(count: int) -> float:
    return round(count / 2**20, 1)
