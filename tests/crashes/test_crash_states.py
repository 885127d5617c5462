"""Goal: whatever moment the power fails at, the promises hold in every state the disk may be in.

Everything acknowledged is there, exactly and in order; what was in flight is there wholly or not at
all; a resend is taken once; nothing is refused as damaged; and the engine goes on. The number of
distinct states is printed at the end of the run. `make soak` looks at MANY; HOLDFAST_CRASH_STATES=N
asks for another number.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crashes.kills import killed_runs
from tests.crashes.promises import Checker
from tests.crashes.script import Run
from tests.crashes.states import crash_states

STATES = int(os.environ.get("HOLDFAST_CRASH_STATES", "800"))
MANY = 20_000
AFTER_KILLS = 0.2  # of them
SEED = 1


def states_after_kills(states: int = STATES) -> int:
    return int(states * AFTER_KILLS)


def plain_states(states: int = STATES) -> int:
    return states - states_after_kills(states)


numbers = pytest.mark.parametrize(
    "states",
    [
        pytest.param(STATES, marks=pytest.mark.timeout(60 + STATES)),
        pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(60 + MANY)]),
    ],
)


@numbers
def test_a_power_loss_breaks_no_promise(
    run: Run, place: Path, states: int, record_property: Callable[[str, object], None]
) -> None:
    seen: set[bytes] = set()
    checker = Checker(run, place / "state")
    for state in crash_states(run, plain_states(states), SEED, seen):
        checker.check(state)
    assert len(seen) > 0.99 * plain_states(STATES), "the workload has not so many states"
    record_property("summary", f"{len(seen):,} distinct states of the disk after a power loss")


@numbers
def test_nor_does_one_that_comes_after_a_kill(
    run: Run, place: Path, states: int, record_property: Callable[[str, object], None]
) -> None:
    seen: set[bytes] = set()
    base = place / f"kills {states}"
    base.mkdir()
    successors = list(killed_runs(run, base))
    each = states_after_kills(states) // len(successors) + 1
    for number, successor in enumerate(successors):
        checker = Checker(successor, place / "state")
        for state in crash_states(successor, each, SEED + number, seen):
            checker.check(state)
    told = f"{len(seen):,} more after a kill in the middle of a sync ({len(successors)} kills)"
    record_property("summary", told)
