"""When a copy is near: a claim, which waits for what is missing, then takes no time.

Not by a number of records alone: while senders are busy some are always on their way, and a copy
that has come to where the topics ended a moment ago is as near as it gets.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.engine.kafka.feed import Place

NEAR_RECORDS = 100
MOMENT_SECONDS = 1.0


class Nearing:
    def __init__(self) -> None:
        self._looked = float("-inf")
        self._ends: Mapping[Place, int] = {}

    def is_near(self, now: float, ends: Mapping[Place, int], reached: Mapping[Place, int]) -> bool:
        """Looked at again and again."""
        few = sum(max(0, end - reached[place]) for place, end in ends.items()) <= NEAR_RECORDS
        recent = now - self._looked <= MOMENT_SECONDS
        here = all(reached[place] >= self._ends.get(place, end) for place, end in ends.items())
        self._looked, self._ends = now, ends
        return few or (recent and here)
