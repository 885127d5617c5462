"""Traces through a kernel, which knows nothing of them: it tells the version that every event of a
traced frame gave its agent, and outputs are found by the row and version that made them.

Nothing here is done event by event: ids are derived for those that have outputs, and for the others
when somebody makes spans of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from holdfast.model.effects import Traced
from holdfast.model.tracing import NONE, is_sampled, onward
from holdfast.stepping.traces import by_row_of, runs_of

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array
    from holdfast.stepping.careful import CarefulFold
    from holdfast.stepping.compiled.kind import CompiledKind
    from holdfast.stepping.compiled.reading import Events
    from holdfast.stepping.inputs import Inputs

_NO_VERSIONS = np.zeros(0, np.int64)


class TracedRows(NamedTuple):
    """Events of one frame that are sampled and a kernel has folded, as columns."""

    contexts: Sequence[str]
    agent: str
    names: Array  # keys, one behind the other
    bounds: Array
    versions: Array
    codes: Array  # of their classes
    classes: Sequence[type]
    positions: Array
    origin: str
    now: float

    def each(self) -> Iterator[Traced]:
        columns = (self.versions, self.codes, self.positions, self.bounds[:-1], self.bounds[1:])
        rows = zip(self.contexts, *(column.tolist() for column in columns), strict=True)
        names = self.names.tobytes()
        for given, version, code, position, start, stop in rows:
            key = names[start:stop].decode()
            event = self.classes[code].__name__
            who = self.agent, key, version, event
            yield Traced(given, *who, position, self.origin, self.now)


class Following:
    """Of one frame."""

    def __init__(self, kind: CompiledKind, inputs: Inputs) -> None:
        self._kind = kind
        self._inputs = inputs
        self._runs = runs_of(inputs)
        self._order = int(kind.controls[2])
        self._whole = NONE  # a context of all rows that makes no spans
        if self._runs and self._runs[0][:2] == (0, len(inputs)):
            first = cast(str, self._runs[0][2])
            self._whole = NONE if is_sampled(first) else first
        noted = self._runs and not self._whole
        self.versions = np.zeros(len(inputs), np.int64) if noted else _NO_VERSIONS

    def note(self, fold: CarefulFold, events: Events) -> None:
        """What the kernel has folded; what it gave up is noted by the careful fold."""
        if not self._runs:
            return
        fold.stepper.carries = True
        contexts = self._kind.contexts
        if self._whole:
            contexts.add_frame(self._order, fold.stepper.order, self._whole)
            return
        by_row = by_row_of(self._runs)
        places, given = np.array(list(by_row)), list(by_row.values())
        taken = self.versions[places] != 0
        if not taken.all():
            given = [given[place] for place in np.flatnonzero(taken).tolist()]
            places = places[taken]
        if not len(places):
            return
        contexts.add_events(events.rows[places], self.versions[places], given)
        sampled = [place for place, context in enumerate(given) if is_sampled(context)]
        if sampled:
            own = [given[place] for place in sampled]
            contexts.traced.append(self._traced(fold, events, places[sampled], own))

    def _traced(
        self, fold: CarefulFold, events: Events, places: Array, given: Sequence[str]
    ) -> TracedRows:
        kind, inputs = self._kind, self._inputs
        codes = events.codes[places] if len(events.codes) > 1 else events.codes.repeat(len(places))
        return TracedRows(
            given,
            kind.name,
            *kind.table.names_of(events.rows[places]),
            self.versions[places],
            codes,
            kind.program.events,
            inputs.first + places,
            inputs.origin,
            fold.now,
        )


class Contexts:
    """Of the events that a kernel has folded since the last commit, and so of its outputs."""

    def __init__(self) -> None:
        self.traced: list[TracedRows] = []  # those of them that are sampled
        self._rows: list[Array] = []
        self._versions: list[Array] = []
        self._contexts: list[Sequence[str]] = []
        self._frames: list[tuple[int, int, str]] = []  # first order, and the one behind the last
        self._given: dict[tuple[int, int], str] = {}  # by row and version

    def __bool__(self) -> bool:
        return bool(self._rows or self._frames)

    def add_events(self, rows: Array, versions: Array, contexts: Sequence[str]) -> None:
        self._rows.append(rows)
        self._versions.append(versions)
        self._contexts.append(contexts)

    def add_frame(self, first: int, end: int, context: str) -> None:
        self._frames.append((first, end, context))

    def clear(self) -> None:
        self.traced = []
        self._rows.clear()
        self._versions.clear()
        self._contexts.clear()
        self._frames.clear()
        self._given.clear()

    def of(self, kind: CompiledKind, row: int, version: int, order: int) -> str:
        given = self._by_event.get((row, version))
        if given is not None:
            return onward(given, kind.name, kind.table.key_of(row), version)
        return next((c for first, end, c in self._frames if first <= order < end), NONE)

    def of_all(self, kind: CompiledKind, row: Array, version: Array, order: Array) -> list[str]:
        """Few events are traced: the others are passed over at once."""
        found = [NONE] * len(row)
        for first, end, context in self._frames:  # outputs are in order
            start, stop = np.searchsorted(order, (first, end)).tolist()
            found[start:stop] = [context] * (stop - start)
        wanted = np.isin(row, np.concatenate(self._rows)) if self._rows else np.zeros(0, bool)
        for place in np.flatnonzero(wanted).tolist():
            found[place] = self.of(kind, int(row[place]), int(version[place]), int(order[place]))
        return found

    @property
    def _by_event(self) -> dict[tuple[int, int], str]:
        if not self._given:
            columns = zip(self._rows, self._versions, self._contexts, strict=True)
            for rows, versions, contexts in columns:
                pairs = zip(rows.tolist(), versions.tolist(), strict=True)
                self._given.update(zip(pairs, contexts, strict=True))
        return self._given
