"""Faults: what goes wrong in a run, how often, and which of it a smaller run leaves out.

Every kind of fault has its own stream of chance, so that leaving one out does not move the others.
How often a kind strikes is drawn per seed; in many runs it never does.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from holdfast.testing.simulation.universe import Universe, stream


class Fault(Enum):
    CRASH_BEFORE = "crash before an engine call"
    CRASH_MIDDLE = "crash in the middle of an engine call"
    CRASH_AFTER = "crash after an engine call was durable, before it was acknowledged"
    CRASH_IN_HANDLER = "crash while user code runs"
    POWER_LOSS = "power loss: all processes end, an unsynced write is lost or kept"
    PAUSE = "pause: a process stands still and wakes as a zombie"
    KILL_LOST = "a kill does not reach its process"
    DUPLICATE = "a delivery arrives again, later"
    DELAY = "a delivery is late, its sender was told nothing"
    ANSWER_LOST = "a commit is durable, and its worker is told that it may not be"
    SLOW_DISK = "the disk is slow"
    FULL_DISK = "the disk is full for a while"
    CLOCK_JUMP = "the clock is set, forward or back"
    CLOCK_DRIFT = "the clocks of processes differ and drift"
    CLIENT_CRASH = "a client ends in the middle of a call"
    RESEND = "a producer sends again what it has sent"
    SUPERVISOR_RESTART = "the supervisor ends and is started again"
    UPGRADE = "rolling upgrade to newer classes"
    RESCALE = "rescale to another number of partitions"
    CALL_ERROR = "a function that was called fails"
    CALL_OUTAGE = "a function that was called fails for a while"
    CALL_DIED = "a function ends its process"
    CALL_LOST = "a function is lost with others of its process"
    CALL_SLOW = "a function takes long"
    CALL_HUNG = "a function hangs until it is ended"
    CALLER_CRASH = "the caller ends, and the functions it runs with it"
    REPLY_TWICE = "a reply arrives again, later"
    REPLY_LATE = "a reply is late, its sender was told nothing"


# Once in so many chances, when a kind is active: the least and the most often it may be.
RATES: dict[Fault, tuple[float, float]] = {
    Fault.CRASH_BEFORE: (2_000.0, 100.0),
    Fault.CRASH_MIDDLE: (300.0, 20.0),
    Fault.CRASH_AFTER: (300.0, 20.0),
    Fault.CRASH_IN_HANDLER: (200.0, 20.0),
    Fault.POWER_LOSS: (400.0, 60.0),
    Fault.PAUSE: (800.0, 60.0),
    Fault.KILL_LOST: (3.0, 1.0),
    Fault.DUPLICATE: (50.0, 3.0),
    Fault.DELAY: (50.0, 3.0),
    Fault.ANSWER_LOST: (60.0, 8.0),
    Fault.SLOW_DISK: (60.0, 6.0),
    Fault.FULL_DISK: (20.0, 3.0),  # per second
    Fault.CLOCK_JUMP: (30.0, 5.0),  # per second
    Fault.CLOCK_DRIFT: (1.0, 1.0),  # drawn once
    Fault.CLIENT_CRASH: (200.0, 20.0),
    Fault.RESEND: (20.0, 2.0),
    Fault.SUPERVISOR_RESTART: (40.0, 8.0),  # per second
    Fault.UPGRADE: (20.0, 6.0),  # per second
    Fault.RESCALE: (20.0, 4.0),  # per second
    Fault.CALL_ERROR: (20.0, 2.0),
    Fault.CALL_OUTAGE: (60.0, 10.0),
    Fault.CALL_DIED: (30.0, 4.0),
    Fault.CALL_LOST: (60.0, 6.0),
    Fault.CALL_SLOW: (20.0, 3.0),
    Fault.CALL_HUNG: (40.0, 5.0),
    Fault.CALLER_CRASH: (30.0, 5.0),  # per second
    Fault.REPLY_TWICE: (20.0, 2.0),
    Fault.REPLY_LATE: (40.0, 3.0),
}
ACTIVE_SHARE = 0.55  # of the kinds, in one run


@dataclass(frozen=True)
class Restriction:
    """A smaller run of the same seed: for whoever looks for the cause of a finding."""

    without: frozenset[Fault] = frozenset()
    skipped: frozenset[tuple[Fault, int]] = frozenset()  # strikes left out, by their number
    operations_max: int | None = None


WHOLE = Restriction()


@dataclass
class Faults:
    universe: Universe
    restriction: Restriction = WHOLE
    active: bool = True
    struck: list[tuple[Fault, int]] = field(default_factory=list)
    chances: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._left: dict[Fault, int] = {}
        self._numbers: Counter[Fault] = Counter()
        self._every: dict[Fault, float] = {}
        self._streams = {fault: stream(self.universe.seed, fault.name) for fault in Fault}
        for fault, (rare, often) in RATES.items():
            chance = self._streams[fault]
            if chance.random() < ACTIVE_SHARE and fault not in self.restriction.without:
                spread = math.log(rare / often)
                self._every[fault] = often * math.exp(chance.random() * spread)
                self._left[fault] = self._gap(fault)

    def _gap(self, fault: Fault) -> int:
        """How many chances pass until it strikes: geometric, so one draw per strike."""
        share = 1.0 / self._every[fault]
        if share >= 1.0:
            return 1
        drawn = 1.0 - self._streams[fault].random()
        return 1 + int(math.log(drawn) / math.log(1.0 - share))

    def strikes(self, fault: Fault) -> bool:
        left = self._left.get(fault)
        if left is None or not self.active:
            return False
        self.chances[fault] += 1
        if left > 1:
            self._left[fault] = left - 1
            return False
        self._left[fault] = self._gap(fault)
        number = self._numbers[fault] = self._numbers[fault] + 1
        if (fault, number) in self.restriction.skipped:
            return False
        self.struck.append((fault, number))
        return True

    def draw(self, fault: Fault, low: float, high: float) -> float:
        """How long, how far: from the stream of the fault itself."""
        return self._streams[fault].uniform(low, high)

    def coin(self, fault: Fault) -> bool:
        return self._streams[fault].random() < 0.5
