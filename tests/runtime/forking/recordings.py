"""Recorded pasts to fork: yards of robots folded by hand, and what a fork must find in none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.model.fleet import FleetModel
from holdfast.runtime.forking.fork import Forked, Options, fork_engine
from tests.runtime.semantics import World, opened
from tests.simulation import fleet_v1 as yard

PAUSES_SECONDS = [0.0, 0.001, 0.01, 0.1, 0.5, 2.0]


@contextmanager
def recorded_yard(
    seed: int, folder: Path, engine: str = "memory", partitions: int = 3, sends: int = 150
) -> Iterator[World]:
    """Every feature of an agent, an operator at work, and a worker that is late at random."""
    with opened(yard.fleet, engine, folder, partitions) as world:
        work(world, random.Random(seed), sends)
        yield world


def work(world: World, draw: random.Random, sends: int) -> None:
    for _ in range(sends):
        world.live.send_many([yard.stimulus(draw) for _ in range(draw.randint(1, 4))])
        operate(world, draw)
        for _ in range(draw.randint(0, 3)):
            world.worker.tick()
        if draw.random() < 0.3:
            world.run()
        world.clock.pass_time(draw.choice(PAUSES_SECONDS))
    world.run()


def operate(world: World, draw: random.Random) -> None:
    if draw.random() < 0.1:
        world.live.resume(yard.Scale, f"w-{draw.randint(1, 4)}")
    if draw.random() < 0.05:
        world.live.pause(yard.Robot, "r-1")
    waiting = [letter.id for letter in world.live.dead_letters() if not letter.redriven]
    if waiting and draw.random() < 0.1:
        world.live.redrive(draw.choice(waiting))


def forked(world: World, fleet: FleetModel, options: Options | None = None) -> Forked:
    return fork_engine(fleet, world.engine, options or Options())


def differences(found: Forked) -> dict[str, object]:
    """All that a fork found, by kind; empty if it found nothing."""
    outcome = found.outcome
    kinds: dict[str, object] = {
        "decisions": outcome.counts,
        "states": outcome.states.examples,
        "letters": outcome.letters if outcome.letters[0] != outcome.letters[1] else (),
        "only recorded": outcome.missed,
        "only in the fork": outcome.fresh,
        "calls": outcome.unanswered,
    }
    return {kind: value for kind, value in kinds.items() if value}
