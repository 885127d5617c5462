"""Feeds: recorded inputs and firings as a replay takes them, and where it is told to stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Head, Journalled
from holdfast.stepping.inputs import Inputs, StoredFrame, read_inputs, rows_of
from holdfast.stepping.script import Firing, interleaved, read_firings

Agent = tuple[str, str]  # class, key


class Until(NamedTuple):
    """Where to stop: before the event at a position, or before all that came after a time.

    Timers that fired before the event at `position` are included. The default is the end.
    """

    position: int | None = None
    time: float | None = None

    def is_before(self, head: Head) -> bool:
        """Whether a partition that stands there has folded more than is wanted."""
        return (self.position is not None and self.position < head.position) or (
            self.time is not None and self.time < head.now
        )

    def reached_by(self, position: int, now: float) -> bool:
        """Whether a commit that ends there may hold more than is wanted."""
        return (self.position is not None and position > self.position) or (
            self.time is not None and now > self.time
        )

    def cut(
        self, batch: list[Inputs], script: list[Firing], now: float
    ) -> tuple[list[Inputs], list[Firing], bool]:
        """What is wanted of these, and whether anything was not."""
        inputs: list[Inputs] = []
        firings: list[Firing] = []
        for each in interleaved(batch, script):
            now = max(now, each.now if isinstance(each, Firing) else each.stamp)
            if self.time is not None and now > self.time:
                return inputs, firings, True
            if isinstance(each, Firing):
                if self.position is not None and each.position > self.position:
                    return inputs, firings, True
                firings.append(each)
                continue
            if self.position is not None and each.first + len(each) > self.position:
                if each.first < self.position:
                    inputs.append(each.part(0, self.position - each.first))
                # What fired before the next event came is not in this commit any more.
                return inputs, firings, True
            inputs.append(each)
        return inputs, firings, False


END = Until()


class InputFeed:
    """Frames as inputs, up to a position at a time. With `only`, one agent's rows of them."""

    def __init__(
        self, frames: Iterable[StoredFrame], codebook: Codebook, first: int, only: Agent | None
    ) -> None:
        self._frames = iter(frames)
        self._codebook = codebook
        self._first = first
        self._only = only
        self._next: Inputs | None = None
        self._parts: deque[Inputs] = deque()

    def peek(self) -> Inputs | None:
        while self._next is None:
            if self._parts:
                self._next = self._parts.popleft()
                break
            stored = next(self._frames, None)
            if stored is None:
                return None
            if stored.first + stored.count > self._first:
                self._parts.extend(self._inputs_of(stored))
        return self._next

    def take(self, stop: int) -> Iterator[Inputs]:
        """Everything before the position `stop`."""
        while (inputs := self.peek()) is not None and inputs.first < stop:
            self._next = None
            end = inputs.first + len(inputs)
            if end > stop:
                self._next = inputs.part(stop - inputs.first, len(inputs))
                inputs = inputs.part(0, stop - inputs.first)
            yield inputs

    def _inputs_of(self, stored: StoredFrame) -> Iterator[Inputs]:
        rows = range(stored.count) if self._only is None else rows_of(stored, *self._only)
        wanted = [row for row in rows if stored.first + row >= self._first]
        if not wanted:
            return
        inputs = read_inputs(stored, self._codebook)
        if len(wanted) == len(inputs):
            yield inputs
            return
        start = wanted[0]
        for row, following in zip(wanted, [*wanted[1:], -1], strict=True):
            if following != row + 1:
                yield inputs.part(start, row + 1)
                start = following


class FiringFeed:
    """Journalled firings in order, numbered on from `first`."""

    def __init__(self, journal: Iterable[Journalled], first: int) -> None:
        self._waiting: deque[Firing] = deque()
        self._journal = iter(journal)
        self._first = first
        self.next = first

    def _peek(self) -> Firing | None:
        while not self._waiting:
            journalled = next(self._journal, None)
            if journalled is None:
                return None
            self._waiting.extend(read_firings(journalled)[max(0, self._first - journalled.first) :])
        return self._waiting[0]

    def _pop(self) -> Firing:
        self.next += 1
        return self._waiting.popleft()

    def take(self, fired: int) -> list[Firing]:
        """Those with numbers below `fired`."""
        found = []
        while self.next < fired and self._peek() is not None:
            found.append(self._pop())
        return found

    def take_before(self, position: int) -> list[Firing]:
        """Those that fired in front of an event before `position`."""
        found = []
        while (firing := self._peek()) is not None and firing.position < position:
            found.append(self._pop())
        return found
