"""Goal: the simulator finds mistakes. Each broken variant of the code is caught within the stated
number of seeds; the same seeds find nothing in the code as it is (test_simulation.py).

The seeds each one takes are in docs/TESTING.md; a test there keeps the table and BROKEN alike.
"""

import pytest

from holdfast.testing.simulation.campaign import judged
from tests.simulation import fleet_v1, fleet_v2
from tests.simulation.broken import BROKEN
from tests.simulation.variants import Variant

SEEDS_MAX = 200


def seeds_to_catch(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> int | None:
    variant.apply(monkeypatch)
    for seed in range(SEEDS_MAX):
        _, findings = judged([fleet_v1.fleet, fleet_v2.fleet], seed)
        if any(finding.promise in variant.promises for finding in findings):
            return seed + 1
    return None


@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: variant.name)
def test_a_broken_variant_is_caught(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seeds_to_catch(variant, monkeypatch) is not None, variant.text


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 15
    assert len({variant.name for variant in BROKEN}) == len(BROKEN)
    assert all(variant.text for variant in BROKEN)
