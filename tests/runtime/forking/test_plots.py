"""Goal: the axes of a fork's page say numbers that differ."""

import re

from holdfast.runtime.forking.plots import over_time


def labels(page: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", page)


def test_counts_have_no_halves() -> None:
    assert labels(over_time(0.0, 60.0, {"Land": [1, 0]}))[:2] == ["0", "1"]
    assert labels(over_time(0.0, 60.0, {"Land": [4, 0]}))[:3] == ["0", "2", "4"]


def test_times_are_as_fine_as_the_bars() -> None:
    times = labels(over_time(0.0, 0.05, {"Land": [1] * 20}))[-5:]
    assert times == ["00:00:00.00", "00:00:00.25", "00:00:00.50", "00:00:00.75", "00:00:01.00"]
    assert labels(over_time(0.0, 3600.0, {"Land": [1]}))[-1] == "01-01 01:00"
