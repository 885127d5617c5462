"""Trying again, with growing pauses, what may succeed a moment later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.blob.port import PATIENCE_SECONDS
from holdfast.errors import TryAgain

T = TypeVar("T")
_PAUSE_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0)  # 5.1 s together, then every 2 s


@dataclass(frozen=True)
class Retrying:
    """At least two tries, and no new one after `patience_seconds`."""

    patience_seconds: float = PATIENCE_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def run(self, attempt: Callable[[int], T]) -> T:
        """`attempt` gets the number of the try, from 0; TryAgain means another one."""
        deadline = self.monotonic() + self.patience_seconds
        number = 0
        while True:
            try:
                return attempt(number)
            except TryAgain:
                pause = _PAUSE_SECONDS[min(number, len(_PAUSE_SECONDS) - 1)]
                pause *= 0.5 + self.chance()  # so that many clients do not come back together
                if number > 0 and self.monotonic() + pause > deadline:
                    raise
                self.sleep(pause)
                number += 1
