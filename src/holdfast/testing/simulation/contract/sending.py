"""KEPT, ONCE and ORDER: what clients sent against what the inboxes hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.contract.overtaking import belongs_in_lane, in_order_of_folding
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import Input, encode, is_row_of, schema_of
from holdfast.testing.simulation.evidence import Send
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition

Number = tuple[str, int]  # source and sequence number


class Place(NamedTuple):
    partition: Partition
    input: Input

    @property
    def number(self) -> int:
        return self.partition.number

    def is_before(self, following: int, told: float) -> bool:
        """An urgent event that was sent with others is folded before the last of these is."""
        if not self.input.position >= LANE > following:
            return self.input.position < following
        commits = self.partition.log.commits
        heads = [self.partition.log.born, *(accepted.commit.head for accepted in commits)]
        seen = sum(accepted.at <= told for accepted in commits)  # by whoever had the receipt
        covering = next((i for i, head in enumerate(heads) if head.position >= following), None)
        return covering is None or LANE + heads[max(seen, covering)].urgent > self.input.position

    def __str__(self) -> str:
        return f"partition {self.partition.number} at {self.input.position}"


def check(history: History, report: Report) -> None:
    attempts: dict[Number, list[Send]] = defaultdict(list)
    for send in history.evidence.sends:
        attempts[send.source, send.seq].append(send)
    places = _places(history, report)
    for number, sends in attempts.items():
        _event(history, report, sends, places.get(number, []))
    _nobodys(history, report, attempts, places)
    _order(history, report, attempts)


def _places(history: History, report: Report) -> dict[Number, list[Place]]:
    """Where each number from outside is. Whatever is in an inbox belongs there by its key."""
    places: dict[Number, list[Place]] = defaultdict(list)
    for partition in history.partitions:
        for one in partition.every:
            if not partition.owns(one.key):
                text = f"{one.who} does not live in partition {partition.number}"
                report.add(Promise.KEPT, text, partition.number, one.who)
            if belongs_in_lane(history, one) != (one.position >= LANE):
                text = f"{one.who} at {one.position} stands where it does not belong: {one}"
                report.add(Promise.ORDER, text, partition.number, one.who)
            if one.origin == "external":
                places[one.source or "", one.seq].append(Place(partition, one))
    return places


def _event(history: History, report: Report, sends: list[Send], places: list[Place]) -> None:
    first = sends[0]
    who = f"{first.agent}/{first.key}"
    what = f"{first.source} {first.seq} for {who}"
    acknowledged = next((each for each in sends if each.outcome == "acknowledged"), None)
    if acknowledged is not None and not places:
        text = f"{what} was acknowledged, but is in no inbox"
        report.add(Promise.KEPT, text, None, who, acknowledged.ended)
    if len(places) > 1:
        text = f"{what} is in {', '.join(map(str, places))}"
        report.add(Promise.ONCE, text, places[1].partition.number, who)
    if places and all(each.outcome == "refused" for each in sends):
        text = f"{what} was refused, but is in {places[0]}"
        report.add(Promise.ONCE, text, places[0].partition.number, who)
    for place in places:
        one = place.input
        if one.who != who or not is_row_of(history.schemas, one.raw, first.event):
            text = f"{what} was sent as {first.event}, but {place} is {one}"
            report.add(Promise.KEPT, text, place.partition.number, who)
    if acknowledged is not None and acknowledged.receipt is not None and places:
        _receipt(report, acknowledged, what, places[0])


def _receipt(report: Report, send: Send, what: str, place: Place) -> None:
    """The receipt names a position behind the event; that of a repeat, anything behind it."""
    assert send.receipt is not None
    told = [following for number, following in send.receipt.positions if number == place.number]
    behind = [following for following in told if place.is_before(following, send.ended)]
    if (told and not behind) or (not told and not send.receipt.repeats):
        text = f"{what} is in {place}, its receipt says {send.receipt.positions}"
        report.add(Promise.RECEIPTS, text, place.partition.number, place.input.who, send.ended)


def _nobodys(
    history: History,
    report: Report,
    attempts: dict[Number, list[Send]],
    places: dict[Number, list[Place]],
) -> None:
    """Questions have numbers of their handle, so they are counted instead."""
    asked = Counter(
        (ask.agent, ask.key, schema_of(type(ask.event)).fingerprint, encode(ask.event))
        for ask in history.evidence.asks
    )
    for number, found in places.items():
        if number in attempts:
            continue
        for place in found:
            one = place.input
            stored = history.schemas.get(one.raw[0])
            question = (one.agent, one.key, stored.fingerprint if stored else "", one.raw[1])
            if one.asks and asked[question] > 0:
                asked[question] -= 1
                continue
            verb = "asked" if one.asks else "sent"
            text = f"{place}: {one.source} {one.seq} for {one.who}, which nobody {verb} (or twice)"
            report.add(Promise.ONCE, text, place.partition.number, one.who)


class _Span(NamedTuple):
    urgent: bool
    began: float  # of the first attempt
    acknowledged: float  # infinity if never
    place: Place


def _order(history: History, report: Report, attempts: dict[Number, list[Send]]) -> None:
    times = {
        number: (
            min(each.began for each in sends),
            history.acknowledged.get(number, float("inf")),
        )
        for number, sends in attempts.items()
    }
    by_key: dict[str, list[_Span]] = defaultdict(list)
    for partition in history.partitions:
        spans = []
        for urgent, one in in_order_of_folding(partition):
            span = times.get((one.source or "", one.seq)) if one.origin == "external" else None
            if span is not None:
                spans.append(_Span(urgent, *span, Place(partition, one)))
        _swapped(report, spans)
        if len(history.generations) > 1:
            for each in spans:
                by_key[each.place.input.key].append(each)
    for spans in by_key.values():
        _swapped(report, spans)


def _swapped(report: Report, spans: Iterable[_Span]) -> None:
    """From the end: nothing may stand behind what began only after it was acknowledged, but for
    what waits in the inbox behind what is urgent."""
    earliest: _Span | None = None
    urgent: _Span | None = None
    for span in reversed(list(spans)):
        later = urgent if span.urgent else earliest
        if later is not None and later.acknowledged < span.began:
            text = (
                f"{span.place} began at {span.began} and is folded before {later.place}, "
                f"acknowledged at {later.acknowledged}"
            )
            one = span.place
            report.add(Promise.ORDER, text, one.partition.number, one.input.who, span.began)
        if earliest is None or span.acknowledged < earliest.acknowledged:
            earliest = span
        if span.urgent and (urgent is None or span.acknowledged < urgent.acknowledged):
            urgent = span
