"""Goal: compiled agents keep every promise under the simulated faults, judged as any fleet is: by a
reference that interprets their handlers and shares no code with the stepper."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.stepping.compiled.kind import Kernel
from holdfast.testing.simulation.campaign import Tally, judged
from tests.compiled.agents import FLEET

SEEDS = range(8)


def test_every_promise_holds_and_kernels_did_it(kernels: Mapping[str, Kernel]) -> None:
    """Most commits have agents in blocks, which only kernels make."""
    tally, in_blocks = Tally(), 0
    for seed in SEEDS:
        done, findings = judged([FLEET], seed)
        assert findings == [], f"seed {seed}"
        tally.add(done, findings)
        logs = (log for generation in done.evidence.generations for log in generation)
        in_blocks += sum(bool(a.commit.blocks) for log in logs for a in log.commits)
    assert tally.events > 40 * tally.seeds
    assert in_blocks > tally.commits // 3
