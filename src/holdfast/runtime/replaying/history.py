"""What an engine has kept of a partition's inputs, and what the partition began with.

History that retention has cut cannot be replayed from the beginning: `beginning` says why, and
runtime/snapshots/beginnings.py where else a replay can begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from holdfast.engine import inheritance
from holdfast.engine.port import Catalog, Engine, View
from holdfast.errors import DamagedData, UsageError
from holdfast.model.keys import Layout, slot_of
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.replay import Replay, Start
from holdfast.stepping.commit import Commit, CommitNote, Head, Journalled
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.script import read_firings

EVENTS_AT_ONCE = 65_536
ROWS_AT_ONCE = 256
NOTES_AT_ONCE = 4_096


class History:
    """One partition's inputs up to the head it had when this was made: folding may go on."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.number = number
        self.view: View = engine.view(number)
        self.end: Head = self.view.head()
        self.engine = engine
        self._slots = all_slots(engine.catalog)

    @property
    def layout(self) -> Layout:
        """Where keys lived while this partition did."""
        own = generation_of(self._slots, self.number)
        return Layout(tuple(self._slots[number] for number in own), own.start)

    def run(self, replay: Replay, until: Until = END) -> Iterator[Commit]:
        """Everything from where the replay stands to the end, or until it is told to stop."""
        last = self.end.position
        position = last if until.position is None else min(last, until.position)
        head = replay.head
        return replay.run(
            self.frames(head.position),
            self.journal(head.journal_next),
            until=Until(position, until.time),
            notes=self.notes(head.commits + 1),
        )

    def frames(self, first: int = 0) -> Iterator[StoredFrame]:
        """Frames that hold the positions from `first` to the end; the last may go beyond it."""
        position, end = first, self.end.position
        while position < end:
            batch = self.view.frames(position, EVENTS_AT_ONCE)
            if not batch or batch[0].first > position:
                raise self._gone(position)
            for stored in batch:
                if position < end:
                    yield stored
                position = stored.first + stored.count

    def journal(self, first: int = 0) -> Iterator[Journalled]:
        while first < self.end.journal_next:
            batch = self.view.journal(first, ROWS_AT_ONCE)
            if not batch or batch[0].first > first:
                raise self._gone(self.end.position)
            yield from (each for each in batch if each.first < self.end.journal_next)
            first = batch[-1].first + batch[-1].count

    def notes(self, first: int = 1) -> Iterator[CommitNote]:
        while batch := self.view.commits(first, NOTES_AT_ONCE):
            yield from (note for note in batch if note.number <= self.end.commits)
            first = batch[-1].number + 1

    def _gone(self, position: int) -> UsageError | DamagedData:
        if self.view.inbox_next() < self.end.position:
            return DamagedData(
                f"p{self.number:03d}: {self.end.position} events were folded, but the inbox ends "
                f"before: `holdfast doctor --salvage` lists what is intact"
            )
        return UsageError(
            f"partition {self.number}: history before position {position} went past retention "
            "meanwhile: try again"
        )

    # The beginning.

    def begin(self) -> Start:
        """What the partition began with: nothing, or what it inherited at a rescaling.

        The ends of retired partitions stay readable, so a rescaling cuts no history.
        """
        first = generation_of(self._slots, self.number).start
        before = generation_of(self._slots, first - 1) if first else range(0)
        parents = [self.engine.view(number) for number in before]
        if not parents:
            return Start()
        own = self._slots[self.number]
        letters = inheritance.letters_of(own, [parent.letters() for parent in parents])
        records = (
            inheritance.moved(record)
            for parent in parents
            for record in parent.records()
            if slot_of(record.key) in own
        )
        calls = inheritance.calls_of(own, [parent.calls(0, 2**62) for parent in parents])
        head = inheritance.first_head([parent.head() for parent in parents], letters, calls)
        fates = inheritance.fates_of(own, [parent.fates() for parent in parents])
        return Start(head, {}, records, letters, fates, calls)

    def goes_on_from(self, head: Head) -> bool:
        """Whether all that was folded behind this head of the partition is kept."""
        if not self.view.inbox_first() <= head.position <= self.end.position:
            return False
        if head.journal_next == self.end.journal_next:
            return True
        rung = self.view.journal(head.journal_next, 1)
        return bool(rung) and rung[0].first <= head.journal_next

    def beginning(self) -> str:
        """Why it does not begin with the first event, in words."""
        found = self.first_kept()
        if found is None:
            return ""
        position, now = found
        begins = f"history begins at position {position} ({written(now)})"
        return f"{begins}: what was before is past retention"

    def first_kept(self) -> tuple[int, float] | None:
        """The position and time at which what is kept begins; None if it is all there."""
        position = self.view.inbox_first()
        stamp = 0.0
        if position > 0:
            frames = self.view.frames(position, 1)
            stamp = frames[0].stamp if frames else self.end.now
        rung = self.view.journal(0, 1)
        if self.end.journal_next > 0 and (not rung or rung[0].first > 0):
            first = read_firings(rung[0])[0] if rung else None
            at = (self.end.position, self.end.now) if first is None else (first.position, first.now)
            return max((position, stamp), at)
        return (position, stamp) if position > 0 else None


def written(time: float) -> str:
    """A time as the command line takes it; one that no calendar has, as seconds."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{time:g}"


def all_slots(catalog: Catalog) -> dict[int, range]:
    """The slots of every partition there ever was."""
    return {**catalog.retired, **catalog.layout.slots_by_number}


def generation_of(slots: dict[int, range], number: int) -> range:
    """The partitions that lived together with `number`: the first of them begins at slot 0."""
    starts = sorted(n for n, own in slots.items() if own.start == 0)
    following = [start for start in starts if start > number]
    stop = following[0] if following else max(slots) + 1
    return range(max(start for start in starts if start <= number), stop)
