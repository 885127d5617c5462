"""Goal: what a partition knows beside its agents (compensations, redriven letters, open calls,
counts of messages) is compared too, and what other agents did in a commit is no difference."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.memory.partition import MemoryPartition
from holdfast.runtime.replaying.moments import compare_agent
from holdfast.runtime.replaying.running import compare
from holdfast.stepping.fates import Fates
from tests.runtime import doors
from tests.runtime.doors import Close, Door
from tests.runtime.forking.recordings import work
from tests.runtime.semantics import World, opened, until
from tests.simulation import fleet_v1 as yard


def part_of(world: World) -> MemoryPartition:
    assert isinstance(world.engine, MemoryEngine)
    return world.engine._partitions[0]


def lost_call(part: MemoryPartition) -> None:
    part.opened.pop(next(iter(part.opened)))


def other_arguments(part: MemoryPartition) -> None:
    id, call = next(iter(part.opened.items()))
    part.opened[id] = call._replace(arguments=b"\x90")


def redriven(part: MemoryPartition, was: bool) -> None:
    id, letter = next((i, x) for i, (x, done) in part.dead.items() if done == was)
    part.dead[id] = (letter, not was)


def more_messages(part: MemoryPartition) -> None:
    part.numbers[0] += 1


@pytest.mark.parametrize(
    ("tamper", "what"),
    [
        (lost_call, "the open call"),
        (other_arguments, "the open call"),
        (lambda part: redriven(part, True), "was redriven"),
        (lambda part: redriven(part, False), "was redriven"),
        (more_messages, "the next message to partition 0"),
    ],
)
def test_a_hand_in_the_tables(
    tmp_path: Path, tamper: Callable[[MemoryPartition], None], what: str
) -> None:
    with opened(yard.fleet, "memory", tmp_path) as world:
        work(world, random.Random(1), 60)
        assert compare(world.engine, yard.fleet, 0).difference is None
        tamper(part_of(world))
        found = compare(world.engine, yard.fleet, 0).difference
    assert found is not None
    assert what in found.what


@pytest.fixture
def compensated(tmp_path: Path) -> Iterator[World]:
    """Two doors; one commit has a lock of d-1 and the undo of a lock of d-2."""
    with opened(doors.fleet, "memory", tmp_path) as world:
        world.live.send(Door, "d-2", Close())
        world.run()
        world.live.send(Door, "d-1", Close())
        (lock,) = world.live.actions()

        def fold_both() -> None:
            until(lambda: world.live.positions()[0].lag == 2, "the command waits too")
            world.run()

        folding = threading.Thread(target=fold_both)
        folding.start()
        world.live.compensate(lock.id, "the wrong door")
        folding.join()
        yield world


def test_a_lost_compensation(compensated: World) -> None:
    part = part_of(compensated)
    assert compare(compensated.engine, doors.fleet, 0).difference is None
    part.decided = Fates()
    found = compare(compensated.engine, doors.fleet, 0).difference
    assert found is not None
    assert found.what == "whether doors/Door/d-2/1/0 was compensated"
    assert (found.committed, found.replayed) == (None, "the wrong door")


def test_one_that_went_with_its_action_is_none(compensated: World) -> None:
    part = part_of(compensated)
    part.decided, part.issued = Fates(), []
    assert compare(compensated.engine, doors.fleet, 0).difference is None


def test_an_undo_of_another_agent_in_the_same_commit(compensated: World) -> None:
    assert part_of(compensated).committed.commits == 2
    for key in ("d-1", "d-2"):
        (alone,) = compare_agent(compensated.engine, doors.fleet, "Door", key)
        assert alone.difference is None, key
