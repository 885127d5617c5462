"""Histories to replay: random runs of the yard on a memory engine, with all that may happen.

To the runs of the oracle's tests, which have calls with replies, failures and replies that come
twice, they add replies that come late, and compensations, some of them twice.
"""

from __future__ import annotations

import random

from holdfast.engine.port import Engine
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.issued import find_action, key_of
from holdfast.runtime.replaying.history import History
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Commit, Record
from holdfast.stepping.inputs import read_inputs
from tests.simulation.fleet_v1 import fleet
from tests.simulation.runs import Run

Name = tuple[str, str]


class Yard(Run):
    def __init__(self, seed: int, partitions: int, trouble: float) -> None:
        super().__init__(seed, partitions, trouble)
        self.called: list[Call] = []

    def step(self) -> None:
        chance = self.draw.random()
        if chance < 0.06:
            self.compensate()
        elif chance < 0.1 and self.called:
            call = self.draw.choice(self.called)
            self._reply(self.engine.catalog.layout.partition_of(call.key), call)
        else:
            super().step()

    def answer(self, most: int) -> bool:
        """Only where agents live: tables of retired partitions stay as they were."""
        found = False
        for number in self.engine.catalog.layout.numbers:
            calls = self.engine.view(number).calls(0, most)
            for call in calls:
                self._reply(number, call)
            self.called += calls
            found = found or bool(calls)
        return found

    def compensate(self) -> None:
        live = self.draw.choice(self.clients).live
        issued = list(live.actions())
        if not issued:
            return
        id = self.draw.choice(issued).id
        catalog = self.engine.catalog
        found = find_action(self.engine, partitions_of(catalog, key_of(id)), id)
        for _ in range(self.draw.choice([1, 1, 2])):
            command: list[object] = ["compensate", id, "for a test", found.schema, found.row]
            number = catalog.layout.partition_of(found.key)
            live._control(number, found.agent, found.key, command)


def random_yard(seed: int, steps: int = 150) -> Yard:
    """Kills in commits and deliveries, wrong clocks, zombies, redrives, pauses, cuts in frames."""
    draw = random.Random(f"{seed} yard")
    run = Yard(seed, draw.choice([1, 2, 3]), draw.choice([0.0, 0.03, 0.1]))
    for _ in range(steps):
        run.step()
    if draw.random() < 0.7:
        run.finished()
    return run


def rescaled_yard(seed: int, steps: int = 60) -> Yard:
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


def entries_of(engine: Engine, number: int) -> list[tuple[str, str]]:
    """Every input of a partition: its origin, and the class of the event or the command."""
    book, found = codebook(engine), []
    for stored in History(engine, number).frames():
        inputs = read_inputs(stored, book)
        if inputs.commands is not None:
            found += [(inputs.origin, str(command[0])) for command in inputs.commands]
        else:
            found += [(inputs.origin, type(event).__name__) for event in inputs.events]
    return found
