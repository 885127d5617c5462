"""Goal: an urgent event that ends its worker is found and buried, and none is buried for what an
event of the inbox did."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.sqlite.state import SqliteState
from tests.runtime.forking.recordings import differences, forked
from tests.runtime.mortals import FLEET, Death, Halt, Step, Walker
from tests.runtime.semantics import World, opened


def dies(world: World) -> bool:
    """Whether the worker dies; then there is another, which finds what a dead one leaves."""
    try:
        world.run()
    except Death:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SqliteState, "folding", lambda state, position: None)
            world.restart()
        return True
    return False


def deaths(world: World, most: int) -> int:
    for count in range(most):
        if not dies(world):
            return count
    raise AssertionError(f"still dying after {most} workers")


def seen(world: World) -> list[int]:
    state = world.live.state(Walker, "w")
    assert state is not None
    return state.seen


def test_an_urgent_event_that_kills_is_buried(tmp_path: Path) -> None:
    with opened(FLEET, "sqlite", tmp_path) as world:
        for number in (1, -1, 2):
            world.live.send(Walker, "w", Halt(number=number))
        world.live.send(Walker, "w", Step(number=3))
        assert deaths(world, 8) == 5
        assert seen(world) == [1, 2, 3]
        (letter,) = world.live.dead_letters()
        assert letter.event == Halt(number=-1)


def test_an_urgent_event_that_comes_late_is_not_taken_for_the_one_that_kills(
    tmp_path: Path,
) -> None:
    """It goes first, and it is the event behind it that is known to kill."""
    with opened(FLEET, "sqlite", tmp_path) as world:
        world.live.send(Walker, "w", Step(number=-1))
        assert all(dies(world) for _ in range(5))
        world.live.send(Walker, "w", Halt(number=1))
        world.live.send(Walker, "w", Step(number=2))
        assert deaths(world, 4) == 0
        assert seen(world) == [1, 2]
        (letter,) = world.live.dead_letters()
        assert letter.event == Step(number=-1)


def test_an_event_that_kills_is_found_while_urgent_ones_keep_coming(tmp_path: Path) -> None:
    """One comes with every worker, and another between its first commit and its second."""
    with opened(FLEET, "sqlite", tmp_path) as world:
        world.live.send(Walker, "w", Step(number=-1))
        world.live.send(Walker, "w", Step(number=1))
        for number in range(10, 40, 2):
            world.live.send(Walker, "w", Halt(number=number))
            world.worker.tick()
            world.live.send(Walker, "w", Halt(number=number + 1))
            if not dies(world):
                break
        (letter,) = world.live.dead_letters()
        assert letter.event == Step(number=-1)
        assert number == 10 + 2 * 5, "as many workers as without them"
        assert sorted(seen(world)) == [1, *range(10, number + 2)]


@pytest.mark.parametrize("kind", [Halt, Step])
def test_a_fork_does_not_run_what_had_killed_and_nothing_else_is_left_out(
    tmp_path: Path, kind: type[Halt] | type[Step]
) -> None:
    with opened(FLEET, "sqlite", tmp_path) as world:
        world.live.send(Walker, "w", Step(number=1))
        world.run()
        world.live.send(Walker, "w", kind(number=-1))
        world.live.send(Walker, "w", Step(number=2))
        assert deaths(world, 8) == 5
        assert differences(forked(world, FLEET)) == {}
