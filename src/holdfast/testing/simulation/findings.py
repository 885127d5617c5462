"""Findings: the promises a run may break, by name, and what was seen that breaks one."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Promise(Enum):
    """The contract. Every run is held against all of it."""

    KEPT = "no acknowledged event is lost"
    ONCE = "no event is folded twice"
    ORDER = "what was acknowledged before another was sent is folded before it"
    MESSAGES = "messages arrive exactly once, in order per pair of agents"
    CALLS = "a call is made with its event, run, and answered once"
    CONTIGUOUS = "outputs are numbered without gaps and have ids of their own"
    ONE_WRITER = "an epoch has one writer, and each commit follows the one before"
    TIMERS = "timers fire once, and never early on the clock of their partition"
    FOLD = "states and outputs are the fold of the inputs"
    READS = "committed reads never go back"
    RECEIPTS = "a read after a receipt includes its events"
    SETTLES = "when faults end, everything settles"


class Finding(NamedTuple):
    promise: Promise
    text: str  # one line: what was expected, what was seen, where
    partition: int | None = None
    key: str | None = None  # of the agent concerned, as in "Drone/d-1"
    at: float | None = None  # true time, where one can be named

    def __str__(self) -> str:
        return f"{self.promise.value}: {self.text}"
