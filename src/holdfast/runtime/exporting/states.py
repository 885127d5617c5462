"""States that changed since a place, and agents that are gone since.

Which agents may have changed is what the inbox and the journal say; how they are now is read from
the states. Agents move to other partitions when a fleet is rescaled: a partition that is new here
gives every state it has, and a retired one only says who expired in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, cast

from holdfast.engine.port import Engine, View
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.reading import (
    BYTES_PER_BATCH,
    ROWS_PER_BATCH,
    Gaps,
    frames,
    runs,
)
from holdfast.runtime.exporting.target import Batch, Place
from holdfast.stepping.commit import Head, Record
from holdfast.stepping.frame import Frame

POINT_READS = 1_000  # past so many, reading every state is cheaper

Name = tuple[str, str]  # agent, key


class Changes(NamedTuple):
    records: Iterable[Record]
    gone: list[Name]
    after: Place


def changes(engine: Engine, place: Place, fresh: bool, gaps: Gaps) -> Changes | None:
    """None if nothing happened since the place."""
    view = engine.view(place.partition)
    head = view.head()
    if not fresh and (head.position, head.journal_next) == (place.position, place.fired):
        return None
    after = place._replace(
        position=head.position, fired=head.journal_next, stamp=_stamp(view, head)
    )
    fired, expired = _journalled(view, place, head, gaps)
    records: Iterable[Record] = []
    if place.partition >= engine.catalog.layout.first:
        touched = set() if fresh else _touched(view, place, head) | fired
        if fresh:
            records = view.records()
        elif view.inbox_first() > place.position:
            # Who changed is past retention, when is not: times never go back.
            records = [r for r in view.records() if r.updated >= place.stamp]
        else:
            records = _read(view, touched)
    return Changes(records, [name for name in expired if not _lives(engine, name)], after)


def _stamp(view: View, head: Head) -> float:
    """Of the newest event that was folded, where it is still kept; nothing changes before it."""
    found = view.frames(head.position - 1, 1) if head.position else []
    if found and found[0].first < head.position:
        return found[0].stamp
    return head.now


def _journalled(view: View, place: Place, head: Head, gaps: Gaps) -> tuple[set[Name], list[Name]]:
    """Whose timers fired, and who expired."""
    fired: set[Name] = set()
    expired: dict[Name, None] = {}
    for run in runs(view.journal, "timers", place, place.fired, head.journal_next, gaps):
        frame = Frame.decode(run.frame)
        agents, keys, events = [
            cast(list[object], frame.values(name)) for name in ("agent", "key", "event")
        ]
        for number, (agent, key, event) in enumerate(
            zip(agents, keys, events, strict=True), start=run.first
        ):
            name = (cast(str, agent), cast(str, key))
            if number >= place.fired and event is None:
                expired[name] = None
            elif number >= place.fired:
                fired.add(name)
    return fired, list(expired)


def _touched(view: View, place: Place, head: Head) -> set[Name]:
    """Whoever was sent something since the place, as far as retention has kept it."""
    touched: set[Name] = set()
    for stored in frames(view, place, head.position, Gaps(skip=True, note=lambda text: None)):
        frame = Frame.decode(stored.frame)
        agents = cast(list[str], frame.values("agent"))
        keys = cast(list[str], frame.values("key"))
        start, stop = max(0, place.position - stored.first), head.position - stored.first
        touched.update(zip(agents[start:stop], keys[start:stop], strict=True))
    return touched


def _read(view: View, names: Collection[Name]) -> Iterable[Record]:
    if len(names) > POINT_READS:
        return [record for record in view.records() if (record.agent, record.key) in names]
    found = (view.record(agent, key) for agent, key in sorted(names))
    return [record for record in found if record is not None]


def _lives(engine: Engine, name: Name) -> bool:
    number = engine.catalog.layout.partition_of(name[1])
    return engine.view(number).record(*name) is not None


def state_batches(found: Changes, payloads: Payloads) -> Iterator[Batch]:
    """One class after the other."""
    ordered = sorted(found.records, key=attrgetter("agent", "key"))
    for agent, records in groupby(ordered, key=attrgetter("agent")):
        rows: list[tuple[object, ...]] = []
        size = 0
        for r in records:
            values = payloads.values(r.schema, r.state)
            rows.append((agent, r.key, r.version, r.updated, False, values))
            size += len(r.state)
            if len(rows) >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
                yield _batch(agent, rows)
                rows, size = [], 0
        if rows:
            yield _batch(agent, rows)
    for agent, names in groupby(sorted(found.gone), key=lambda name: name[0]):
        yield _batch(agent, [(agent, key, None, None, True, {}) for _, key in names])


def _batch(agent: str, rows: list[tuple[object, ...]]) -> Batch:
    names = ("agent", "key", "version", "updated", "gone", "state")
    return Batch(agent, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
