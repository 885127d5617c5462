"""Goal: no difference is seen where there is none: while the fleet folds on, where notes of commits
are missing, where letters of others come in between, or an event may not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.memory.partition import MemoryPartition
from holdfast.runtime.partition import CONDEMNED
from holdfast.runtime.replaying.moments import compare_agent
from holdfast.runtime.replaying.running import compare
from holdfast.stepping.commit import Record
from tests.runtime.replaying.lockers import Put, fleet_of
from tests.runtime.replaying.test_differences import fill
from tests.runtime.semantics import World, opened


def partition_of(world: World) -> MemoryPartition:
    assert isinstance(world.engine, MemoryEngine)
    return world.engine._partitions[0]


def put(world: World, key: str, weight: float) -> None:
    world.live.send(world.fleet.agents["Locker"], key, Put(what="g", weight=weight))
    world.run()


def test_the_fleet_folds_on_while_states_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are of a commit between the head before and the head after they were read."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        part = partition_of(world)
        read = part.records

        def records(agent: str | None = None) -> Iterator[Record]:
            put(world, "k-1", 1.0)
            put(world, "k-2", 1.0)
            found = list(read(agent))
            put(world, "k-2", 2.0)
            put(world, "k-1", 2.0)
            return iter(found)

        monkeypatch.setattr(part, "records", records)
        outcome = compare(world.engine, world.fleet, 0)
        assert outcome.difference is None
        assert outcome.events == part.committed.position


def test_notes_with_a_hole(tmp_path: Path) -> None:
    """As an older release leaves it between two newer ones."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        part = partition_of(world)
        part.notes = [note for note in part.notes if not 4 <= note.number <= 6]
        outcome = compare(world.engine, world.fleet, 0)
        assert outcome.difference is None
        assert outcome.sums == len(part.notes) - 1, "all but the one that the hole ends with"


def test_a_redriven_letter_among_those_of_others(tmp_path: Path) -> None:
    """One agent alone makes other numbers of letters: its commands mean the recorded ones."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        for key in ("k-2", "k-2", "k-1"):
            put(world, key, -1.0)
        world.live.redrive("0.3")
        world.run()
        assert len(world.live.dead_letters()) == 4
        (outcome,) = compare_agent(world.engine, world.fleet, "Locker", "k-1")
        assert (outcome.events, outcome.difference) == (2, None)


@pytest.mark.parametrize("noted", [True, False])
def test_an_event_that_may_not_run(tmp_path: Path, noted: bool) -> None:
    """Where no note says it, its dead letter does."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        put(world, "k-1", 1.0)
        folding = world.worker.partitions[0]
        folding._alone = folding._condemned = True
        put(world, "k-1", 2.0)
        folding._alone = folding._condemned = False
        put(world, "k-1", 3.0)
        assert [letter.error for letter in world.live.dead_letters()] == [CONDEMNED]
        if not noted:
            partition_of(world).notes.clear()
        assert compare(world.engine, world.fleet, 0).difference is None
        (alone,) = compare_agent(world.engine, world.fleet, "Locker", "k-1")
        assert alone.difference is None
