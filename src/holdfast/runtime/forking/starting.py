"""Where a fork begins: at the beginning of history, at a snapshot, or at a time.

A fork needs production's agents as they were where it takes over. A snapshot has them. For a time
they come from the newest snapshot before it (the fork then begins at that snapshot), or from
folding history up to that time with the code that ran, if `--baseline` names it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from holdfast.engine.contents import Contents
from holdfast.engine.port import Engine, View
from holdfast.errors import UsageError
from holdfast.model.keys import slot_of
from holdfast.runtime.forking.comparing import decisions
from holdfast.runtime.forking.recorded import UnderWay
from holdfast.runtime.forking.track import name_of
from holdfast.runtime.forking.values import Values
from holdfast.runtime.forking.workshop import Begin
from holdfast.runtime.replaying.history import History, written
from holdfast.runtime.snapshots.beginnings import is_of, snapshots_of, start_of
from holdfast.runtime.snapshots.restoring import StoredContents, manifest_of
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.stepping.commit import Head, Letter, Record
from holdfast.stepping.script import Firing, read_firings


class StartingPoint(NamedTuple):
    """How the partitions of one generation begin; earlier generations are not folded."""

    begins: dict[int, Begin]
    what: str  # as in "snapshot before-upgrade"


BEGINNING = StartingPoint({}, "the beginning")
GONE = float("-inf")  # the time of what is past retention: before any other


def from_snapshot(engine: Engine, store: SnapshotStore, name: str) -> StartingPoint:
    manifest = manifest_of(store, name, engine.catalog.fleet)
    if not is_of(manifest, engine):
        raise UsageError(
            f"snapshot {name} is of another copy of this fleet's data: its history goes on "
            "elsewhere"
        )
    return _from_contents(StoredContents(store, manifest), f"snapshot {name}")


def newest_before(engine: Engine, store: SnapshotStore, at: float) -> StartingPoint | None:
    """The newest snapshot in which no partition is past that time; None if there is none."""
    for manifest in reversed(list(snapshots_of(engine, store))):
        if all(entry.facts.head.now <= at for entry in manifest.partitions):
            return _from_contents(StoredContents(store, manifest), f"snapshot {manifest.name}")
    return None


def _from_contents(contents: Contents, what: str) -> StartingPoint:
    starts = {p.facts.number: start_of(contents, p, what) for p in contents.partitions}
    begins = {}
    for number, start in starts.items():
        letters = [(name_of(letter), letter) for letter in start.letters]
        counts = {source: other.behind[number].under_way for source, other in starts.items()}
        under_way = UnderWay(start.behind[number].position, counts)
        records, fates = list(start.records), list(start.fates)
        begins[number] = Begin(start.head, records, letters, under_way=under_way, fates=fates)
    return StartingPoint(begins, what)


def from_states(
    engine: Engine, at: float, numbers: range, records: list[Record], letters: list[Letter]
) -> StartingPoint:
    """What the code that ran has made of history up to a time."""
    slots = {**engine.catalog.retired, **engine.catalog.layout.slots_by_number}
    begins = {}
    for number in numbers:
        own = slots[number]
        begins[number] = Begin(
            head_at(engine, number, at),
            [record for record in records if slot_of(record.key) in own],
            [(name_of(letter), letter) for letter in letters if slot_of(letter.key) in own],
            fates=[one for one in engine.view(number).fates() if one.now <= at],
            under_way=UnderWay(until=dict.fromkeys(numbers, at)),
        )
    return StartingPoint(begins, "a time, with the baseline's states")


def generation_at(engine: Engine, at: float) -> range:
    """The partitions that lived at a time."""
    slots = {**engine.catalog.retired, **engine.catalog.layout.slots_by_number}
    firsts = sorted(n for n, own in slots.items() if own.start == 0)
    for first, stop in zip(firsts, [*firsts[1:], max(slots) + 1], strict=True):
        if any(engine.view(n).head().now > at for n in range(first, stop)):
            return range(first, stop)
    return engine.catalog.layout.numbers


def head_at(engine: Engine, number: int, at: float) -> Head:
    """How far a partition had come at a time, by what it recorded.

    What is past retention was before, as long as the last thing before that time is kept, or there
    is nothing after it.
    """
    view = engine.view(number)
    end = view.head()
    values = Values(engine.catalog.schemas, None)

    def stamp(position: int) -> float:
        found = view.frames(position, 1)
        return found[0].stamp if found and found[0].first <= position else GONE

    def fired(firing: int) -> float:
        found = firing_of(view, firing)
        return GONE if found is None else found.now

    def issued(action: int) -> float:
        found = view.actions(action, 1)
        if not found or found[0].first > action:
            return GONE
        return decisions(found[0].frame, values)[action - found[0].first].now

    position = bisect_right(range(end.position), at, key=stamp)
    journalled = bisect_right(range(end.journal_next), at, key=fired)
    following = firing_of(view, journalled)
    if following is not None:  # what it overtook was folded later too
        position = min(position, following.position)
    actions = bisect_right(range(end.actions_next), at, key=issued)
    counts = ((position, stamp), (journalled, fired), (actions, issued))
    last = [when(count - 1) if count else 0.0 for count, when in counts]
    if at >= end.now:
        last[0] = end.now
    elif GONE in last or (following is None and journalled < end.journal_next):
        raise UsageError(
            f"partition {number} at {written(at)}: where it stood then is past retention: give a "
            "later time, or a snapshot that is newer"
        )
    letters = sum(letter.now <= at for letter, _ in view.letters())
    begun = History(engine, number).begin().head.now
    return Head(position, max(begun, *last[:2]), actions, letters + 1, journalled)


def firing_of(view: View, number: int) -> Firing | None:
    """None for one that is past retention."""
    found = view.journal(number, 1)
    if not found or found[0].first > number:
        return None
    return read_firings(found[0])[number - found[0].first]


def time_of(engine: Engine, partition: int | None, position: int) -> float:
    """When the event at a position came; without a partition, of the only one there is."""
    layout = engine.catalog.layout
    known = {*engine.catalog.retired, *layout.numbers}
    some = f"the partitions are {layout.first} to {layout.numbers.stop - 1}"
    if partition is None:
        if len(known) > 1:
            raise UsageError(
                f"position {position}: {some}: write PARTITION:NUMBER, as in "
                f"{layout.first}:{position}"
            )
        partition = layout.first
    if partition not in known:
        raise UsageError(f"position {partition}:{position}: {some}")
    view = engine.view(partition)
    first, end = view.inbox_first(), view.head().position
    if not first <= position < end:
        kept = f"has folded and kept {first} to {end - 1}" if end > first else "has no history"
        raise UsageError(f"position {partition}:{position}: partition {partition} {kept}")
    return next(History(engine, partition).frames(position)).stamp
