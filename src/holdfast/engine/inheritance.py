"""What new partitions inherit from those they replace: pure decisions, the same in every engine.

An agent goes, with its timers, its open calls and what it holds, to the child that owns its slot,
and so do dead letters that wait, fates of actions and the numbers of ordered sources. Of the dedupe
windows every child gets the union: which of the parents has seen a number cannot be told from the
number. Events, actions and answers stay where they are, and so do marks of messages: a retired
partition sends no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.engine.admission import CHUNK, WINDOW
from holdfast.engine.port import Limits, View, waiting_in
from holdfast.engine.sources import (
    IDLE_SECONDS,
    SourceCount,
    SourceRow,
    is_anonymous,
    is_forgotten,
)
from holdfast.engine.stamping import Instant
from holdfast.errors import Fenced, Rescaling, UsageError
from holdfast.model.keys import Layout, slot_of
from holdfast.stepping.cell import without_asks
from holdfast.stepping.commit import Call, Fate, Head, Letter, Record


class Dedupe(NamedTuple):
    """The dedupe rows of an inbox."""

    sources: dict[str, SourceRow]
    chunks: dict[tuple[str, int], int]
    last_by_key: dict[tuple[str, str], int]  # of ordered sources

    def of(self, slots: range) -> Dedupe:
        """What the child that owns these slots gets of a union."""
        own = {k: last for k, last in self.last_by_key.items() if slot_of(k[1]) in slots}
        return Dedupe(dict(self.sources), dict(self.chunks), own)


def union(parents: Iterable[Dedupe]) -> Dedupe:
    result = Dedupe({}, {}, {})
    for parent in parents:
        for name, row in parent.sources.items():
            known = result.sources.get(name, row)
            result.sources[name] = SourceRow(max(known.top, row.top), max(known.stamp, row.stamp))
        for chunk, bits in parent.chunks.items():
            result.chunks[chunk] = result.chunks.get(chunk, 0) | bits
        for key, last in parent.last_by_key.items():
            result.last_by_key[key] = max(last, result.last_by_key.get(key, 0))
    floors = {name: (row.top - WINDOW) // CHUNK for name, row in result.sources.items()}
    for name, number in list(result.chunks):
        if name not in floors or number < floors[name]:
            del result.chunks[name, number]
    return result


def within_bounds(union: Dedupe, stamp: float, limits: Limits) -> Dedupe:
    """Without forgotten sources and, as far as a bound demands it, without idle ones.

    UsageError where that is not enough: a new partition would refuse every source of that kind
    that it does not know.
    """
    known = {n: row for n, row in union.sources.items() if not is_forgotten(n, row.stamp, stamp)}
    aged = sorted((row.stamp, name) for name, row in known.items() if is_anonymous(name))
    too_many = max(0, len(aged) - limits.anonymous_sources_max)
    for at, name in aged[:too_many]:
        if at < stamp - IDLE_SECONDS:
            del known[name]
    _check_count(SourceCount.of(known), limits)
    return Dedupe(
        known,
        {chunk: bits for chunk, bits in union.chunks.items() if chunk[0] in known},
        {key: last for key, last in union.last_by_key.items() if key[0] in known},
    )


def _check_count(count: SourceCount, limits: Limits) -> None:
    if count.named > limits.sources_max:
        raise UsageError(
            f"{count.named:,} named sources have sent to these partitions together, and each new "
            f"one may know {limits.sources_max:,}: raise sources_max in the engine URL, here and "
            "wherever the fleet runs"
        )
    if count.anonymous > limits.anonymous_sources_max:
        raise UsageError(
            f"{count.anonymous:,} requests and handles without a source have sent to these "
            f"partitions together within 11 minutes, and each new one may know "
            f"{limits.anonymous_sources_max:,}: rescale when fewer come, or raise "
            "anonymous_sources_max in the engine URL, here and wherever the fleet runs"
        )


def latest(stamps: Iterable[Instant]) -> Instant:
    return max(stamps, key=lambda stamp: stamp.wall)


def first_head(parents: Iterable[Head], letters: Sequence[Letter], calls: Sequence[Call]) -> Head:
    """Counters begin anew; the time goes on, or an agent would see it run back; so does a ground
    stop."""
    heads = list(parents)
    return Head(
        now=max(head.now for head in heads),
        letters_next=len(letters) + 1,
        calls_next=len(calls) + 1,
        ground_stop=next((head.ground_stop for head in heads if head.ground_stop), ""),
    )


def moved(record: Record) -> Record:
    return record._replace(extras=without_asks(record.extras))


def letters_of(slots: range, parents: Iterable[Sequence[tuple[Letter, bool]]]) -> list[Letter]:
    """The dead letters of these slots that wait, by time, numbered from 1 on."""
    waiting = [
        letter
        for letters in parents
        for letter, redriven in letters
        if not redriven and slot_of(letter.key) in slots
    ]
    waiting.sort(key=lambda letter: letter.now)
    return [letter._replace(id=i, ask=-1) for i, letter in enumerate(waiting, start=1)]


def fates_of(slots: range, parents: Iterable[Sequence[Fate]]) -> list[Fate]:
    """What became of the actions of these slots: nobody may decide it again."""
    own = [one for fates in parents for one in fates if slot_of(one.key) in slots]
    return sorted(own, key=lambda one: one.now)


def calls_of(slots: range, parents: Iterable[Sequence[Call]]) -> list[Call]:
    """The open calls of these slots, by time, numbered from 1 on; their ids stay."""
    opened = [call for calls in parents for call in calls if slot_of(call.key) in slots]
    opened.sort(key=lambda call: call.now)
    return [call._replace(number=i) for i, call in enumerate(opened, start=1)]


def check_drained(views: Mapping[int, View]) -> None:
    """Everything that was appended is folded, and everything that was sent has been taken."""
    marks = {number: view.marks() for number, view in views.items()}
    for number, view in views.items():
        waiting = waiting_in(view, view.head())
        if waiting:
            raise not_drained(number, f"{waiting:,} events wait to be folded")
        source = view.incarnation()
        for destination, following in view.sent_next().items():
            taken = marks[destination].get(source, 0)
            if taken != following - 1:
                raise not_drained(number, f"{following - 1 - taken:,} messages wait to be relayed")


def not_claimed(layout: Layout, claimed: Collection[int]) -> Fenced:
    missing = sorted(set(layout.numbers) ^ set(claimed))
    return Fenced(
        f"partition {missing[0]} is {'retired' if missing[0] in claimed else 'not claimed'}: "
        f"a rescaling needs claims of partitions {layout.first} to {layout.numbers[-1]}, no others"
    )


def not_drained(number: int, reason: str) -> Rescaling:
    return Rescaling(f"partition {number} is not drained: {reason}: fold on, then try again")


def intake_open(number: int) -> Rescaling:
    return Rescaling(f"partition {number} takes events: close its intake, fold, then try again")


def refuses(name: str) -> Rescaling:
    """To whoever appends where the intake is closed, for a while or for ever."""
    return Rescaling(f"{name}: the fleet is being given other partitions: try again in a moment")
