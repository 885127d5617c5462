"""What a process tells of itself: processor, memory, disk, release."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holdfast.runtime.metering.samples import Sample, gauge

_PAGE_BYTES = resource.getpagesize()


@cache
def release() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow: nobody starts with it

    try:
        return version("holdfast")
    except PackageNotFoundError:  # from a source tree that was never installed
        return "unknown"


def start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot: with its pid that names it for ever.

    None where it is gone, or only waits to be buried.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


_PYTHON = ".".join(map(str, sys.version_info[:3]))
_STARTED = (
    time.time()
    - (time.clock_gettime(time.CLOCK_BOOTTIME))
    + ((start_ticks(os.getpid()) or 0) / os.sysconf("SC_CLK_TCK"))
)


def vitals(process: str) -> Iterator[Sample]:
    times = os.times()
    own = {"process": process}
    yield gauge("holdfast_process_cpu_seconds_total", round(times.user + times.system, 2), **own)
    yield gauge("holdfast_process_start_time_seconds", round(_STARTED, 2), **own)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    yield gauge("holdfast_process_resident_memory_bytes", pages * _PAGE_BYTES, **own)
    yield gauge("holdfast_process_open_files", len(os.listdir("/proc/self/fd")), **own)
    yield from _io(process)
    info = {"release": release(), "python": _PYTHON}
    yield gauge("holdfast_process_info", 1.0, **own, **info)


def _io(process: str) -> Iterator[Sample]:
    try:
        lines = Path("/proc/self/io").read_text("ascii").splitlines()
    except OSError:
        return  # kernels without task I/O accounting
    found = dict(line.split(": ") for line in lines)
    name = "holdfast_process_disk_bytes_total"
    yield gauge(name, int(found["read_bytes"]), process=process, way="read")
    yield gauge(name, int(found["write_bytes"]), process=process, way="written")
