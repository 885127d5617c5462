"""Measuring a running demo from outside: latency, rates, and how long a kill was felt.

All of it is read from what is committed, through the handles that any user has.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from holdfast import Live
from holdfast.demo.directory import Kill
from holdfast.demo.fleet import Descend
from holdfast.engine.port import View

WINDOW_SECONDS = 3.0  # what "now" means on the screen
POLL_SECONDS = 0.002


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Latency:
    """From the moment a telemetry is sent to the moment a reader sees the action it caused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, int], float] = {}
        self._seen: dict[tuple[str, int], float] = {}
        self._recent: deque[tuple[float, float]] = deque()
        self.all: list[float] = []

    def sent(self, probes: Sequence[tuple[str, int]], at: float) -> None:
        with self._lock:
            for probe in probes:
                # The action may be there before the producer has told us of the event.
                seen = self._seen.pop(probe, None)
                if seen is None:
                    self._sent[probe] = at
                else:
                    self._measured(seen, seen - at)

    def seen(self, probe: tuple[str, int], at: float) -> None:
        with self._lock:
            sent = self._sent.pop(probe, None)
            if sent is None:
                self._seen[probe] = at
            else:
                self._measured(at, at - sent)

    def _measured(self, at: float, seconds: float) -> None:
        self._recent.append((at, seconds))
        self.all.append(seconds)

    def recent(self) -> list[float]:
        """The last seconds' measurements, smallest first."""
        with self._lock:
            oldest = time.monotonic() - WINDOW_SECONDS
            while self._recent and self._recent[0][0] < oldest:
                self._recent.popleft()
            return sorted(seconds for _, seconds in self._recent)


class Rate:
    """How fast a counter grows, over the last second or so."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def per_second(self, count: int) -> float:
        now = time.monotonic()
        self._points.append((now, count))
        while self._points[0][0] < now - 1.5:
            self._points.popleft()
        first_at, first = self._points[0]
        return (count - first) / (now - first_at) if now > first_at else 0.0


class Recovery:
    """Waits, after a kill, for the first commit of a new owner on each partition."""

    def __init__(self, kill: Kill, views: Sequence[View]) -> None:
        self._kill = kill
        self._began = time.monotonic()
        self.waiting = {number: views[number] for number in kill.partitions}
        self._commits = {number: view.head().commits for number, view in self.waiting.items()}
        self.idle = False  # nothing is left to commit, so a new owner alone counts

    def look(self) -> list[tuple[int, float, str]]:
        """Partitions that have gone on since the last look: number, seconds, new owner."""
        gone_on = []
        for number, view in list(self.waiting.items()):
            owner, commits = view.owner(), view.head().commits
            if owner in ("", f"process {self._kill.process}"):
                self._commits[number] = commits
            elif commits > self._commits[number] or self.idle:
                seconds = time.monotonic() - self._began
                self._kill.recovery_seconds[number] = seconds
                del self.waiting[number]
                gone_on.append((number, seconds, owner))
        return gone_on


class Watcher(threading.Thread):
    """Looks at new actions, and at a recovery under way, every few milliseconds."""

    def __init__(
        self, live: Live, latency: Latency, recovered: Callable[[int, float, str], None]
    ) -> None:
        super().__init__(name="demo-watcher", daemon=True)
        self._live = live
        self._latency = latency
        self._recovered = recovered
        self._cursor: str | None = None
        self._stopping = threading.Event()
        self.recovery: Recovery | None = None
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stopping.wait(POLL_SECONDS):
                self._look()
            self._look()  # what was committed just before the end counts too
        except Exception as error:
            self.failure = error

    def _look(self) -> None:
        page = self._live.actions(after=self._cursor)
        now = time.monotonic()
        self._cursor = page.cursor
        for issued in page:
            if isinstance(issued.action, Descend):
                self._latency.seen((issued.key, issued.action.serial), now)
        if self.recovery is not None:
            for gone_on in self.recovery.look():
                self._recovered(*gone_on)

    def stop(self) -> None:
        self._stopping.set()
        self.join()
