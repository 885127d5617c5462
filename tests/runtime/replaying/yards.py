"""Histories to replay: random runs of the yard on a memory engine, with all that may happen."""

from __future__ import annotations

import random

from holdfast.engine.port import Engine
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Record
from tests.simulation.fleet_v1 import fleet
from tests.simulation.runs import Run

Name = tuple[str, str]


def random_yard(seed: int, steps: int = 150) -> Run:
    """Kills in commits and deliveries, wrong clocks, zombies, redrives, pauses, cuts in frames."""
    draw = random.Random(f"{seed} yard")
    run = Run(seed, draw.choice([1, 2, 3]), draw.choice([0.0, 0.03, 0.1]))
    for _ in range(steps):
        run.step()
    if draw.random() < 0.7:
        run.finished()
    return run


def rescaled_yard(seed: int, steps: int = 60) -> Run:
    """The same with two rescalings, each of an engine that goes on."""
    run = random_yard(seed, steps)
    for partitions in (4, 1):
        run.trouble = 0.0
        run.zombies = []
        run.engine.release()
        job = Rescale(fleet, run.engine, partitions, run.time.clock)
        while not job.step():
            run.time.true += 0.05
        run.engine.grow()
        run.worker = run._start()
        for _ in range(steps):
            run.step()
    run.finished()
    return run


def codebook(engine: Engine) -> Codebook:
    return codebook_of(fleet, engine.catalog.schemas())


def commits_of(run: Run, number: int) -> list[Commit]:
    """What was committed, as the engine took it; commits that only clear are left out."""
    made = [accepted.commit for accepted in run.engine.logs[number].commits]
    return [commit for commit in made if commit.note is not None]


def states_after(commits: list[Commit]) -> dict[Name, Record]:
    states: dict[Name, Record] = {}
    for commit in commits:
        for record in commit.records:
            states.pop((record.agent, record.key), None)
            if not record.gone:
                states[record.agent, record.key] = record
    return states
