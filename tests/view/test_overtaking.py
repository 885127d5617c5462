"""Goal: a view takes an urgent event once, where it was folded, and can be waited for with its
receipt."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.view.sql.queries import Queries
from tests.runtime.walkers import FLEET, Halt, Order, Step, Walker


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_view_has_what_a_receipt_stands_for(engine: str, tmp_path: Path) -> None:
    url = "memory:" if engine == "memory" else f"sqlite:{tmp_path / 'data'}"
    with FLEET.open(url) as live:
        view = live.view(Order)
        for number in range(5):
            receipt = live.send(Walker, "w", Halt(number=number))
            row = view.get("w", after=receipt)
            assert row is not None
            assert row.numbers == list(range(number + 1))
        both = live.send_many([(Walker, "w", Step(number=6)), (Walker, "w", Halt(number=5))])
        row = view.get("w", after=both)
        assert row is not None
        assert row.numbers == [0, 1, 2, 3, 4, 5, 6]


def test_a_view_sees_the_order_of_the_fold(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with FLEET.open(url):
        pass
    with FLEET.connect(url) as live:  # nobody folds
        for number in range(3):
            live.send(Walker, "w", Step(number=number))
        live.send(Walker, "w", Halt(number=100))
        live.send(Walker, "w", Step(number=3))
    with FLEET.open(url) as live:
        live.settle()
        state = live.state(Walker, "w")
        assert state is not None
        assert state.seen == [100, 0, 1, 2, 3]
        live.view(Order).catch_up()
        row = live.view(Order).get("w")
        assert row is not None
        assert row.numbers == [100, 0, 1, 2, 3]


def test_a_query_has_what_was_folded_since(tmp_path: Path) -> None:
    """What came last was folded first: whoever asks for the newest must not miss it."""
    url = f"sqlite:{tmp_path / 'data'}"
    with FLEET.open(url) as live:
        live.send(Walker, "w", Step(number=0))
        live.settle()
    with FLEET.connect(url) as live:
        for number in (1, 2):
            live.send(Walker, "w", Step(number=number))
        time.sleep(0.02)
        since = time.time()
        time.sleep(0.02)
        live.send(Walker, "w", Halt(number=100))
        live.send(Walker, "w", Step(number=3))
    asked = "SELECT payload->>'number' FROM events WHERE type != 'Rang'"
    with FLEET.open(url) as live, Queries(live) as queries:
        live.settle()
        every = [row[0] for row in queries.answer(asked).rows]
        assert every == ["0", "100", "1", "2", "3"]
        assert [row[0] for row in queries.answer(asked, since=since).rows] == every[1:]


def test_a_query_counts_what_waits_with_the_urgent_ones(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    asked = "SELECT position, inbox, lag FROM partitions"
    with FLEET.open(url) as live, Queries(live) as queries:
        for number in range(3):
            live.send(Walker, "w", Halt(number=number))
        live.send(Walker, "w", Step(number=3))
        live.settle()
        assert queries.answer(asked).rows == [[1, 4, 0]]
    with FLEET.connect(url) as live, Queries(live) as queries:  # nobody folds
        live.send(Walker, "w", Halt(number=4))
        live.send(Walker, "w", Step(number=5))
        assert queries.answer(asked).rows == [[1, 6, 2]]
