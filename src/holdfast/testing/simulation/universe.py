"""The universe of a run: virtual time, what happens next, and the trace of what happened.

One thread. Whoever sleeps runs the others meanwhile, on top of its own stack; so code that blocks
in the real world is used as it is. Everything that is chance comes from streams of one seed.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import NamedTuple

from holdfast.model.rng import Random

ACTIONS_AT_ONCE_MAX = 10_000


class Standstill(RuntimeError):
    """Time does not pass any more."""


class Line(NamedTuple):
    """Something that happened. `partition` is the one it concerns, where it is one."""

    at: float
    who: str
    what: str
    partition: int | None = None
    fault: bool = False

    def __str__(self) -> str:
        return f"{self.at:9.3f}  {self.who:<14} {self.what}"


class Planned(NamedTuple):
    at: float
    order: int
    action: Callable[[], None]


def stream(seed: int, name: str) -> Random:
    """Chance of one kind: what another kind draws does not change it."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


class Universe:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.random = stream(seed, "universe")
        self.trace: list[Line] = []
        self._plan: list[Planned] = []
        self._order = 0
        self._here = 0  # how many things have happened at this very moment
        self._hash = hashlib.blake2b(digest_size=16)

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._plan, Planned(when, self._order, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def run_until(self, when: float) -> None:
        """Also called by whoever sleeps: time goes on below it, and never back."""
        plan = self._plan
        while plan and plan[0].at <= when:
            planned = heapq.heappop(plan)
            self._here = 0 if planned.at > self.now else self._here + 1
            if self._here > ACTIONS_AT_ONCE_MAX:
                raise Standstill(f"somebody turns without a pause at {self.now}")
            self.now = max(self.now, planned.at)
            planned.action()
        self.now = max(self.now, when)

    def sleep(self, seconds: float) -> None:
        self.run_until(self.now + seconds)

    def note(
        self,
        who: str,
        what: str,
        partition: int | None = None,
        *,
        fault: bool = False,
        data: bytes = b"",
    ) -> None:
        """`data` is too long for a line, but two runs that differ in it are two runs."""
        line = Line(self.now, who, what, partition, fault)
        self.trace.append(line)
        self._hash.update(f"{line.at!r} {who} {what}\n".encode() + data)

    @property
    def trace_hash(self) -> str:
        """The same for the same seed, in every process."""
        return self._hash.hexdigest()
