"""Deaths of workers at one position: what a claim says of them. Pure; where it is kept is not said.

An owner notes the position at which user code runs. A claim that finds such a note at the position
reached knows that its predecessor died there. At the third death the partition folds one event per
commit, for a while, so that the event that kills can be told from its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

ATTEMPTS_MAX = 3  # deaths at one position before events are folded one by one
ALONE_EVENTS = 65_536  # how far after the first death events are folded one by one


class Deaths(NamedTuple):
    """What a claim found, as the next claim has to know it."""

    position: int = -1
    attempts: int = 0
    alone_until: int = 0

    @property
    def alone(self) -> bool:
        return self.position < self.alone_until

    def found(self, noted: int | None, position: int) -> Deaths:
        """The same, once a claim finds `noted` at the `position` that was reached."""
        if noted != position:
            return Deaths(position, 0, self.alone_until)
        attempts = self.attempts + 1 if self.position == position else 1
        if attempts >= ATTEMPTS_MAX and position >= self.alone_until:
            return Deaths(position, 0, position + ALONE_EVENTS)
        return Deaths(position, attempts, self.alone_until)
