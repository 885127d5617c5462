"""Whether an inbox has room for a parcel: on the disk, and among the events that wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.engine.port import Limits, Parcel
from holdfast.errors import Backlog, DiskFull

_BACKLOG_AGE_SECONDS = 0.05  # how old the folded position may be when the backlog is judged


class Room:
    def __init__(self, folder: Path, limits: Limits, folded: Callable[[], int]) -> None:
        self._folder = folder
        self._limits = limits
        self._folded = folded
        self._folded_seen = (-1.0, 0)

    def check(self, position: int, parcel: Parcel) -> None:
        """Bounds act at the edge: outside sends stop early, messages only at the reserve."""
        status = os.statvfs(self._folder)
        free = status.f_bavail * status.f_frsize
        reserve = self._limits.disk_reserve_bytes * (2 if parcel.external else 1)
        if free < reserve + len(parcel.encoded):
            raise DiskFull(
                f"{self._folder}: {free:,} bytes are free, the reserve is {reserve:,}: "
                "free some space, then it goes on"
            )
        if parcel.external and position - self._recently() >= self._limits.backlog_events_max:
            most = self._limits.backlog_events_max
            raise Backlog(
                f"{self._folder.parent.name}: {most:,} events wait to be folded, the bound: send "
                "slower, or see `holdfast doctor` whether a worker runs"
            )

    def _recently(self) -> int:
        seen, position = self._folded_seen
        now = time.monotonic()
        if now - seen > _BACKLOG_AGE_SECONDS:
            position = self._folded()
            self._folded_seen = (now, position)
        return position
