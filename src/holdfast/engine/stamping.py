"""Stamps: the clock of a partition, which never runs backward and never leaps ahead unnoticed."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from holdfast.errors import ClockJumped


class Instant(NamedTuple):
    """The wall clock beside the time since boot, which no one can set."""

    wall: float
    uptime: float
    boot: str


NEVER = Instant(0.0, 0.0, "")


class Clock(Protocol):
    def __call__(self) -> Instant: ...


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


_BOOT = _boot_id()


def system_clock() -> Instant:
    return Instant(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), _BOOT)


def next_stamp(previous: Instant, now: Instant, jump_seconds_max: float) -> Instant:
    """max(previous stamp, clock). Within one boot a jump shows as wall time outrunning uptime."""
    if previous.boot == now.boot and previous.wall > 0.0:
        elapsed = max(0.0, now.uptime - previous.uptime)
        ahead = now.wall - previous.wall - elapsed
        if ahead > jump_seconds_max:
            raise ClockJumped(
                f"the clock is {ahead:,.0f} s ahead of the time that has passed since the last "
                "event: set the clock right, or raise clock_jump_seconds_max in the engine URL"
            )
    return now._replace(wall=max(previous.wall, now.wall))
