"""A lane: everything about one function's calls, so that no function's trouble is another's.

Its queue, its bulkhead (at most `concurrency` attempts at once), its breaker and its counts. What
does not fit into memory stays in the table of open calls, and the lane remembers from where on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.calls import CallOptions
from holdfast.runtime.calling.breaker import Breaker
from holdfast.runtime.calling.port import Executor, Function
from holdfast.runtime.metering.samples import SECONDS, Histogram
from holdfast.stepping.commit import Call

CALLS_HELD_MAX = 10_000
ARGUMENTS_HELD_BYTES_MAX = 64 * 1024 * 1024
PAUSE_SECONDS_MAX = 3600.0


@dataclass(eq=False, slots=True)
class Work:
    """A call in memory."""

    call: Call
    lane: Lane
    attempts: int = 0
    error: str = ""  # why its reply is a failure

    @property
    def pause_seconds(self) -> float:
        """Before the next attempt: doubled after each, up to an hour."""
        backoff = self.call.backoff
        doubled = backoff * 2.0 ** min(self.attempts - 1, 60)
        return min(doubled, max(backoff, PAUSE_SECONDS_MAX))


class FunctionStatus(NamedTuple):
    function: str
    kind: str
    concurrency: int
    running: int
    waiting: int  # in memory: for a turn, or for the next attempt
    attempts: int
    failures: int
    breaker: str


@dataclass(eq=False, slots=True)
class Lane:
    name: str
    function: Function | None  # None: this program has none of that name
    options: CallOptions
    executor: Executor
    breaker: Breaker = field(default_factory=Breaker)
    waiting: deque[Work] = field(default_factory=deque)
    running: int = 0
    held: int = 0
    held_bytes: int = 0
    attempts: int = 0
    failures: int = 0
    answered_after: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    left_behind: dict[int, int] = field(default_factory=dict)  # partition -> after which number

    @property
    def full(self) -> bool:
        return self.held >= CALLS_HELD_MAX or self.held_bytes >= ARGUMENTS_HELD_BYTES_MAX

    @property
    def wants_more(self) -> bool:
        """Half empty: looking again for every single call would read the others' each time."""
        return bool(self.left_behind) and (
            self.held <= CALLS_HELD_MAX // 2 and self.held_bytes <= ARGUMENTS_HELD_BYTES_MAX // 2
        )

    def take(self, call: Call) -> Work:
        work = Work(call, self)
        self.waiting.append(work)
        self.held += 1
        self.held_bytes += len(call.arguments)
        return work

    def drop(self, work: Work) -> None:
        self.held -= 1
        self.held_bytes -= len(work.call.arguments)

    def status(self, now: float) -> FunctionStatus:
        return FunctionStatus(
            self.name,
            self.options.kind,
            self.options.concurrency,
            self.running,
            self.held - self.running,
            self.attempts,
            self.failures,
            self.breaker.state(now),
        )
