"""Goal: a copy that keeps up is near however busy senders are, and one that falls behind is not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.nearing import NEAR_RECORDS, is_near

INBOX, CHANGELOG = Place("inbox", 0), Place("changelog", 0)
BUSY = 20 * NEAR_RECORDS


@dataclass
class Read:
    """A feed: where the inbox ends, how far it was read, and how far it is read a moment later."""

    ends: int
    now: int
    then: int
    asked: list[tuple[Place, int]] = field(default_factory=list)

    def end(self, place: Place) -> int:
        return self.ends if place == INBOX else 5

    def reached(self, place: Place) -> int:
        return self.now if place == INBOX else 5

    def wait_until(self, place: Place, offset: int, seconds: float) -> bool:
        return offset <= (self.then if place == INBOX else 5)


@pytest.mark.parametrize(
    ("read", "near"),
    [
        (Read(NEAR_RECORDS, 0, 0), True),
        (Read(NEAR_RECORDS + 1, 0, NEAR_RECORDS), False),
        (Read(BUSY, 0, BUSY), True),
        (Read(BUSY, 0, BUSY - 1), False),
    ],
)
def test_little_is_missing_or_it_comes_within_a_moment(read: Read, near: bool) -> None:
    assert is_near(read, [INBOX, CHANGELOG]) == near
