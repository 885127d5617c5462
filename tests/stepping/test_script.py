"""Goal: a journalled firing is repeated as it was, also one of an older release, which did not say
when a periodic timer was due again."""

from __future__ import annotations

import pytest

from holdfast.stepping.script import Firing


@pytest.mark.parametrize(
    ("now", "stamp", "recorded", "again"),
    [
        (10.0, 17.5, None, 19.0),  # in front of an input that came at 17.5
        (10.0, 0.0, None, 13.0),  # with nothing behind it
        (14.0, 17.5, None, 16.0),  # at the clock, whatever came later
        (10.0, 17.5, 22.0, 22.0),  # as recorded
    ],
)
def test_when_a_periodic_timer_is_due_again(
    now: float, stamp: float, recorded: float | None, again: float
) -> None:
    firing = Firing(7, "Clock", "c-1", "tick", 10.0, now, (1, b""), recorded)
    assert firing._due_again(3.0, stamp) == again
