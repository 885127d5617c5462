"""The circuit breaker of one function: what fails again and again is left alone for a while.

Closed, it lets every attempt through. It opens when at least half of the newest attempts failed;
then nothing passes until a pause is over, and after it one probe. The probe decides.
"""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0  # older attempts say nothing about now
WINDOW_ATTEMPTS = 100
ATTEMPTS_TO_JUDGE = 20  # fewer may fail by chance
OPEN_SECONDS = 10.0


class Breaker:
    def __init__(self) -> None:
        self._seen: deque[tuple[float, bool]] = deque()
        self._failures = 0
        self._opened: float | None = None
        self._probe: int | None = None

    def state(self, now: float) -> str:
        if self._opened is None:
            return "closed"
        return "open" if now < self._opened + OPEN_SECONDS else "half-open"

    def admits(self, serial: int, now: float) -> bool:
        """Whether this attempt may run; a yes while half-open makes it the probe."""
        state = self.state(now)
        if state == "half-open" and self._probe is None:
            self._probe = serial
            return True
        return state == "closed"

    def record(self, serial: int, ok: bool, now: float) -> None:
        if self._opened is None:
            self._note(ok, now)
        elif serial == self._probe:
            self._probe = None
            if ok:
                self._opened = None
            else:
                self._opened = now
        # What had begun before it opened says nothing about how things are since.

    def release(self, serial: int) -> None:
        """The attempt came to nothing: somebody else may be the probe."""
        if serial == self._probe:
            self._probe = None

    def _note(self, ok: bool, now: float) -> None:
        self._seen.append((now, ok))
        self._failures += not ok
        while len(self._seen) > WINDOW_ATTEMPTS or self._seen[0][0] < now - WINDOW_SECONDS:
            self._failures -= not self._seen.popleft()[1]
        if len(self._seen) >= ATTEMPTS_TO_JUDGE and 2 * self._failures >= len(self._seen):
            self._opened = now
            self._seen.clear()
            self._failures = 0
