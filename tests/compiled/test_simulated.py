"""Goal: compiled agents keep every promise under the simulated faults, judged as any fleet is: by a
reference that interprets their handlers and shares no code with the stepper."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.stepping.compiled.kind import Kernel
from holdfast.testing import simulate
from holdfast.testing.simulation.run import run
from tests.compiled.agents import FLEET


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 100), marks=pytest.mark.soak)], ids=str
)
def test_every_promise_holds(kernels: Mapping[str, Kernel], seeds: range) -> None:
    tally = simulate(FLEET, seeds)
    assert tally.seeds == len(seeds)
    assert tally.events > 40 * tally.seeds


def test_kernels_did_it(kernels: Mapping[str, Kernel]) -> None:
    """Most commits have agents in blocks, which only kernels make."""
    evidence = run([FLEET], 3).evidence
    commits = [
        a.commit for generation in evidence.generations for log in generation for a in log.commits
    ]
    assert sum(bool(each.blocks) for each in commits) > len(commits) // 3
