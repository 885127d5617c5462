"""What a handle takes from outside itself: time, sleep and a name. A simulator hands in its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    fresh_name: Callable[[], str] = lambda: secrets.token_hex(8)
    wall: Callable[[], float] = time.time


REAL = World()
