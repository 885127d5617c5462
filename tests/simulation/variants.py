"""Variants: a mistake that is patched in, and the promises by which it may be found.

Any of them counts, and a crash of the simulation itself does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from holdfast.testing.simulation.findings import Promise

Patch = pytest.MonkeyPatch
Apply = Callable[[Patch], None]

SEEDS = 100  # of every run: all faults strike often in them, and each planted bug is caught by one


class Variant(NamedTuple):
    apply: Apply
    promises: frozenset[Promise]
    seed: int  # the first one that catches it, when it was planted

    @property
    def name(self) -> str:
        return self.apply.__name__

    @property
    def text(self) -> str:
        return (self.apply.__doc__ or "").strip()


def variants() -> tuple[list[Variant], Callable[..., Callable[[Apply], Apply]]]:
    """A list, and the decorator that fills it."""
    collected: list[Variant] = []

    def found_by(*promises: Promise, seed: int = 0) -> Callable[[Apply], Apply]:
        def register(apply: Apply) -> Apply:
            collected.append(Variant(apply, frozenset(promises), seed))
            return apply

        return register

    return collected, found_by
