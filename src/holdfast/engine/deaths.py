"""Deaths of workers at one position: what a claim says of them. Pure; where it is kept is not said.

An owner notes the position at which user code runs, or the place in the lane. A claim that finds
such a note at what comes next knows that its predecessor died there. At the third death the
partition folds one event per commit, for a while, so that the event that kills can be told from its
neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.stepping.lane import LANE, in_lane

ATTEMPTS_MAX = 3  # deaths at one position before events are folded one by one
ALONE_EVENTS = 65_536  # how far after the first death events are folded one by one


class Deaths(NamedTuple):
    """What a claim found, as the next claim has to know it."""

    position: int = -1
    attempts: int = 0
    alone_until: int = 0

    @property
    def alone(self) -> bool:
        same = in_lane(self.position) == in_lane(self.alone_until)
        return same and self.position < self.alone_until

    @property
    def urgent(self) -> bool:
        """They were at the next event of the lane, not of the inbox."""
        return in_lane(self.position)

    def found(self, noted: int | None, position: int, urgent: int = 0) -> Deaths:
        """The same, once a claim finds `noted` where `position` was reached, and `urgent` events of
        the lane are folded."""
        place = LANE + urgent if noted is not None and in_lane(noted) else position
        if noted != place:
            return Deaths(position, 0, 0 if in_lane(self.alone_until) else self.alone_until)
        attempts = self.attempts + 1 if self.position == place else 1
        alone = self._replace(position=place).alone
        if attempts >= ATTEMPTS_MAX and not alone:
            return Deaths(place, 0, place + ALONE_EVENTS)
        return Deaths(place, attempts, self.alone_until)
