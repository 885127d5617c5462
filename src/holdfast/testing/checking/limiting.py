"""Handlers that do not end: they raise after some seconds, and so fail like any other."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

STEP_SECONDS = 5.0  # of one commit; a worker of a running fleet is ended after 2


class TimeLimit:
    """For the main thread of a process that does nothing else. `rearm` before every step."""

    def __init__(self, seconds: float = STEP_SECONDS) -> None:
        self._seconds = seconds
        self.hits = 0

    def rearm(self) -> None:
        # Again and again: a batch that was ended is folded once more, with care.
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.hits += 1
        raise TimeoutError(f"it ran longer than {self._seconds:g} seconds")

    def __enter__(self) -> TimeLimit:
        self._before = signal.signal(signal.SIGALRM, self._end)
        self.rearm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._before)
