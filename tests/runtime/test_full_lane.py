"""Goal: what waits in the lane goes before what waits in the inbox, however much it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, Event
from holdfast.errors import TimedOut
from holdfast.runtime import partition as partition_module
from tests.runtime.mortals import FLEET, Halt, Step, Walker
from tests.runtime.semantics import ENGINES, opened


@pytest.mark.parametrize("engine", ENGINES)
def test_more_than_a_commit_takes_of_the_lane(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "URGENT_PER_COMMIT_MAX", 2)
    with opened(FLEET, engine, tmp_path) as world:
        for number in range(7):
            world.live.send(Walker, "w", Halt(number=number))
        world.live.send(Walker, "w", Step(number=100))
        world.run()
        state = world.live.state(Walker, "w")
        assert state is not None
        assert state.seen == [*range(7), 100]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_receipt_stands_for_urgent_events_that_are_new_beside_repeats(
    engine: str, tmp_path: Path
) -> None:
    """The events of the inbox are folded long ago: their place says nothing of the urgent one."""
    with opened(FLEET, engine, tmp_path) as world:
        world.live.send(Walker, "w", Step(number=1), source="gcs", seq=1)
        world.run()
        rows: list[tuple[type[Agent], str, Event]] = [
            (Walker, "w", Step(number=1)),
            (Walker, "w", Halt(number=2)),
        ]
        receipt = world.live.send_many(rows, source="gcs", first_seq=1)
        assert receipt.repeats == 1
        with pytest.raises(TimedOut):
            world.live.state(Walker, "w", after=receipt, timeout=0.01)
        world.run()
        state = world.live.state(Walker, "w", after=receipt, timeout=0.01)
        assert state is not None
        assert state.seen == [1, 2]
