"""Goal: compiled agents keep every promise under the simulated faults, judged as any fleet is: by a
reference that interprets their handlers and shares no code with the stepper."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.stepping.compiled.kind import Kernel
from holdfast.testing.simulation.campaign import Tally, judged
from tests.compiled.agents import FLEET


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 100), marks=pytest.mark.soak)], ids=str
)
def test_every_promise_holds_and_kernels_did_it(
    kernels: Mapping[str, Kernel], seeds: range
) -> None:
    """Most commits have agents in blocks, which only kernels make."""
    tally, in_blocks = Tally(), 0
    for seed in seeds:
        done, findings = judged([FLEET], seed)
        assert findings == [], f"seed {seed}"
        tally.add(done, findings)
        logs = (log for generation in done.evidence.generations for log in generation)
        in_blocks += sum(bool(a.commit.blocks) for log in logs for a in log.commits)
    assert tally.events > 40 * tally.seeds
    assert in_blocks > tally.commits // 3
