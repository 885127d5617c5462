"""Goal: whoever folds a partition, and however often it is handed on, every commit has the sum that
a replay makes of it, with kernels or without."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from holdfast.model.fleet import FleetModel
from holdfast.runtime.kernels import kernels_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.stepping.script import read_firings
from holdfast.stepping.stepper import Stepper
from tests.compiled import depot
from tests.compiled.depot import Scan, Shelf
from tests.compiled.twins import Twin, Twins
from tests.stepping.rig import codebook_of


@pytest.fixture(scope="module")
def interpreted() -> Iterator[FleetModel]:
    """The same program, without `compiled=True`."""
    assert depot.__file__ is not None
    spec = importlib.util.spec_from_file_location("depot_interpreted", depot.__file__)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPOT_INTERPRETED", "1")
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module.fleet


class Life:
    """One partition from its first event on: now and then another process goes on with it."""

    def __init__(self, seed: int, interpreted: FleetModel) -> None:
        self.chance = random.Random(seed)
        self.kernels = kernels_of(depot.fleet)
        self.twins = Twins(depot.fleet, self.kernels)
        self.interpreted, self.codebook = interpreted, codebook_of(interpreted)
        self.twin = self.twins.compiled
        self.inbox = self.twins.inbox
        self.now = 1_000.0
        self.sent = 0
        self.messages: list[bytes] = []

    def live(self, steps: int) -> list[Commit]:
        for _ in range(steps):
            for _ in range(self.chance.choice([0, 1, 1, 2, 3])):
                self.now += self.chance.choice([0.0, 0.001, 0.04, 0.06, 0.3])
                self._arrive()
            self._step()
            if self.chance.random() < 0.3:
                self._hand_on()
        return self.twin.commits

    def _arrive(self) -> None:
        if self.messages and self.chance.random() < 0.6:
            some = self.chance.randint(1, len(self.messages))
            self.inbox.carry(self.messages[:some], self.now)
            del self.messages[:some]
            return
        rows = [depot.row(self.sent + n) for n in range(self.chance.choice([1, 2, 7, 60]))]
        self.sent += len(rows)
        keys, events = [r.key for r in rows], [Scan(r.amount, r.weight, r.tag) for r in rows]
        if self.chance.random() < 0.5:
            self.twins.put_columns(Shelf, keys, events, self.now)
        else:
            self.inbox.put([(Shelf, k, e) for k, e in zip(keys, events, strict=True)], self.now)

    def _step(self) -> None:
        waiting = self.between(self.twin.stepper.head.position, 2**62, self.twin.codebook)
        batch = waiting[: self.chance.choice([1, 2, 3, 9])]
        if batch and self.chance.random() < 0.2:
            batch[-1] = batch[-1].part(0, self.chance.randint(1, len(batch[-1])))
        alone = self.chance.random() < 0.1
        commit = self.twin.stepper.step(
            batch[: 1 if alone else None], None if waiting else self.now + 0.06, alone=alone
        )
        if not commit.empty:
            self.twin.keep(commit)
            self.messages += [out.frame for out in commit.outgoing]

    def between(self, first: int, last: int, codebook: Codebook) -> list[Inputs]:
        frames = [f for f in self.inbox.frames if f.first < last and f.first + f.count > first]
        read = [read_inputs(frame, codebook) for frame in frames]
        return [r.part(max(0, first - r.first), min(len(r), last - r.first)) for r in read]

    def _hand_on(self) -> None:
        if self.chance.random() < 0.5:
            self.twin.items = self.twin.compacted()
        compiled = self.chance.random() < 0.6
        self.twin.fleet = depot.fleet if compiled else self.interpreted
        self.twin.codebook = self.twins.codebook if compiled else self.codebook
        self.twin.reload(self.kernels if compiled else {}, compacted=False)


def replayed(life: Life, twin: Twin, commits: list[Commit]) -> Iterator[tuple[Commit, Commit]]:
    stepper: Stepper = twin.scripted()
    for commit in commits:
        batch = life.between(commit.before.position, commit.head.position, twin.codebook)
        script = read_firings(commit.journalled) if commit.journalled else []
        yield commit, stepper.repeat(batch, script)


@pytest.mark.parametrize("seed", range(30))
def test_every_sum_is_made_again(seed: int, interpreted: FleetModel) -> None:
    life = Life(seed, interpreted)
    commits = life.live(40)
    alike = 0
    for twin in (life.twins.plain, Twins(depot.fleet, life.kernels).compiled):
        for was, made in replayed(life, twin, commits):
            assert was.note is not None
            assert made.note is not None
            if was.note.in_blocks == made.note.in_blocks:
                assert made.note == was.note, [record[:2] for record in made.changed]
                alike += 1
    assert alike > 10
