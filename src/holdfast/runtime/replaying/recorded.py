"""What was committed, beside what a replay makes: actions, messages and dead letters in order."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice, zip_longest
from math import inf
from typing import NamedTuple, cast

from holdfast.engine.port import View
from holdfast.model.keys import Layout
from holdfast.runtime.replaying.replay import Behind
from holdfast.stepping.commit import Issued, Letter
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import read_raw_payload

FRAMES_AT_ONCE = 256
EVENTS_AT_ONCE = 65_536
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Output(NamedTuple):
    """An action or a message: where it came from and where it goes, and what it is."""

    agent: str  # that made it
    key: str
    about: tuple[object, ...]  # everything beside the payload
    schema: int
    row: bytes


_ACTION = ("version", "index", "now", "undoes", "why", "trace")
_ABSENT = {"undoes": "", "why": ""}  # a frame has these columns if one of its actions is an undo
_MESSAGE = ("agent", "key", "hops", "trace", "event_time")


def actions_in(frame: bytes) -> list[Output]:
    return _outputs(Frame.decode(frame), ("agent", "key"), _ACTION)


def messages_in(frame: Frame) -> list[Output]:
    return _outputs(frame, ("from_agent", "from_key"), _MESSAGE)


def _outputs(frame: Frame, maker: tuple[str, str], names: tuple[str, ...]) -> list[Output]:
    agents, keys = (cast(list[str], frame.values(name)) for name in maker)
    columns = (frame.values(name) or [_ABSENT.get(name)] * frame.count for name in names)
    about = zip(*columns, strict=True)
    rows = zip(agents, keys, about, read_raw_payload(frame), strict=True)
    return [Output(agent, key, tuple(beside), *raw) for agent, key, beside, raw in rows]


class ActionFeed:
    """The actions a partition has issued, from a number on, as far as retention has kept them."""

    def __init__(self, view: View, first: int) -> None:
        self._view = view
        self._next = first
        self._waiting: deque[Issued] = deque()

    def beside(
        self, first: int, made: Issued | None, noted: int | None
    ) -> Iterator[tuple[Output | None, Output | None]]:
        """Pairs of recorded and made actions of one commit, unless they are the same bytes.

        `noted` is how many the commit had; without a note they are paired by their numbers.
        """
        issued = self._peek()
        if issued is None or issued.first > first:
            return  # past retention
        if made is not None and issued.frame == made.frame:
            self._waiting.popleft()
            return
        ours = [] if made is None else actions_in(made.frame)
        count = len(ours) if noted is None else noted
        yield from zip_longest(self._take(first, first + count), ours)

    def _take(self, first: int, stop: int) -> list[Output]:
        found: list[Output] = []
        while (issued := self._peek()) is not None and issued.first < stop:
            rows = enumerate(actions_in(issued.frame), start=issued.first)
            found += [one for number, one in rows if first <= number < stop]
            if issued.first + issued.count > stop:
                break
            self._waiting.popleft()
        return found

    def pop(self) -> Issued | None:
        return self._waiting.popleft() if self._peek() is not None else None

    def _peek(self) -> Issued | None:
        if not self._waiting:
            self._waiting.extend(self._view.actions(self._next, FRAMES_AT_ONCE))
            if self._waiting:
                self._next = self._waiting[-1].first + self._waiting[-1].count
        return self._waiting[0] if self._waiting else None


class MessageFeed:
    """The messages that one partition has taken from another, in order; None at the end.

    They are few against the events around them, and a frame is of one sender's partition.
    """

    def __init__(self, view: View, layout: Layout, source: int, behind: Behind) -> None:
        self.whole = view.inbox_first() <= behind.position
        rows = self._read(view, layout, source, behind.position) if self.whole else iter(())
        self._rows = islice(rows, behind.under_way, None)
        self._next: Output | None = None

    def peek(self) -> Output | None:
        if self._next is None:
            self._next = next(self._rows, None)
        return self._next

    def pop(self) -> Output | None:
        found, self._next = self.peek(), None
        return found

    @staticmethod
    def _read(view: View, layout: Layout, source: int, position: int) -> Iterator[Output]:
        while batch := view.frames(position, EVENTS_AT_ONCE):
            if batch[0].first > position:
                return  # retention went past us: from here on it is not whole
            for stored in batch:
                position = stored.first + stored.count
                if b"\xa7message" not in stored.frame:
                    continue
                frame = Frame.decode(stored.frame)
                if frame.constant("origin") == "message":
                    keys = cast(list[str], frame.values("from_key"))
                    if layout.partition_of(keys[0]) == source:
                        yield from messages_in(frame)


def same_letter(one: Letter, other: Letter) -> bool:
    """Traces name lines of code, and texts may have addresses of objects: both may differ."""
    return _comparable(one) == _comparable(other)


def _comparable(letter: Letter) -> Letter:
    error = _ADDRESS.sub("0x", letter.error)
    return letter._replace(trace="", error=error, schema=0, row=b"")


class OwnActions:
    """The actions of one agent that are kept, in order, from the first of a commit on.

    Retention takes actions by age, but events by the segment: the oldest actions may be gone that
    kept events have made.
    """

    def __init__(self, view: View, agent: str, key: str, first: int) -> None:
        oldest = view.actions(first, 1)
        if not oldest:
            self._forgotten = inf if view.head().actions_next > first else -inf
        elif oldest[0].first > first:
            self._forgotten = _time_of(actions_in(oldest[0].frame)[0])
        else:
            self._forgotten = -inf
        self._rows = self._read(view, agent, key, first)
        self._next: Output | None = None

    def peek(self) -> Output | None:
        if self._next is None:
            self._next = next(self._rows, None)
        return self._next

    def pop(self) -> None:
        self._next = None
        self._forgotten = -inf  # behind one that is kept all are

    def may_be_gone(self, made: Output) -> bool:
        return _time_of(made) <= self._forgotten

    @staticmethod
    def _read(view: View, agent: str, key: str, first: int) -> Iterator[Output]:
        feed = ActionFeed(view, first)
        while (issued := feed.pop()) is not None:
            if key.encode() in issued.frame:
                yield from (x for x in actions_in(issued.frame) if (x.agent, x.key) == (agent, key))


def _time_of(action: Output) -> float:
    return cast(float, action.about[_ACTION.index("now")])
