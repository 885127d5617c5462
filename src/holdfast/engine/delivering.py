"""Delivering what is on its way in captured contents, for engines that have no outboxes.

Where messages go out inside the commit nobody relays them later. So planting there begins with what
a relay would do first: every message goes behind the events that wait in the inbox it is for, once,
in the order of its sender. The cut stays one: its messages have arrived, and no state has changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.contents import Contents, Facts, HeldContents, Outbox, PartitionContents
from holdfast.engine.inheritance import Dedupe
from holdfast.errors import DamagedData
from holdfast.stepping.commit import Call, Fate, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import in_lane
from holdfast.stepping.rows import select


class DeliveredPartition:
    """A partition with what has arrived behind what waits in it; its own outbox is empty."""

    def __init__(self, source: PartitionContents, now: float) -> None:
        self.facts: Facts = source.facts
        self._source = source
        self._now = max(now, source.facts.stamp.wall)
        self._arrived: list[StoredFrame] = []

    def take(self, sender: str, first: int, count: int, frame: bytes) -> None:
        """As the inbox would: by the mark it has of the sender."""
        facts = self.facts
        taken = facts.marks.get(sender, 0)
        if first > taken + 1:
            raise DamagedData(
                f"partition {facts.number}: messages of {sender} go on at {first}, and "
                f"{taken + 1} is missing: take another snapshot"
            )
        new = first + count - 1 - taken
        if new <= 0:
            return
        if new < count:
            frame = select(Frame.decode(frame), list(range(count - new, count))).encode()
        self._arrived.append(StoredFrame(facts.next, new, self._now, frame))
        self.facts = facts._replace(
            next=facts.next + new,
            stamp=facts.stamp._replace(wall=self._now),
            marks={**facts.marks, sender: first + count - 1},
        )

    def records(self) -> Iterator[Record]:
        return self._source.records()

    def letters(self) -> list[tuple[Letter, bool]]:
        return self._source.letters()

    def calls(self) -> list[Call]:
        return self._source.calls()

    def fates(self) -> list[Fate]:
        return self._source.fates()

    def outbox(self) -> Outbox:
        return []

    def frames(self) -> Iterator[StoredFrame]:
        lane: list[StoredFrame] = []
        for stored in self._source.frames():
            if in_lane(stored.first):
                lane.append(stored)
            else:
                yield stored
        yield from self._arrived
        yield from lane

    def dedupe(self) -> Dedupe:
        return self._source.dedupe()


def delivered(contents: Contents) -> Contents:
    """The same fleet with nothing on its way. The messages have the newest time of the cut."""
    now = max(max(p.facts.stamp.wall, p.facts.head.now) for p in contents.partitions)
    parts = {p.facts.number: DeliveredPartition(p, now) for p in contents.partitions}
    for source in contents.partitions:
        for destination, first, count, frame in source.outbox():
            parts[destination].take(source.facts.incarnation, first, count, frame)
    partitions: list[PartitionContents] = [*parts.values()]
    return HeldContents(
        contents.fleet, contents.layout, contents.retired, contents.schemas, partitions
    )
