"""What production recorded of one partition, in order, read as far ahead as somebody has to know.

Messages are read for their places only: what they say is the candidate's. Whether a message of the
candidate has a twin in the record is known once the record shows a later message of the same
sending partition, because messages from one partition to another keep their order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.runtime.replaying.history import History
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import FLEET_WIDE, Inputs, StoredFrame, read_inputs
from holdfast.stepping.lane import TAKEN_NAME
from holdfast.stepping.script import Firing, read_firings

EVENTS_AT_ONCE = 8_192
LATE_SECONDS = 60.0  # a message that took longer than this to arrive is not recognised
LATE_TIMER_SECONDS = 5.0  # a worker that rings a timer later than this did not just lose its place

Chosen = Callable[[str, str], bool]  # agent, key: whether it is folded


Asked = tuple[str, str, str, str]  # agent, key, function and digest of a call


class Twin(NamedTuple):
    """What makes a message of the candidate the one that production sent; equal ones in order."""

    sender: str
    sender_key: str
    agent: str
    key: str
    event: str
    now: float


class Slot(NamedTuple):
    """The place of a recorded message. `given` is set where its sender is not folded."""

    twin: Twin
    source: int  # the partition it comes from
    given: Inputs | None = None


class UnderWay(NamedTuple):
    """Which recorded messages were sent before the fork began, and so are none of its own: those
    before a position, so many more from each partition, and those sent until a time."""

    position: int = 0
    counts: Mapping[int, int] = {}
    until: Mapping[int, float] = {}


@dataclass(slots=True)
class Piece:
    """A frame, or a run of its rows: inputs as they are, or places of messages."""

    first: int
    count: int
    stamp: float
    inputs: Inputs | None = None
    slots: list[Slot | None] | None = None  # None: not folded
    replies: bool = False  # the inputs are recorded replies to calls

    @property
    def end(self) -> int:
        return self.first + self.count


class Recorded:
    def __init__(
        self,
        history: History,
        first: int,
        fired: int,
        codebook: Codebook,
        schemas: Mapping[int, Schema],
        layout: Layout,
        chosen: Chosen | None,
        under_way: UnderWay,
    ) -> None:
        self.history = history
        self.pieces: deque[Piece] = deque()
        self.firings: deque[Firing] = deque()
        self.expected: dict[Twin, deque[float]] = {}  # stamps of places that nobody has taken yet
        self.late_replies: set[Asked] = set()  # that came after the end
        self._end = history.end.position
        self._codebook = codebook
        self._names = {number: schema.name for number, schema in schemas.items()}
        self._layout = layout
        self.chosen = chosen
        self._under_way = under_way
        self._counts = dict(under_way.counts)
        self._position = first
        self._sent: dict[int, float] = {}  # partition -> when it sent the last message seen here
        self._stamp = 0.0
        self._more = True
        self._journal = self._read_journal(fired)

    def _read_journal(self, first: int) -> Iterator[Firing]:
        for journalled in self.history.journal(first):
            for each in read_firings(journalled)[max(0, first - journalled.first) :]:
                yield each if self._is_folded(each) else each.passed_by

    def _is_folded(self, firing: Firing) -> bool:
        if self.chosen is None or firing.agent == FLEET_WIDE:
            return True
        return self.chosen(firing.agent, firing.key)

    # The next things in the record.

    def piece(self) -> Piece | None:
        """The next frame before the end, which stays in front until it is popped."""
        while not self.pieces and self._position < self._end and self._load():
            pass
        return self.pieces[0] if self.pieces else None

    def firing(self) -> Firing | None:
        if not self.firings:
            following = next(self._journal, None)
            if following is not None:
                self.firings.append(following)
        return self.firings[0] if self.firings else None

    def timers_until(self, row: int) -> float:
        """Up to when timers fire in front of what comes next, the event at `row` or something
        urgent, which fires none.

        Of an event that was overtaken the stamp is long past: what is due since belongs behind it.
        And what production had not fired when something urgent went first was only late.
        """
        piece, firing = self.piece(), self.firing()
        until = math.inf if piece is None else piece.stamp
        if firing is None or firing.name != TAKEN_NAME:
            return until
        if piece is not None and firing.position > piece.first + row:
            return until
        return min(until, firing.now) - LATE_TIMER_SECONDS

    def firings_at(self, position: int) -> list[Firing]:
        """All in front of a position; they stay."""
        found = 0
        while True:
            if found == len(self.firings):
                following = next(self._journal, None)
                if following is None:
                    break
                self.firings.append(following)
            if self.firings[found].position > position:
                break
            found += 1
        return [self.firings[i] for i in range(found)]

    def place_of(self, twin: Twin, source: int) -> float | None:
        """The time of the place of the next such message; None if production did not send it."""
        while not (found := self.expected.get(twin)):
            sent_later = self._sent.get(source, twin.now) > twin.now
            if sent_later or self._stamp > twin.now + LATE_SECONDS or not self._load():
                return None
        return found[0]

    def take(self, twin: Twin) -> float:
        """The place is taken, or passed."""
        places = self.expected[twin]
        stamp = places.popleft()
        if not places:
            del self.expected[twin]
        return stamp

    def give_back(self, twin: Twin, stamp: float) -> None:
        self.expected.setdefault(twin, deque()).appendleft(stamp)

    def read_late(self, wanted: set[Asked]) -> None:
        """Look for the replies to these among all that nobody has folded."""
        ahead = [piece for piece in self.pieces if piece.replies and piece.inputs is not None]
        for inputs in (piece.inputs for piece in ahead):
            assert inputs is not None
            assert inputs.calls is not None
            rows = zip(inputs.agents, inputs.keys, inputs.calls, strict=True)
            self.late_replies.update((a, k, *c[1:]) for a, k, c in rows)
        for stored in self.history.frames(self._position):
            if wanted <= self.late_replies:
                return
            if b"\xa5reply" in stored.frame:
                frame = Frame.decode(stored.frame)
                if frame.constant("origin") == "reply":
                    self.late_replies.update(_asked(frame))

    # Reading ahead.

    def _load(self) -> bool:
        """A page more. Past the end only places of messages matter: those were under way."""
        if not self._more:
            return False
        frames = self.history.view.frames(self._position, EVENTS_AT_ONCE)
        if (frames and frames[0].first > self._position) or (
            not frames and self._position < self._end
        ):
            raise self.history._gone(self._position)
        for stored in frames:
            for piece in self._pieces_of(stored):
                self._place(piece)
            self._position = stored.first + stored.count
            self._stamp = stored.stamp
        past = self._position >= self._end and self._stamp > self.history.end.now + LATE_SECONDS
        self._more = bool(frames) and not past
        return bool(frames)

    def _place(self, piece: Piece) -> None:
        for slot in piece.slots or ():
            if slot is not None and slot.given is None:
                self.expected.setdefault(slot.twin, deque()).append(piece.stamp)
                self._sent[slot.source] = slot.twin.now
        if piece.first >= self._end:
            return
        if piece.end > self._end:  # a commit ended inside this frame
            piece.count = self._end - piece.first
            if piece.inputs is not None:
                piece.inputs = piece.inputs.part(0, piece.count)
        self.pieces.append(piece)

    def _pieces_of(self, stored: StoredFrame) -> Iterator[Piece]:
        frame = Frame.decode(stored.frame)
        if frame.constant("origin") == "message":
            slots = self._slots(frame, stored)
            start = max(0, self._position - stored.first)
            yield Piece(
                stored.first + start, stored.count - start, stored.stamp, None, slots[start:]
            )
            return
        replies = frame.constant("origin") == "reply"
        if stored.first >= self._end:
            if replies:
                self.late_replies.update(_asked(frame))
            return
        inputs = read_inputs(stored, self._codebook)
        if self._position > stored.first:
            inputs = inputs.part(self._position - stored.first, len(inputs))
        for run in self._chosen_runs(inputs):
            yield Piece(run.first, len(run), run.stamp, run, replies=replies)

    def _chosen_runs(self, inputs: Inputs) -> Iterator[Inputs]:
        if self.chosen is None:
            yield inputs
            return
        start: int | None = None
        for row, (agent, key) in enumerate(zip(inputs.agents, inputs.keys, strict=True)):
            wanted = self.chosen(agent, key)
            if wanted and start is None:
                start = row
            elif not wanted and start is not None:
                yield inputs.part(start, row)
                start = None
        if start is not None:
            yield inputs.part(start, len(inputs))

    def _slots(self, frame: Frame, stored: StoredFrame) -> list[Slot | None]:
        columns = ("from_agent", "from_key", "agent", "key", "schema", "event_time")
        rows = zip(*(cast(list[object], frame.values(name)) for name in columns), strict=True)
        partition_of, names = self._layout.partition_of, self._names
        slots: list[Slot | None] = []
        for row, (sender, sender_key, agent, key, schema, now) in enumerate(
            cast("Iterator[tuple[str, str, str, str, int, float]]", rows)
        ):
            given = None
            if self.chosen is not None:
                if not self.chosen(agent, key):
                    slots.append(None)
                    continue
                if not self.chosen(sender, sender_key):
                    given = read_inputs(stored, self._codebook).part(row, row + 1)
            if self._was_sent(partition_of(sender_key), stored.first + row, now):
                given = read_inputs(stored, self._codebook).part(row, row + 1)
            twin = Twin(sender, sender_key, agent, key, names[schema], now)
            slots.append(Slot(twin, partition_of(sender_key), given))
        return slots

    def _was_sent(self, source: int, position: int, now: float) -> bool:
        """Before the fork began."""
        before = self._under_way
        if position < before.position or now <= before.until.get(source, -math.inf):
            return True
        if position >= self._position and self._counts.get(source):
            self._counts[source] -= 1
            return True
        return False


def _asked(frame: Frame) -> Iterator[Asked]:
    columns = ("agent", "key", "function", "arguments")
    rows = zip(*(cast(list[str], frame.values(name)) for name in columns), strict=True)
    return cast("Iterator[Asked]", rows)
