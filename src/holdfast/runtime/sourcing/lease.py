"""The lease: for how long a member of the group may believe that it still is one.

A process that was stopped for long may have been put out of the group without knowing it, and its
successors may be so far ahead that what it has left can no longer be told from new. So nothing is
sent under a lease that has run out, and brokers renew it by taking a commit of offsets.
"""

from __future__ import annotations

import time

from holdfast.errors import Busy
from holdfast.runtime.world import World


def now() -> float:
    """Goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    def __init__(self, session_seconds: float) -> None:
        # Brokers wait for the whole session since they heard of us, which was after we asked.
        self._seconds = session_seconds / 2
        # Shorter, so that a refusal is told for its reason and not for the lease.
        self.attempt_seconds = session_seconds / 3
        self._renewed = float("-inf")

    def renew(self, asked: float) -> None:
        """As of the moment at which the brokers were asked."""
        self._renewed = asked

    @property
    def runs(self) -> bool:
        return now() - self._renewed < self._seconds

    def check(self) -> None:
        if not self.runs:
            raise Busy("the group has not been heard of for a while: asking it first")

    def world(self) -> World:
        """In which nobody goes on after a sleep that was too long."""
        return World(sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.check()
