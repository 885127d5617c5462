"""What an engine says whose data and owners are all on one machine."""

from __future__ import annotations


class OneMachine:
    """A part of such engines: nothing is hidden, handed over or folded elsewhere."""

    def hides(self, partition: int) -> bool:
        return False

    def paused_seconds(self, partition: int) -> None:
        return None

    def folds_here(self, partition: int) -> bool:
        return True
