"""The relay: carries committed messages from a partition's outbox to other inboxes.

Comes after the commit that made the messages durable, and before the commit that clears them from
the outbox. A crash in between delivers again; the mark at the receiving inbox makes that a no-op.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.engine.port import Engine, Mark, Parcel, Taken
from holdfast.errors import TryAgain
from holdfast.stepping.commit import Outgoing
from holdfast.stepping.frame import Frame

PARCELS_AT_ONCE = 64
REST_SECONDS = 1.0
TURN_SECONDS = 0.2  # the worker has other things to do than to queue behind a stopped process


class Relay:
    def __init__(self, engine: Engine, incarnation: str) -> None:
        self._engine = engine
        self._incarnation = incarnation
        self._waiting: dict[int, deque[Outgoing]] = {}
        self.delivered: dict[int, int] = {}  # destination -> last parcel, to be cleared
        self.messages_waiting = 0
        self._resting: dict[int, tuple[float, str]] = {}  # destination -> until when, and why

    def add(self, outgoing: Iterable[Outgoing]) -> None:
        for out in outgoing:
            self._waiting.setdefault(out.destination, deque()).append(out)
            self.messages_waiting += out.count

    @property
    def trouble(self) -> str | None:
        """Why messages wait, if they do."""
        return next((reason for _, reason in self._resting.values()), None)

    def deliver(self, now: float) -> int:
        """Append what waits; how many messages went.

        A destination that refuses rests for a while; the others, and our own fold, go on.
        """
        before = self.messages_waiting
        for destination, queue in self._waiting.items():
            while queue and now >= self._resting.get(destination, (now, ""))[0]:
                batch = [queue[i] for i in range(min(PARCELS_AT_ONCE, len(queue)))]
                refused = self._append(destination, batch)
                if refused is not None:
                    self._resting[destination] = (now + REST_SECONDS, str(refused))
                    break
                self._resting.pop(destination, None)
                for out in batch:
                    queue.popleft()
                    self.messages_waiting -= out.count
                self.delivered[destination] = batch[-1].first
        return before - self.messages_waiting

    def _append(self, destination: int, batch: list[Outgoing]) -> TryAgain | None:
        parcels = [
            Parcel(
                frame=Frame.decode(out.frame),
                encoded=out.frame,
                mark=Mark(self._incarnation, out.first),
                external=False,
            )
            for out in batch
        ]
        try:
            results = self._engine.append(destination, parcels, TURN_SECONDS)
        except TryAgain as refusal:
            return refusal
        for result in results:
            if isinstance(result, TryAgain):
                return result
            if not isinstance(result, Taken):
                raise result
        return None

    def take_delivered(self) -> dict[int, int]:
        delivered, self.delivered = self.delivered, {}
        return delivered
