"""When a copy is near: a claim, which waits for what is missing, then takes no time.

Not by a number of records alone: while senders are busy, some are always on their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.engine.kafka.feed import Place

NEAR_RECORDS = 100
MOMENT_SECONDS = 0.1


class Read(Protocol):
    """The feed, as far as it matters here."""

    def end(self, place: Place) -> int: ...
    def reached(self, place: Place) -> int: ...
    def wait_until(self, place: Place, offset: int, seconds: float) -> bool: ...


def is_near(feed: Read, places: Sequence[Place]) -> bool:
    """Little is missing, or all that is comes within a moment."""
    ends = {place: feed.end(place) for place in places}
    missing = sum(max(0, end - feed.reached(place)) for place, end in ends.items())
    return missing <= NEAR_RECORDS or all(
        feed.wait_until(place, end, MOMENT_SECONDS) for place, end in ends.items()
    )
