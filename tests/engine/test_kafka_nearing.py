"""Goal: a copy that keeps up is near however busy senders are, and one that falls behind is not."""

from holdfast.engine.kafka.feed import Place
from holdfast.engine.kafka.nearing import MOMENT_SECONDS, NEAR_RECORDS, Nearing

INBOX, CHANGELOG = Place("inbox", 0), Place("changelog", 0)
BUSY = 20 * NEAR_RECORDS  # so many come from one look to the next


def looks(seconds: float, pairs: list[tuple[int, int]]) -> list[bool]:
    """Whether it is near, by where the inbox ends and how far the copy is at each look."""
    nearing = Nearing()
    return [
        nearing.is_near(
            number * seconds, {INBOX: end, CHANGELOG: 5}, {INBOX: reached, CHANGELOG: 5}
        )
        for number, (end, reached) in enumerate(pairs)
    ]


def test_little_is_missing() -> None:
    assert looks(0.1, [(NEAR_RECORDS, 0), (NEAR_RECORDS + 1, 0)]) == [True, False]


def test_what_was_missing_a_moment_ago_is_here() -> None:
    assert looks(0.1, [(BUSY, 0), (2 * BUSY, BUSY), (3 * BUSY, 2 * BUSY - 1)]) == [
        *(False, True, False)
    ]


def test_what_was_missing_long_ago_does_not_count() -> None:
    assert looks(2 * MOMENT_SECONDS, [(BUSY, 0), (2 * BUSY, BUSY)]) == [False, False]


def test_both_topics_count() -> None:
    nearing = Nearing()
    nearing.is_near(0.0, {INBOX: BUSY, CHANGELOG: BUSY}, {INBOX: 0, CHANGELOG: 0})
    ends = {INBOX: 2 * BUSY, CHANGELOG: 2 * BUSY}
    assert not nearing.is_near(0.1, ends, {INBOX: BUSY, CHANGELOG: 0})
