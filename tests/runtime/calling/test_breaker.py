"""Goal: what fails again and again is left alone, and one probe decides when to go on."""

from holdfast.runtime.calling.breaker import (
    ATTEMPTS_TO_JUDGE,
    OPEN_SECONDS,
    WINDOW_ATTEMPTS,
    WINDOW_SECONDS,
    Breaker,
)


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for serial in range(ATTEMPTS_TO_JUDGE):
        assert breaker.admits(serial, at)
        breaker.record(serial, False, at)
    assert breaker.state(at) == "open"
    return breaker


def test_few_failures_are_no_judgement() -> None:
    breaker = Breaker()
    for serial in range(ATTEMPTS_TO_JUDGE - 1):
        breaker.record(serial, False, 0.0)
    assert breaker.state(0.0) == "closed"
    breaker.record(99, False, 0.0)
    assert breaker.state(0.0) == "open"


def test_half_is_too_much_and_less_is_not() -> None:
    breaker = Breaker()
    for serial in range(WINDOW_ATTEMPTS):
        breaker.record(serial, serial % 5 > 1, 0.0)  # two of five fail
    assert breaker.state(0.0) == "closed"
    for serial in range(WINDOW_ATTEMPTS):
        breaker.record(serial, serial % 2 == 1, 0.0)
    assert breaker.state(0.0) == "open"


def test_old_failures_are_forgotten() -> None:
    breaker = Breaker()
    for serial in range(ATTEMPTS_TO_JUDGE - 1):
        breaker.record(serial, False, 0.0)
    breaker.record(20, False, WINDOW_SECONDS + 1.0)
    assert breaker.state(WINDOW_SECONDS + 1.0) == "closed"


def test_the_newest_attempts_count_only() -> None:
    breaker = Breaker()
    for serial in range(WINDOW_ATTEMPTS * 3):
        breaker.record(serial, True, 0.0)
    for serial in range(WINDOW_ATTEMPTS // 2):
        assert breaker.state(0.0) == "closed"
        breaker.record(serial, False, 0.0)
    assert breaker.state(0.0) == "open"


def test_open_lets_nothing_through() -> None:
    breaker = opened()
    assert not breaker.admits(50, OPEN_SECONDS - 0.001)


def test_after_the_pause_one_probe_passes() -> None:
    breaker = opened()
    assert breaker.state(OPEN_SECONDS) == "half-open"
    assert breaker.admits(50, OPEN_SECONDS)
    assert not breaker.admits(51, OPEN_SECONDS)


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    breaker.admits(50, OPEN_SECONDS)
    breaker.record(50, True, OPEN_SECONDS)
    assert breaker.state(OPEN_SECONDS) == "closed"
    assert breaker.admits(51, OPEN_SECONDS)


def test_a_probe_that_fails_opens_it_again() -> None:
    breaker = opened()
    breaker.admits(50, OPEN_SECONDS)
    breaker.record(50, False, OPEN_SECONDS + 1.0)
    assert not breaker.admits(51, 2 * OPEN_SECONDS)
    assert breaker.admits(52, 2 * OPEN_SECONDS + 1.0)


def test_what_began_before_it_opened_decides_nothing() -> None:
    breaker = opened()
    breaker.record(3, True, 1.0)
    assert breaker.state(1.0) == "open"
    breaker.admits(50, OPEN_SECONDS)
    breaker.record(4, True, OPEN_SECONDS)
    assert breaker.state(OPEN_SECONDS) == "half-open"


def test_a_probe_that_was_lost_makes_room_for_another() -> None:
    breaker = opened()
    breaker.admits(50, OPEN_SECONDS)
    breaker.release(50)
    assert breaker.admits(51, OPEN_SECONDS)
