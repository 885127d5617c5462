"""Fixtures for pytest. In conftest.py: `from holdfast.testing.fixtures import harness`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.testing.harness import Harness

__all__ = ["harness"]


@pytest.fixture
def harness() -> Iterator[Callable[..., Harness]]:
    """Makes harnesses, as in `harness(fleet)` or `harness(Drone)`; each is verified at the end."""
    made: list[Harness] = []

    def make(*fleet_or_agents: object, now: float = 0.0) -> Harness:
        made.append(Harness(*fleet_or_agents, now=now))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.verify()
