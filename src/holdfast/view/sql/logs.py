"""Events and actions as tables: the newest rows of each partition, read on from where the last
query ended.

Logs grow without end, so a query reads the newest rows only, and says so where there are more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as arrow

from holdfast.engine.port import Engine, View
from holdfast.runtime.exporting.arrays import array_of
from holdfast.runtime.exporting.columns import FIXED
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.reading import Gaps, Slice, actions, batches, events
from holdfast.runtime.exporting.target import Batch, Kind, Place
from holdfast.stepping.commit import Head
from holdfast.stepping.script import Firing, read_firings
from holdfast.view.sql.jailer import Shared
from holdfast.view.sql.picture import same
from holdfast.view.sql.sheets import empty_table, marked

CHUNKS_MAX = 64  # of a column, each from one refresh
_SKIP = Gaps(skip=True, note=lambda text: None)  # what is past retention is not there


class Part(NamedTuple):
    """The newest rows of one partition, and where they begin and end."""

    first: Place
    after: Place
    table: Any


class Log:
    """One of the two kinds, over all partitions there ever were. For one thread at a time."""

    def __init__(self, kind: Kind, engine: Engine, payloads: Payloads, rows_max: int) -> None:
        self._kind = kind
        self._engine = engine
        self._payloads = payloads
        self._rows_max = rows_max
        self._parts: dict[int, Part] = {}
        self._shared: tuple[list[Any], Shared] | None = None

    def refresh(self, heads: Mapping[int, Head], since: float | None = None) -> str:
        """Bring it up to these heads, and those of retired partitions; what was not read.

        With `since`, from that time on.
        """
        retired = {n: self._engine.view(n).head() for n in self._engine.catalog.retired}
        ends = dict(sorted({**retired, **heads}.items()))
        most = max(1, self._rows_max // len(ends))
        older = 0
        for number, head in ends.items():
            self._refresh(number, head, most, since)
            older += self._older(number, since)
        if not older:
            return ""
        read = sum(len(part.table) for part in self._parts.values())
        return f"of {self._kind} the newest {read:,} were read, {older:,} older ones were not"

    def _refresh(self, number: int, head: Head, most: int, since: float | None) -> None:
        view = self._engine.view(number)
        incarnation = view.incarnation()
        part = self._parts.get(number)
        if part is None or part.after.incarnation != incarnation:
            first = self._begin(view, Place(number, incarnation), head, most, since)
            part = Part(first, first, self._empty())
        if _end(self._kind, head) == (part.after.position, part.after.fired):
            self._parts[number] = part
            return
        tables, after = [part.table], part.after
        for batch, place in batches(self._kind, self._slices(view, part.after, head)):
            after = place
            if len(batch):
                tables.append(_table_of(self._kind, batch))
        whole = arrow.concat_tables(tables)
        if len(whole) > most:
            whole = whole.slice(len(whole) - most)
        if whole.column(0).num_chunks > CHUNKS_MAX:
            whole = whole.combine_chunks()
        self._parts[number] = Part(part.first, after, whole)

    def _slices(self, view: View, place: Place, head: Head) -> Iterator[Slice]:
        if self._kind == "events":
            return events(view, place, self._payloads, _SKIP, head)
        return actions(view, place, self._engine.catalog.fleet, self._payloads, _SKIP, head)

    def _begin(self, view: View, place: Place, head: Head, most: int, since: float | None) -> Place:
        """Where the newest rows begin, found without reading those before."""
        end = _end(self._kind, head)[0]
        position = max(self._wanted_from(view, end, since), end - most)
        if self._kind == "actions":
            return place._replace(position=position)
        fired = _bisect(0, head.journal_next, lambda n: _fired_at(view, n) >= position)
        return place._replace(position=position, fired=fired)

    def _wanted_from(self, view: View, end: int, since: float | None) -> int:
        """The first that retention has kept, or the first of that time."""
        kept = _first_action(view) if self._kind == "actions" else view.inbox_first()
        if since is None:
            return kept
        if self._kind == "actions":
            return _bisect(kept, end, lambda number: _issued(view, number) >= since)
        found = _bisect(kept, end, lambda number: _stamp(view, number) >= since)
        # Something urgent may have come since, and have overtaken what had come before.
        fired = view.head().journal_next
        first = _bisect(0, fired, lambda number: _fired_when(view, number) >= since)
        return max(kept, min(found, _fired_at(view, first))) if first < fired else found

    def _older(self, number: int, since: float | None) -> int:
        """Rows that are wanted and in front of those that were read."""
        part = self._parts[number]
        if not len(part.table):
            return 0
        name = "number" if self._kind == "actions" else "position"
        first: int = part.table.column(name)[0].as_py()
        wanted = self._wanted_from(self._engine.view(number), part.after.position, since)
        return max(0, first - wanted)

    def shared(self) -> Shared:
        parts = [part.table for _, part in sorted(self._parts.items())]
        if self._shared is None or not same(self._shared[0], parts):
            self._shared = parts, Shared(arrow.concat_tables([self._empty(), *parts]))
        return self._shared[1]

    def _empty(self) -> Any:
        return empty_table(list(FIXED[self._kind].items()))


def _table_of(kind: Kind, batch: Batch) -> Any:
    return arrow.table(
        {n: marked(form, array_of(form, batch.columns[n])) for n, form in FIXED[kind].items()}
    )


def _end(kind: Kind, head: Head) -> tuple[int, int]:
    return (head.actions_next, 0) if kind == "actions" else (head.position, head.journal_next)


# ---------------------------------------------------------------- searching


def _bisect(low: int, high: int, is_behind: Callable[[int], bool]) -> int:
    """The first number from `low` on that is behind; `high` if none is."""
    while low < high:
        middle = (low + high) // 2
        if is_behind(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _first_action(view: View) -> int:
    found = view.actions(0, 1)
    return found[0].first if found else view.head().actions_next


def _issued(view: View, number: int) -> float:
    found = view.actions(number, 1)
    return found[0].now if found else float("inf")


def _stamp(view: View, position: int) -> float:
    found = view.frames(position, 1)
    return found[0].stamp if found else float("inf")


def _fired_at(view: View, number: int) -> int:
    """In front of which position a timer fired; -1 for one that is past retention."""
    found = _firing(view, number)
    return -1 if found is None else found.position


def _fired_when(view: View, number: int) -> float:
    found = _firing(view, number)
    return float("-inf") if found is None else found.now


def _firing(view: View, number: int) -> Firing | None:
    found = view.journal(number, 1)
    if not found or found[0].first > number:
        return None
    return read_firings(found[0])[number - found[0].first]
