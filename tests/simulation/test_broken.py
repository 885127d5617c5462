"""Goal: the simulator finds mistakes. Each broken variant of the code is caught within the stated
number of seeds; the same seeds find nothing in the code as it is (test_simulation.py).

The seed that is known to catch it comes first, then all others: another stream of chance costs
time and no verdict. The seeds are in docs/TESTING.md too; a test there keeps the table and BROKEN
alike.
"""

from collections.abc import Callable

import pytest

from holdfast.testing.simulation.campaign import judged
from tests.simulation import fleet_v1, fleet_v2
from tests.simulation.broken import BROKEN
from tests.simulation.variants import SEEDS, Variant


def seed_that_catches(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> int | None:
    variant.apply(monkeypatch)
    for seed in (variant.seed, *range(SEEDS)):
        _, findings = judged([fleet_v1.fleet, fleet_v2.fleet], seed)
        if any(finding.promise in variant.promises for finding in findings):
            return seed
    return None


@pytest.mark.planted("simulator")
@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: variant.name)
def test_a_broken_variant_is_caught(
    variant: Variant,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    seed = seed_that_catches(variant, monkeypatch)
    assert seed is not None, variant.text
    if seed != variant.seed:
        record_property("summary", f"caught by seed {seed}, and not by {variant.seed} any more")


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 54
    assert len({variant.name for variant in BROKEN}) == len(BROKEN)
    assert all(variant.text for variant in BROKEN)
