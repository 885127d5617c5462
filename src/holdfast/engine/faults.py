"""Fault points: named places where a test may stop, delay or kill the process.

Production hands in `no_faults`. The names are part of what tests may rely on:
append.before, append.inside, append.after, commit.before, commit.inside, commit.after,
rescale.before, rescale.inside, rescale.after, blob.inside, blob.before, blob.after,
plant.inside (partitions, no catalog yet), plant.after (all but the name), compact.inside (all of a
compaction but its end).
"""

from __future__ import annotations

from collections.abc import Callable

FaultPoints = Callable[[str], None]


def no_faults(name: str) -> None:
    """Nothing ever goes wrong here."""
