"""Goal: what runs beside the fold goes on after a failure, and tells it once, not all the time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from holdfast.errors import Unreachable
from holdfast.runtime.repeating import Repeating


def test_what_failed_is_tried_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    failures: Iterator[str] = iter(["full", "full", "full", "away", ""])
    done = threading.Event()

    def tick() -> None:
        trouble = next(failures, "")
        if trouble:
            raise OSError(trouble)
        done.set()

    repeating = Repeating("tidying", tick, 0.001)
    assert done.wait(60.0)
    repeating.stop()
    told = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in told] == ["full", "away"]
    assert "tidying failed and will be tried again" in caplog.text


def test_trouble_that_we_know_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def tick() -> None:
        if not caplog.records:
            raise Unreachable("nobody answers: are the brokers up?")
        done.set()

    repeating = Repeating("tidying", tick, 0.001)
    assert done.wait(60.0)
    repeating.stop()
    (told,) = caplog.records
    assert not told.exc_info
    assert told.getMessage().endswith("tried again: nobody answers: are the brokers up?")
