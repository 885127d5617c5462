"""A consistent cut through a fleet on Kafka, where nobody can be locked.

Messages go out inside the transaction of the commit that sends them, so a cut is: of every inbox
topic an offset, of every changelog an offset, and what is taken from there. Copies of all
partitions, which nobody else fills, are brought to one in these steps:

1. Fix the end of every inbox, then of every changelog: behind all that was acknowledged, also
   behind what is still hidden by transactions that are under way.
2. Read each inbox to its end, then each changelog: a commit is applied once the inbox beside it has
   the events it took. Those that took later ones wait.
3. *Causes.* Where an inbox has a message whose commit is not applied, read on in the changelog of
   its sender until it is. If such a commit took events behind the inbox of the sender, read on
   there, by just the records that it needs; they may be messages again. Until nothing is missing.
4. *Messages on their way.* Where an applied commit has sent messages that the inbox they are for
   does not have, look for them behind its end, without taking anything: they are the outbox.

It is what engine/contents.py asks for:

- Every event acknowledged before is in an inbox: its offset is before the end fixed in step 1.
- No message is without its cause: step 3 has ended. A state has folded only what is in its inbox.
- None is missing, and none is there twice: inboxes and changelogs are read without gaps, so what a
  state has sent and an inbox does not have is what step 4 looks for, by its number.

Step 3 ends, however busy the fleet is. Let t be the moment at which all transactions are decided
that have a record before the ends of step 1; it comes soon, since the brokers end them. Whatever
step 3 takes was decided before t. For a message, its commit is in the same transaction. Commits
before that one in the changelog are older. And whoever made a commit had read, as committed, every
record of its inbox up to the last event it took. So there is but a finite amount of it; and because
its records were written before we saw what they are the cause of, they are found before the end of
their topics of now, or brokers have lost them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import Message

from holdfast.engine.contents import Outbox
from holdfast.engine.kafka.feed import Place, Sink
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.pulling import Puller
from holdfast.engine.kafka.records import Arrived, unpack_parcels
from holdfast.errors import DamagedData


class Copy(NamedTuple):
    """A mirror that only a cut fills, and where it comes from."""

    mirror: Mirror
    inbox: Place
    changelog: Place

    @property
    def sent_next(self) -> dict[int, int]:
        return self.mirror.view.sent_next()


class _Wanted:
    """Messages of one sender to one inbox that the inbox does not have."""

    def __init__(self, sender: int, first: int, end: int) -> None:
        self.sender = sender
        self.next = first
        self.end = end

    def takes(self, parcel: Arrived) -> bool:
        """Whether it is the next one. What comes again was there already."""
        assert parcel.mark is not None
        first, following = parcel.mark.first, parcel.mark.first + parcel.frame.count
        if following <= self.next or first >= self.end:
            return False
        if first > self.next:
            raise DamagedData(
                f"messages {self.next} to {first - 1} of {parcel.mark.source} are missing: brokers "
                "have lost what they had acknowledged. Restore the topic"
            )
        self.next = following
        return True

    @property
    def found(self) -> bool:
        return self.next >= self.end


class Cut:
    def __init__(
        self, puller: Puller, copies: Mapping[int, Copy], end_of: Callable[[Place], int]
    ) -> None:
        """`end_of` tells the offset behind all that was acknowledged in a place by now."""
        self._end_of = end_of
        self._puller = puller
        self._copies = copies
        self._known: dict[Place, int] = {}  # ends, as they were when they were asked for last
        self._by_incarnation = {each.mirror.incarnation: n for n, each in copies.items()}

    def run(self) -> dict[int, Outbox]:
        """The mirrors are a cut after it; returned is what is on its way, by sender."""
        inboxes = {number: self._end_of(copy.inbox) for number, copy in self._copies.items()}
        logs = {number: self._end_of(copy.changelog) for number, copy in self._copies.items()}
        for number, copy in self._copies.items():
            self._fill(copy.inbox, copy.mirror.inbox_sink, inboxes[number])
        for number, copy in self._copies.items():
            self._fill(copy.changelog, copy.mirror.changelog_sink, logs[number])
        while any(self._find_causes(number) for number in self._copies):
            pass  # what was read for one may be without its own
        return self._on_their_way()

    def _fill(self, place: Place, sink: Sink, end: int) -> None:
        if end < sink.next_offset:
            raise _lost(place, f"records up to {sink.next_offset} were read there before")
        for records in self._puller.read(place, sink.next_offset, end):
            sink.take(records)

    # Causes.

    def _find_causes(self, number: int) -> bool:
        """Whether an inbox had messages that nobody had sent; now they are sent."""
        missing = False
        for source, last in self._copies[number].mirror.inbox.marks().items():
            sender = self._by_incarnation.get(source)  # None: it is retired, and has sent them all
            if sender is not None and self._copies[sender].sent_next.get(number, 1) <= last:
                self._apply_until_sent(self._copies[sender], number, last)
                missing = True
        return missing

    def _apply_until_sent(self, copy: Copy, destination: int, last: int) -> None:
        entries = self._records(copy.changelog, copy.mirror.changelog_sink.next_offset)
        while copy.sent_next.get(destination, 1) <= last:
            if copy.mirror.waiting:
                self._read_what_is_needed(copy)
                entries = self._records(copy.changelog, copy.mirror.changelog_sink.next_offset)
                continue
            records = next(entries, None)
            if records is None:
                raise _lost(copy.changelog, f"messages up to {last} are in other inboxes")
            copy.mirror.changelog_sink.take(records)

    def _read_what_is_needed(self, copy: Copy) -> None:
        """Of the inbox, for the commit that waits first."""
        waiting, sink = copy.mirror.waiting, copy.mirror.inbox_sink
        for records in self._records(copy.inbox, sink.next_offset):
            sink.take(records)
            if copy.mirror.waiting < waiting:
                return
        raise _lost(copy.inbox, "more was folded")

    def _records(self, place: Place, start: int) -> Iterator[list[Message]]:
        """One by one, up to the end of now; who stops before the end known so far asks nobody."""
        known = self._known.get(place, 0)
        yield from self._puller.read(place, start, known, most=1)
        self._known[place] = self._end_of(place)
        yield from self._puller.read(place, max(start, known), self._known[place], most=1)

    # Messages on their way.

    def _on_their_way(self) -> dict[int, Outbox]:
        outboxes: dict[int, Outbox] = {number: [] for number in self._copies}
        for number, copy in self._copies.items():
            wanted = self._wanted(number, copy)
            for parcel in self._behind(copy, wanted):
                assert parcel.mark is not None
                one = wanted.get(parcel.mark.source)
                if one is not None and one.takes(parcel):
                    out = (number, parcel.mark.first, parcel.frame.count, parcel.encoded)
                    outboxes[one.sender].append(out)
        return outboxes

    def _wanted(self, number: int, copy: Copy) -> dict[str, _Wanted]:
        marks = copy.mirror.inbox.marks()
        wanted: dict[str, _Wanted] = {}
        for sender, other in self._copies.items():
            source = other.mirror.incarnation
            first, end = marks.get(source, 0) + 1, other.sent_next.get(number, 1)
            if first < end:
                wanted[source] = _Wanted(sender, first, end)
        return wanted

    def _behind(self, copy: Copy, wanted: Mapping[str, _Wanted]) -> Iterator[Arrived]:
        """The messages behind an inbox, until all that are wanted were found."""
        if not wanted:
            return
        for (record,) in self._records(copy.inbox, copy.mirror.inbox_sink.next_offset):
            try:
                parcels = unpack_parcels(
                    record.value(), record.headers(), 0.0, record.offset() or 0
                )
            except DamagedData:
                continue  # none of ours: whoever reads the inbox says so
            yield from (parcel for parcel in parcels if parcel.mark is not None)
            if all(one.found for one in wanted.values()):
                return
        raise _lost(copy.inbox, "messages that were sent are not there")


def _lost(place: Place, why: str) -> DamagedData:
    return DamagedData(
        f"{place.topic}, partition {place.partition} ends too early, since {why}: brokers have "
        "lost what they had acknowledged. Restore the topic"
    )
