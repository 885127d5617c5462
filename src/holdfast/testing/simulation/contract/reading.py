"""READS and RECEIPTS: what clients saw against what was committed, and the answers to questions.

A commit is visible to all at once. One that was accepted at the very time of a read may have come
before it or after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import HoldfastError
from holdfast.model.event import Event
from holdfast.runtime.sending import Receipt
from holdfast.stepping.commit import Head, Record
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import encode, reader_of, schema_of
from holdfast.testing.simulation.evidence import Read
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition
from holdfast.testing.simulation.reference import Name
from holdfast.testing.simulation.retelling import Story


def check(history: History, story: Story, report: Report) -> None:
    _looks(history, report)
    _Reads(history, report).check()
    _pages(history, story, report)
    _asks(history, story, report)


def _looks(history: History, report: Report) -> None:
    """Every head that was seen was the newest then, and none comes before the last one seen."""
    committed: dict[tuple[int, Head], list[tuple[int, float]]] = defaultdict(list)
    for partition in history.partitions:
        committed[partition.number, partition.log.born].append((0, float("-inf")))
        for place, accepted in enumerate(partition.log.commits, start=1):
            committed[partition.number, accepted.commit.head].append((place, accepted.at))
    times = {each.number: [one.at for one in each.log.commits] for each in history.partitions}
    reached: dict[tuple[str, int], int] = {}
    for look in history.evidence.looks:
        newest = bisect_left(times.get(look.partition, []), look.at)
        before = max(newest, reached.get((look.client, look.partition), 0))
        known = [i for i, at in committed[look.partition, look.head] if at <= look.at]
        found = next((i for i in known if i >= before), None)
        if found is not None:
            reached[look.client, look.partition] = found
            continue
        why = f"after commit {before}" if known else "which was not committed by then"
        text = f"{look.client} saw partition {look.partition} at {look.head}, {why}"
        report.add(Promise.READS, text, look.partition, at=look.at)


class Stored(NamedTuple):
    """An agent from one commit on; None while there is none."""

    at: float
    order: tuple[int, int]  # generation and number of the commit in its partition
    record: Record | None


class _Reads:
    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._lines: dict[Name, list[Stored]] = defaultdict(list)
        self._reached: dict[tuple[str, Name], int] = {}
        for partition in history.partitions:
            for number, accepted in enumerate(partition.log.commits):
                for record in accepted.commit.changed:
                    order = partition.generation, number
                    kept = None if record.gone else record
                    line = self._lines[record.agent, record.key]
                    line.append(Stored(accepted.at, order, kept))

    def check(self) -> None:
        for read in self._history.evidence.reads:
            self._judge(read)

    def _judge(self, read: Read) -> None:
        name = read.agent, read.key
        line = [Stored(float("-inf"), (-1, -1), None), *self._lines.get(name, ())]
        least = self._least(read, line)
        who = f"{read.agent}/{read.key}"
        what = f"{read.client} read {who} as {read.state}"
        if least is None:
            text = f"{what} after {read.after}, which was not committed by then"
            self._report.add(Promise.RECEIPTS, text, None, who, read.ended)
            return
        newest = bisect_left([each.at for each in line], read.began) - 1
        reached = max(newest, self._reached.get((read.client, name), 0))
        found = self._find(read, line, max(least, reached))
        if found is not None:
            self._reached[read.client, name] = found
        elif read.after is not None and self._find(read, line, least) is None:
            text = f"{what} after {read.after}, expected {line[least].record} or later"
            self._report.add(Promise.RECEIPTS, text, None, who, read.ended)
        else:
            earlier = self._find(read, line, 0) is not None
            why = f"after {line[reached].record}" if earlier else "which was never committed"
            self._report.add(Promise.READS, f"{what}, {why}", None, who, read.ended)

    def _find(self, read: Read, line: Sequence[Stored], start: int) -> int | None:
        for i in range(start, len(line)):
            if line[i].at > read.ended:
                break
            if self._equal(line[i].record, read):
                return i
        return None

    def _equal(self, record: Record | None, read: Read) -> bool:
        if record is None or read.state is None:
            return record is None and read.state is None
        try:
            reader = reader_of(type(read.state), self._history.schemas[record.schema])
            return reader.row(record.state) == read.state
        except HoldfastError:
            return False  # a state of a newer release than the reader's

    def _least(self, read: Read, line: Sequence[Stored]) -> int | None:
        """The index of the oldest state that shows what the receipt stands for."""
        if read.after is None:
            return 0
        order = self._order_of(read.after, read)
        if order is None:
            return None
        return bisect_right([each.order for each in line], order) - 1

    def _order_of(self, after: Receipt, read: Read) -> tuple[int, int] | None:
        """The first commit that covers the receipt in the partition where the key lives."""
        order = (-1, -1)
        for number, following in after.positions:
            for partition in self._history.partitions:
                if partition.number == number and partition.owns(read.key):
                    found = _covering(partition, following, read.ended)
                    if found is None:
                        return None
                    order = max(order, (partition.generation, found))
        return order


def _covering(partition: Partition, following: int, until: float) -> int | None:
    if _covers(partition.log.born, following):
        return -1
    for number, accepted in enumerate(partition.log.commits):
        if _covers(accepted.commit.head, following):
            return number if accepted.at <= until else None
    return None


def _covers(head: Head, following: int) -> bool:
    reached = LANE + head.urgent if following >= LANE else head.position
    return reached >= following


def _pages(history: History, story: Story, report: Report) -> None:
    """Ids are unique; a client gets those of a partition from the first on, once, without a gap,
    and an empty page tells it that it has got them all."""
    issued: dict[str, tuple[int, int, float]] = {}  # partition, number, when
    starts = {each.number: each.log.born.actions_next for each in history.partitions}
    for number, actions in story.issued.items():
        for place, (at, identity) in enumerate(actions, start=starts[number]):
            if identity in issued:
                text = f"action {identity} was issued twice"
                report.add(Promise.CONTIGUOUS, text, number, None, at)
            issued[identity] = number, place, at
    following: dict[tuple[str, int], int] = {}
    for page in history.evidence.pages:
        for identity in page.ids:
            partition_number, place, at = issued.get(identity, (-1, -1, float("inf")))
            if at > page.at:
                text = f"{page.client} got action {identity}, which was not committed by then"
                report.add(Promise.CONTIGUOUS, text, None, None, page.at)
                continue
            at_client = page.client, partition_number
            expected = following.get(at_client, starts[partition_number])
            if place != expected:
                text = f"{page.client} got action {identity}, number {place}, expected {expected}"
                report.add(Promise.CONTIGUOUS, text, partition_number, None, page.at)
            following[at_client] = place + 1
        if not page.ids:
            for number, actions in story.issued.items():
                expected = following.get((page.client, number), starts[number])
                left = [each for at, each in actions if at < page.at][expected - starts[number] :]
                if left:
                    text = f"{page.client} got an empty page, but not {left[0]} of {number}"
                    report.add(Promise.CONTIGUOUS, text, number, None, page.at)


def _asks(history: History, story: Story, report: Report) -> None:
    """What was answered is the reference's answer to such a question, and each question has one."""
    answers: dict[tuple[str, str, str, bytes], list[Event | None]] = defaultdict(list)
    for partition in history.partitions:
        for one in partition.every:
            place = partition.number, one.position
            stored = history.schemas.get(one.raw[0])
            if one.asks and place in story.answers and stored is not None:
                question = (one.agent, one.key, stored.fingerprint, one.raw[1])
                answers[question].append(story.answers[place])
    for ask in history.evidence.asks:
        if ask.reply is None and not ask.failed:
            continue
        fingerprint = schema_of(type(ask.event)).fingerprint
        given = answers[ask.agent, ask.key, fingerprint, encode(ask.event)]
        same = [i for i, each in enumerate(given) if encode(each) == encode(ask.reply)]
        if same:
            del given[same[0]]
        else:
            who, got = f"{ask.agent}/{ask.key}", ask.reply or ask.error
            text = f"{ask.client} asked {who} {ask.event} and got {got}, expected {given}"
            report.add(Promise.FOLD, text, None, who, ask.ended)
