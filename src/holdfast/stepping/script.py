"""A script: the journalled firings that a fold repeats, instead of following its own agenda.

Timers and expiries come from no inbox. The journal says before which position each fired and at
what time, so that inbox and journal together are the full order of inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdfast.model.event import Event
from holdfast.stepping.commit import Journalled
from holdfast.stepping.frame import Frame
from holdfast.stepping.grounding import TOLD_NAME, hear
from holdfast.stepping.inputs import Inputs, StoredFrame, read_inputs
from holdfast.stepping.lane import TAKEN_NAME
from holdfast.stepping.overtaking import overtake

if TYPE_CHECKING:
    from holdfast.stepping.careful import CarefulFold


class Firing(NamedTuple):
    """What came before a position: a timer that fired, (without an event) an agent that expired,
    or an event of the urgent lane."""

    position: int
    agent: str
    key: str
    name: str
    due: float
    now: float
    event: tuple[int, bytes] | None  # schema, row; of the urgent lane: number, frame
    next: float | None  # when a periodic timer was due again; None: an older release wrote it

    @property
    def origin(self) -> str:
        return "expiry" if self.event is None else "urgent" if self.taken else "timer"

    @property
    def taken(self) -> StoredFrame | None:
        """The frame, of an event of the urgent lane."""
        if self.name != TAKEN_NAME or self.event is None:
            return None
        return StoredFrame(self.event[0], 1, self.due, self.event[1])

    @property
    def passed_by(self) -> Firing:
        """For whoever folds another agent: the time it took, and nothing else."""
        return self if self.taken is None else self._replace(event=None)

    def repeat(self, fold: CarefulFold, stamp: float) -> bool:
        """Fire as recorded. False if this program has not set the timer, or keeps the agent."""
        fold.position, fold.now = self.position, max(fold.now, self.now)
        if self.name == TAKEN_NAME and self.event is None:
            return True  # of an agent that is not folded: only its time passes
        if (taken := self.taken) is not None:
            inputs = read_inputs(taken, fold.stepper.codebook)
            return overtake(fold.stepper, fold, inputs, fast=False)
        kind = fold.stepper.kinds.get(self.agent)
        cell = kind.find(self.key) if kind else None
        if kind is None or cell is None:
            return False
        if self.name == TOLD_NAME and self.event is not None:
            event = fold.stepper.codebook.reader_of(self.event[0]).row(self.event[1])
            hear(fold, cast(Event, event), cell)
            return True
        if self.event is None:
            if kind.expire_after is None or cell.extras:
                return False
            fold.leave(cell, cell.updated + kind.expire_after, fold.now)
            return True
        timer = cell.extras.timers.get(self.name) if cell.extras is not None else None
        if timer is None:
            return False
        again = self._due_again(timer.period, stamp) if timer.period else 0.0
        fold.ring(cell, timer, fold.now, again)
        return True

    def _due_again(self, period: float, stamp: float) -> float:
        """The next due time of a periodic timer. `stamp` is that of the input behind it.

        Where it was not recorded it follows from when the firing was seen: in front of an input a
        timer fires at the time it was due, otherwise at the clock.
        """
        if self.next:
            return self.next
        seen = max(self.now, stamp) if self.now == self.due else self.now
        return self.due + (int((seen - self.due) / period) + 1) * period


def read_firings(journalled: Journalled) -> list[Firing]:
    frame = Frame.decode(journalled.frame)
    names = ("position", "agent", "key", "name", "due", "now", "event")
    columns = [cast(list[Any], frame.values(name)) for name in names]
    following = frame.values("next") or [None] * frame.count
    return [Firing(*each) for each in zip(*columns, following, strict=True)]


def interleaved(batch: Sequence[Inputs], script: Sequence[Firing]) -> Iterator[Inputs | Firing]:
    """Both in one order: each firing before its position, frames cut where one is inside."""
    waiting = deque(script)
    for inputs in batch:
        done, count = 0, len(inputs)
        while done < count:
            while waiting and waiting[0].position <= inputs.first + done:
                yield waiting.popleft()
            stop = min(count, waiting[0].position - inputs.first) if waiting else count
            yield inputs if stop - done == count else inputs.part(done, stop)
            done = stop
    yield from waiting
