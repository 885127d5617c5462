"""Seeds of random tests: a few in every run, the others in `make soak`."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet


def seeds(few: int, many: int) -> list[int | ParameterSet]:
    more = (pytest.param(seed, marks=pytest.mark.soak) for seed in range(few, many))
    return [*range(few), *more]
