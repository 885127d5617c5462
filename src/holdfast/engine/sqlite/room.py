"""Whether an inbox has room for a parcel: on the disk, and among the events that wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.engine.port import Limits, Parcel
from holdfast.errors import Backlog, DiskFull
from holdfast.stepping.commit import Head
from holdfast.stepping.lane import URGENT, wholly_urgent

_BACKLOG_AGE_SECONDS = 0.05  # how old the folded position may be when the backlog is judged


class Room:
    def __init__(self, folder: Path, limits: Limits, standing: Callable[[], Head]) -> None:
        self._folder = folder
        self._limits = limits
        self._standing = standing
        self._seen = (-1.0, Head())

    def check(self, position: int, urgent: int, parcel: Parcel) -> None:
        """Bounds act at the edge: outside sends stop early, messages only at the reserve."""
        status = os.statvfs(self._folder)
        free = status.f_bavail * status.f_frsize
        reserve = self._limits.disk_reserve_bytes * (2 if parcel.external else 1)
        if free < reserve + len(parcel.encoded):
            raise DiskFull(
                f"{self._folder}: {free:,} bytes are free, the reserve is {reserve:,}: "
                "free some space, then it goes on"
            )
        if parcel.external:
            head, limits = self._recently(), self._limits
            if URGENT in parcel.frame:
                self._check(urgent - head.urgent, limits.urgent_events_max, "urgent events")
            if not wholly_urgent(parcel.frame):
                self._check(position - head.position, limits.backlog_events_max, "events")

    def _check(self, waiting: int, most: int, what: str) -> None:
        if waiting >= most:
            raise Backlog(
                f"{self._folder.parent.name}: {most:,} {what} wait to be folded, the bound: send "
                "slower, or see `holdfast doctor` whether a worker runs"
            )

    def _recently(self) -> Head:
        seen, head = self._seen
        now = time.monotonic()
        if now - seen > _BACKLOG_AGE_SECONDS:
            head = self._standing()
            self._seen = (now, head)
        return head
