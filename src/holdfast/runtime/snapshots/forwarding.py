"""Going on from a snapshot to a later point: the log behind it, up to there.

What had been folded by then is folded again, timers where the journal has them, so that states are
those of then. What was durable by then, but of which the log does not know how it was folded, waits
in the inboxes, as does everything where no code is at hand.

The point is a cut of its own: of every partition, up to where it is folded and up to where its
inbox goes. A message is in it only if its sender, as far as folded, has sent it:
- none is folded before its sender has come that far: its partition is folded up to it only;
- one that waits is left out of the inbox: its sender sends it again when it comes that far.
A message that was sent and is in no inbox waits in the outbox of its sender.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from holdfast.engine.admission import admit
from holdfast.engine.contents import (
    Contents,
    HeldContents,
    HeldPartition,
    Outbox,
    PartitionContents,
)
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.memory.capturing import planted_catalog
from holdfast.engine.memory.ledger import MemoryLedger
from holdfast.engine.port import Limits, Parcel
from holdfast.engine.stamping import Instant
from holdfast.errors import SchemaError, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.runtime.replaying.feeding import Until
from holdfast.runtime.replaying.replay import Replay, Start
from holdfast.runtime.schemas import agree
from holdfast.runtime.snapshots.cutting import up_to, without
from holdfast.runtime.snapshots.logs import Log
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Call, Fate, Head, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE, in_lane
from holdfast.stepping.script import read_firings

END = 2**62
_NO_BOUND = Limits(sources_max=END, anonymous_sources_max=END)  # it was taken: it is not refused


class Point(NamedTuple):
    """All that came up to a time; and of one partition, what came before a position, if given."""

    time: float = float("inf")
    partition: int = -1
    position: int = END


@dataclass
class Message:
    """One that is in an inbox behind the snapshot."""

    position: int
    sender: int
    number: int


@dataclass
class Folded:
    """A partition folded up to somewhere."""

    head: Head
    sent_next: dict[int, int]
    records: list[Record]
    letters: list[tuple[Letter, bool]]
    calls: list[Call]
    fates: list[Fate]
    outbox: Outbox


@dataclass
class Line:
    """One partition on its way: what it was at the snapshot, and what came behind it."""

    source: PartitionContents
    end: int = 0  # where its inbox goes at the point
    stamp: Instant | None = None
    goes_on: bool = False  # its log has later events
    frames: list[StoredFrame] = field(default_factory=list)  # from the snapshot's position on
    urgent: list[StoredFrame] = field(default_factory=list)  # the same of the lane
    messages: list[Message] = field(default_factory=list)
    fold_until: int = END
    folded: Folded | None = None

    @property
    def number(self) -> int:
        return self.source.facts.number


class Forward:
    def __init__(self, contents: Contents, log: Log, fleet: FleetModel | None) -> None:
        self._contents = contents
        self._log = log
        self._fleet = fleet
        self._layout: Layout = contents.layout
        self.catalog = planted_catalog(
            HeldContents(
                contents.fleet,
                contents.layout,
                contents.retired,
                {**contents.schemas, **log.schemas()},
                [],
            )
        )
        self._generation = 0
        self._codebook: Codebook | None = None
        if fleet is not None:
            self._codebook, self._generation = agree(fleet, self.catalog)

    def run(self, point: Point) -> HeldContents:
        """1 read the log up to the point, 2 fold, 3 fold less where a message has no sender, 4 fill
        the inboxes."""
        lines = [self._read(partition, point) for partition in self._contents.partitions]
        by_number = {line.number: line for line in lines}
        for line in lines:
            line.folded = self._fold(line, point.time)
        self._check_layout(lines, point)
        while self._hold_back(by_number, point.time):
            pass
        marks = {line.number: self._marks(line, by_number) for line in lines}
        return HeldContents(
            self._contents.fleet,
            self._layout,
            self._contents.retired,
            self.catalog.schemas(),
            [self._partition(line, by_number, marks) for line in lines],
        )

    def _check_layout(self, lines: list[Line], point: Point) -> None:
        """The log behind a snapshot ends where the fleet was rescaled."""
        layout = self._log.layout()
        if layout in (None, self._layout):
            return
        newest = max(line.stamp.wall if line.stamp else 0.0 for line in lines)
        before = newest >= point.time or any(line.goes_on for line in lines)
        if point.partition not in self._layout.numbers and not before:
            raise UsageError(
                "the fleet was given other partitions between the snapshot and that point: take "
                "a later snapshot, or a point before"
            )

    # Reading.

    def _read(self, source: PartitionContents, point: Point) -> Line:
        facts = source.facts
        stop = point.position if facts.number == point.partition else END
        line = Line(source, end=facts.next)
        waiting = list(source.frames())
        line.frames = [frame for frame in waiting if not in_lane(frame.first)]
        line.urgent = [frame for frame in waiting if in_lane(frame.first)]
        counts: dict[int, int] = {}

        def behind() -> Iterator[StoredFrame]:
            for stored in self._log.frames(facts.incarnation, facts.next):
                line.goes_on = stored.stamp > point.time
                yield stored

        for stored in up_to(behind(), facts.next, stop, point.time):
            line.frames.append(stored)
            line.end = stored.first + stored.count
            line.stamp = Instant(stored.stamp, 0.0, "")
            self._note_messages(line, stored, counts)
        latest = point.time if stop == END else (line.stamp or facts.stamp).wall
        self._note_urgent(line, latest)
        line.fold_until = min(stop, max(self._log.folded(facts.incarnation), facts.head.position))
        return line

    def _note_urgent(self, line: Line, latest: float) -> None:
        """What overtook others since is in the journal, and may have waited at the snapshot."""
        facts, known = line.source.facts, {each.first for each in line.urgent}
        for journalled in self._log.journal(facts.incarnation, facts.head.journal_next):
            for firing in read_firings(journalled):
                taken = firing.taken
                if taken is not None and taken.first not in known and taken.stamp <= latest:
                    line.urgent.append(taken)

    def _note_messages(self, line: Line, stored: StoredFrame, counts: dict[int, int]) -> None:
        for row, sender in self._senders(stored):
            taken = line.source.facts.marks.get(self._incarnation(sender), 0)
            counts[sender] = counts.get(sender, taken) + 1
            line.messages.append(Message(stored.first + row, sender, counts[sender]))

    def _senders(self, stored: StoredFrame) -> Iterator[tuple[int, int]]:
        """Rows of a frame that are messages, with the partition that sent each."""
        frame = Frame.decode(stored.frame)
        if frame.constant("origin") == "message":
            for row, key in enumerate(cast(list[str], frame.values("from_key"))):
                yield row, self._layout.partition_of(key)

    def _incarnation(self, number: int) -> str:
        return self._contents.partitions[number - self._layout.first].facts.incarnation

    # Folding.

    def _fold(self, line: Line, time: float) -> Folded:
        source, facts = line.source, line.source.facts
        letters = source.letters()
        folded = Folded(
            facts.head,
            dict(facts.sent_next),
            list(source.records()),
            letters,
            source.calls(),
            source.fates(),
            list(source.outbox()),
        )
        if self._fleet is None or self._codebook is None:
            return folded
        waiting = [letter for letter, redriven in letters if not redriven]
        begin = (folded.head, folded.sent_next, folded.records)
        start = Start(*begin, waiting, folded.fates, folded.calls)
        replay = Replay(self._fleet, self._codebook, self._layout, start)
        for commit in replay.run(
            line.frames,
            self._log.journal(facts.incarnation, facts.head.journal_next),
            until=Until(min(line.fold_until, line.end), None if time == float("inf") else time),
            notes=self._log.notes(facts.incarnation, facts.head.commits + 1),
        ):
            if replay.unfired:
                firing = replay.unfired[0]
                raise SchemaError(
                    f"{firing.agent}/{firing.key}: the timer {firing.name!r} fired then, and this "
                    "code did not set it: give the fleet.py that ran then"
                )
            folded.outbox += [(o.destination, o.first, o.count, o.frame) for o in commit.outgoing]
        folded.head = replay.head
        folded.sent_next = dict(replay.stepper.sent_next)
        folded.records = list(replay.records())
        folded.calls = sorted(replay.calls().values())
        folded.fates = replay.fates()
        folded.letters = sorted(
            {**{x.id: (x, gone) for x, gone in letters}, **_by_id(replay.letters())}.values(),
            key=lambda each: each[0].id,
        )
        return folded

    def _hold_back(self, lines: dict[int, Line], time: float) -> bool:
        """Whether a partition had folded a message that nobody has sent; then it is folded less."""
        for line in lines.values():
            assert line.folded is not None
            for message in line.messages:
                if message.position >= line.folded.head.position:
                    break
                if not self._is_sent(message, line, lines):
                    line.fold_until = message.position
                    line.folded = self._fold(line, time)
                    return True
        return False

    def _is_sent(self, message: Message, line: Line, lines: dict[int, Line]) -> bool:
        sender = lines[message.sender].folded
        assert sender is not None
        return message.number < sender.sent_next.get(line.number, 1)

    # Inboxes.

    def _marks(self, line: Line, lines: dict[int, Line]) -> dict[str, int]:
        marks = dict(line.source.facts.marks)
        for message in line.messages:
            if self._is_sent(message, line, lines):
                marks[self._incarnation(message.sender)] = message.number
        return marks

    def _partition(
        self, line: Line, lines: dict[int, Line], marks: dict[int, dict[str, int]]
    ) -> HeldPartition:
        facts, folded = line.source.facts, line.folded
        assert folded is not None
        left_out = {m.position for m in line.messages if not self._is_sent(m, line, lines)}
        waiting = [f for f in line.frames if f.first + f.count > folded.head.position]
        lane = [f for f in line.urgent if f.first >= LANE + folded.head.urgent]
        frames = [*without(waiting, left_out), *lane]
        outbox = [
            out
            for out in folded.outbox
            if out[1] + out[2] - 1 > marks[out[0]].get(facts.incarnation, 0)
        ]
        return HeldPartition(
            facts._replace(
                head=folded.head,
                generation=max(facts.generation, self._generation),
                next=line.end - len(left_out),
                stamp=line.stamp or facts.stamp,
                sent_next=folded.sent_next,
                marks=marks[line.number],
                urgent=line.urgent[-1].first - LANE + 1 if line.urgent else facts.urgent,
            ),
            folded.records,
            folded.letters,
            outbox,
            frames,
            _dedupe(line),
            folded.calls,
            folded.fates,
        )


def _by_id(letters: Iterable[tuple[Letter, bool]]) -> dict[int, tuple[Letter, bool]]:
    return {letter.id: (letter, redriven) for letter, redriven in letters}


def _dedupe(line: Line) -> Dedupe:
    """What the inbox knew of its sources when it had taken all that is in it."""
    ledger = MemoryLedger(line.source.dedupe())
    facts = line.source.facts
    for stored in (*line.frames, *line.urgent):
        behind = LANE + facts.urgent if in_lane(stored.first) else facts.next
        if stored.first >= behind:
            frame = Frame.decode(stored.frame)
            source = cast("str | None", frame.constant("source"))
            if source is not None:
                seqs = cast(list[int], list(frame.values("seq") or ()))
                parcel = Parcel(frame=frame, encoded=b"", source=source, seqs=seqs)
                admit(parcel, ledger, stored.stamp, _NO_BOUND)
    return ledger.dedupe()
