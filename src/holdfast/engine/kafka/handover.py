"""A handover: what readers are told of a partition's new owner, and for how long it stood still.

The pause begins when the oldest event came that nobody had folded, and ends with the commit that
takes it; where nothing waited there was none. It is by two clocks, the broker's and ours. What is
told goes out in the transactions that make it true: with the claim, and with the first commit. Who
ends says so too, with the writer that it still has: if that one is fenced, others have been told.
"""

from __future__ import annotations

from holdfast.engine.kafka.owners import Notice, Owner, Owners
from holdfast.engine.stamping import Clock


class Handover:
    """Of one partition to this process."""

    def __init__(
        self, owners: Owners, number: int, address: str, machine: str, clock: Clock
    ) -> None:
        """`address` is where we answer readers; empty: nowhere."""
        self._owners = owners
        self._number = number
        self._owner = Owner(0, address, machine)
        self._clock = clock
        self._waits_since: float | None = None

    @property
    def paused_seconds(self) -> float:
        return self._owner.paused_seconds

    def claiming(self, epoch: int, waits_since: float | None) -> Notice:
        """`waits_since` is the stamp of the oldest event that waits, if one does."""
        self._owner = self._owner._replace(epoch=epoch, paused_seconds=0.0)
        self._waits_since = waits_since
        return self._notice()

    def committing(self) -> list[Notice]:
        return [] if self._waits_since is None else [self._notice()]

    def committed(self) -> None:
        self._waits_since = None

    def _notice(self) -> Notice:
        if self._waits_since is not None:
            paused = max(0.0, self._clock().wall - self._waits_since)
            self._owner = self._owner._replace(paused_seconds=round(paused, 3))
        return self._owners.notice(self._number, self._owner)

    def leaving(self) -> Notice:
        """We answer no more; how long the pause was stays known."""
        return self._owners.notice(self._number, self._owner._replace(address="", machine=""))
