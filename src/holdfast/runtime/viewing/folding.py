"""Folding: what is committed goes through a view's handlers, and rows and places into its file.

Per partition in order, events apart from actions; between partitions there is no order, but that a
retired partition is folded before those that took its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, cast

import msgspec

from holdfast.engine.port import Engine, View
from holdfast.errors import GiveUp, HoldfastError, TryAgain
from holdfast.model.schema import RowReader, Schema
from holdfast.model.view import About, AnyView, Row
from holdfast.runtime.exporting.exporter import another_history
from holdfast.runtime.exporting.reading import Columns, Gaps, Slice, actions, events
from holdfast.runtime.exporting.target import Kind, Place
from holdfast.runtime.viewing.rowfile import Progress, RowFile
from holdfast.stepping.frame import Frame
from holdfast.stepping.rows import packed_rows, schema_ids

INPUTS_PER_COMMIT = 20_000
ROWS_IN_MEMORY = 100_000
ROW_BYTES_MAX = 1024 * 1024
ROWS_PER_VIEW_MAX = 10_000_000

_encode = msgspec.msgpack.Encoder().encode


class Stopped(GiveUp):
    """The view does not go on by itself; the fleet does."""


class Objects:
    """Payloads as objects of the classes that a view takes; None for all others."""

    def __init__(self, load: Callable[[], dict[int, Schema]], view: type[AnyView]) -> None:
        self._load = load
        self._schemas: dict[int, Schema] = {}
        self._classes = view.__holdfast__.classes()
        self._readers: dict[int, RowReader[object] | None] = {}

    def schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:  # a program that started since may have brought it
            self._schemas = self._load()
        return self._schemas[schema_id]

    def of_frame(self, frame: Frame) -> tuple[list[int], Sequence[object]]:
        ids = schema_ids(frame)
        if frame.constant("refused", ""):
            return ids, [None] * len(ids)  # no agent has seen them
        counts = Counter(ids)
        if len(counts) == 1:
            return ids, list(self._rows(frame, ids[0], len(ids)))
        each = {i: iter(self._rows(frame, i, count)) for i, count in counts.items()}
        return ids, [next(each[i]) for i in ids]

    def one(self, schema_id: int, row: bytes) -> tuple[str, object]:
        reader = self._reader(schema_id)
        return self.schema(schema_id).name, None if reader is None else reader.row(row)

    def _rows(self, frame: Frame, schema_id: int, count: int) -> Iterator[object]:
        reader = self._reader(schema_id)
        if reader is None:
            return repeat(None, count)
        return iter(reader.rows(packed_rows(frame, schema_id, count)))

    def _reader(self, schema_id: int) -> RowReader[object] | None:
        if schema_id not in self._readers:
            schema = self.schema(schema_id)
            cls = self._classes.get((schema.kind, schema.name))
            self._readers[schema_id] = None if cls is None else RowReader(cls, schema)
        return self._readers[schema_id]


class _Cut(Gaps):
    """A view that has begun does not skip anything; one that begins, begins with what is kept."""

    def __init__(self, view: str, fresh: bool) -> None:
        self._view = view
        self._fresh = fresh
        self.missing = 0

    def meet(self, what: str, place: Place, first: int, following: int) -> None:
        if not self._fresh:
            raise Stopped(
                f"{what} {first:,} to {following - 1:,} of partition {place.partition} went past "
                f"retention before view {self._view} had them: `holdfast view rebuild "
                f"{self._view}` makes it anew of what is kept; a longer retain_seconds keeps more"
            )
        self.missing += following - first


class Pass(NamedTuple):
    folded: int
    finished: bool  # nothing is left of what was there when it began


class Folding:
    """One file of a view, brought up to date pass by pass."""

    def __init__(self, engine: Engine, view: type[AnyView], file: RowFile) -> None:
        self._engine = engine
        self._name = view.__holdfast__.name
        self._kinds = cast("tuple[Kind, ...]", view.__holdfast__.kinds)
        self.file = file
        self._objects = Objects(engine.catalog.schemas, view)
        self._reader = RowReader(view.__holdfast__.row, file.facts.schema)
        self._view = view(self._row)
        self._routes = view.__holdfast__.routes
        self._images: dict[str, bytes | None] = {}  # rows in memory as they are in the file
        with file.moment():
            self._places = file.places()
            self._progress = file.progress()
        self._ended: set[int] = set()  # retired partitions of which nothing is left
        self._check()

    def _check(self) -> None:
        for (kind, number), place in self._places.items():
            why = another_history(self._engine, cast(Kind, kind), number, place)
            if why:
                raise Stopped(
                    f"view {self._name} has {kind} of another history of fleet "
                    f"{self._engine.catalog.fleet!r}: {why}: `holdfast view rebuild {self._name}` "
                    "makes it anew"
                )

    def _row(self, key: str) -> Row | None:
        with self.file.moment():
            found = self.file.row(key)
        self._images[key] = found
        return None if found is None else self._reader.row(found)

    def run(self, inputs_max: int) -> Pass:
        """What is committed now, or a part of it past so many inputs."""
        try:
            return self._run(inputs_max)
        except BaseException:
            self._forget()  # what was folded and not committed comes again
            raise

    def _run(self, inputs_max: int) -> Pass:
        folded = 0
        layout = self._engine.catalog.layout
        for number in range(layout.numbers.stop):
            if number in self._ended:
                continue
            for kind in self._kinds:
                for count in self._partition(number, kind):
                    folded += count
                    if folded >= inputs_max:
                        return Pass(folded, False)
            if number not in layout.numbers:
                self._ended.add(number)
        return Pass(folded, True)

    def _forget(self) -> None:
        self._view.forget()
        self._images.clear()

    def _partition(self, number: int, kind: Kind) -> Iterator[int]:
        view = self._engine.view(number)
        before = self._places.get((kind, number))
        if before is not None and _reached(view, kind, before):
            return
        start = before or Place(number, view.incarnation())
        gaps = _Cut(self._name, before is None)
        waiting, place = 0, start
        for piece in self._slices(view, kind, start, gaps):
            waiting += self._fold(piece, kind)
            place = piece.after
            if waiting >= INPUTS_PER_COMMIT:
                yield self._commit(kind, place, waiting, gaps)
                waiting = 0
        if place != before:
            yield self._commit(kind, place, waiting, gaps)

    def _slices(self, view: View, kind: Kind, start: Place, gaps: Gaps) -> Iterator[Slice]:
        if kind == "events":
            return events(view, start, self._objects, gaps)
        return actions(view, start, self._engine.catalog.fleet, self._objects, gaps)

    def _fold(self, piece: Slice, kind: Kind) -> int:
        make = _action_about if kind == "actions" else _event_about
        payloads = piece.columns.get("payload", [])
        for index in range(piece.start, piece.stop):
            found = payloads[index]
            handler = self._routes.get(type(found))
            if handler is not None:
                about = make(piece.columns, index)
                try:
                    handler(self._view, found, about)
                except Exception as error:
                    raise self._failed(found, about, error) from error
        return piece.stop - piece.start

    def _failed(self, found: object, about: About, error: Exception) -> Stopped:
        return Stopped(
            f"view {self._name} failed at {type(found).__name__} of {about.agent}/{about.key} "
            f"(partition {about.partition}, position {about.position}): "
            f"{type(error).__name__}: {error}: mend its code and start it again"
        )

    def _commit(self, kind: Kind, place: Place, folded: int, gaps: _Cut) -> int:
        """1 encode what changed, 2 check bounds, 3 rows and place together."""
        rows: dict[str, bytes | None] = {}
        more = 0
        for key, row in self._view.take().items():
            encoded = None if row is None else _encode(row)
            before = self._images.get(key)
            if encoded == before:
                continue
            if encoded is not None and len(encoded) > ROW_BYTES_MAX:
                raise self._too_large(f"row {key!r} has {len(encoded):,} bytes", ROW_BYTES_MAX)
            more += (encoded is not None) - (before is not None)
            rows[key] = encoded
        made = self._progress
        made = Progress(made.rows + more, made.folded + folded, made.missing + gaps.missing)
        if made.rows > ROWS_PER_VIEW_MAX:
            raise self._too_large(f"it has {made.rows:,} rows", ROWS_PER_VIEW_MAX)
        self.file.commit(rows, {kind: place}, made)
        gaps.missing = 0
        self._progress = made
        self._images.update(rows)
        self._places[kind, place.partition] = place
        if self._view.held() > ROWS_IN_MEMORY:
            self._forget()
        return folded

    def _too_large(self, what: str, bound: int) -> Stopped:
        return Stopped(f"view {self._name}: {what}, {bound:,} is the bound: keep less in it")


def _reached(view: View, kind: Kind, place: Place) -> bool:
    head = view.head()
    if kind == "actions":
        return place.position >= head.actions_next
    return place.position >= head.position and place.fired >= head.journal_next


def _event_about(columns: Mapping[str, list[object]], index: int) -> About:
    return About(
        cast(str, columns["agent"][index]),
        cast(str, columns["key"][index]),
        cast(float, columns["stamp"][index]),
        cast(int, columns["partition"][index]),
        cast(int, columns["position"][index]),
        cast(str, columns["origin"][index]),
        cast("float | None", columns["event_time"][index]),
        cast("str | None", columns["sender"][index]),
    )


def _action_about(columns: Columns, index: int) -> About:
    return About(
        cast(str, columns["agent"][index]),
        cast(str, columns["key"][index]),
        cast(float, columns["issued"][index]),
        cast(int, columns["partition"][index]),
        cast(int, columns["number"][index]),
        "action",
        id=cast(str, columns["id"][index]),
    )


def stopped_by(error: HoldfastError, view: str) -> Stopped | None:
    """What does not get better by trying again stops the view; the rest is None."""
    if isinstance(error, TryAgain):
        return None
    return error if isinstance(error, Stopped) else Stopped(f"view {view}: {error}")
