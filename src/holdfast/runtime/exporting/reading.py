"""Events and actions of one partition as rows, from a place on, in the order they were folded.

Timers and expiries stand in the journal, each before an inbox position, and are put between the
events of the inbox at that position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, cast

from holdfast.engine.port import View
from holdfast.errors import DamagedData, GiveUp
from holdfast.model.schema import Schema
from holdfast.runtime.exporting.payloads import json_text
from holdfast.runtime.exporting.target import Batch, Place
from holdfast.stepping.commit import Head, Issued, Journalled
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.issued import issued_in
from holdfast.stepping.lane import TAKEN_NAME

ROWS_PER_BATCH = 50_000
BYTES_PER_BATCH = 16 * 1024 * 1024
_EVENTS_AT_ONCE = 65_536
_RUNS_AT_ONCE = 256

Columns: TypeAlias = dict[str, list[object]]
R = TypeVar("R", Journalled, Issued)


class Contents(Protocol):
    """What becomes of payloads: JSON in an export (`Payloads`), objects in a view."""

    def schema(self, schema_id: int) -> Schema: ...
    def of_frame(self, frame: Frame) -> tuple[list[int], Sequence[object]]: ...
    def one(self, schema_id: int, row: bytes) -> tuple[str, object]: ...


class Gaps:
    """What happens where retention was faster than the export."""

    def __init__(self, skip: bool, note: Callable[[str], None]) -> None:
        self._skip = skip
        self._note = note

    def meet(self, what: str, place: Place, first: int, following: int) -> None:
        """Rows `first` up to `following` are gone."""
        rows = f"{what} {first:,} to {following - 1:,} of partition {place.partition}"
        if not self._skip:
            raise GiveUp(
                f"{rows} were not exported and are past retention: --skip-missing goes on "
                "without them; a longer retain_seconds in the engine's URL keeps more"
            )
        self._note(f"{rows} are past retention and left out")


class Slice(NamedTuple):
    """Rows `start` to `stop` of some columns, and the place behind them. No columns: the end."""

    columns: Columns
    start: int
    stop: int
    after: Place


def batches(table: str, slices: Iterator[Slice]) -> Iterator[tuple[Batch, Place]]:
    """Slices joined to batches, each with the place behind it; the last may have no rows."""
    columns: Columns = {}
    size = 0
    for piece in slices:
        for name, values in piece.columns.items():
            columns.setdefault(name, []).extend(values[piece.start : piece.stop])
        payloads = cast("list[bytes | None]", piece.columns.get("payload", []))
        size += sum(map(len, filter(None, payloads[piece.start : piece.stop])))
        batch = Batch(table, columns)
        if len(batch) >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH or not piece.columns:
            yield batch, piece.after
            columns, size = {}, 0


# ---------------------------------------------------------------- events


def events(
    view: View, place: Place, payloads: Contents, gaps: Gaps, head: Head | None = None
) -> Iterator[Slice]:
    """Up to a head, or to the present one."""
    head = head or view.head()
    fired = Journal(view, place, head.journal_next, payloads, gaps)
    after = place
    for stored in frames(view, place, head.position, gaps):
        columns = _inbox_columns(stored, place.partition, payloads)
        at = max(after.position, stored.first)
        stop = min(stored.first + stored.count, head.position)
        while at < stop:
            for piece in fired.before(at, after):
                after = piece.after
                yield piece
            until = min(stop, stop if fired.position is None else fired.position)
            after = after._replace(position=until, stamp=stored.stamp)
            yield Slice(columns, at - stored.first, until - stored.first, after)
            at = until
    for piece in fired.before(head.position, after):
        after = piece.after
        yield piece
    # Also past what retention has removed.
    yield Slice({}, 0, 0, after._replace(position=head.position, fired=head.journal_next))


def frames(view: View, place: Place, end: int, gaps: Gaps) -> Iterator[StoredFrame]:
    """The frames that hold the positions up to `end`, as far as retention has kept them."""
    position = place.position
    while position < end:
        found = view.frames(position, _EVENTS_AT_ONCE)
        first = found[0].first if found else min(view.inbox_first(), end)
        if first > position:
            gaps.meet("events", place, position, first)
            position = first
        elif not found:
            raise DamagedData(
                f"p{place.partition:03d}: {end} events were folded, but the inbox ends at "
                f"{position}: `holdfast doctor --salvage` lists what is intact"
            )
        for stored in found:
            yield stored
            position = stored.first + stored.count


def _inbox_columns(stored: StoredFrame, partition: int, payloads: Contents) -> Columns:
    frame = Frame.decode(stored.frame)
    count = frame.count
    nothing: list[object] = [None] * count
    origin = frame.constant("origin")
    types, texts = nothing, nothing
    if origin == "control":
        commands = cast(list[object], frame.values("command"))
        texts = [json_text(command) for command in commands]
    else:
        ids, encoded = payloads.of_frame(frame)
        names = {i: payloads.schema(i).name for i in set(ids)}
        types, texts = [names[i] for i in ids], list(encoded)
    return {
        "partition": [partition] * count,
        "position": list(range(stored.first, stored.first + count)),
        "fired": nothing,
        "stamp": [stored.stamp] * count,
        "event_time": frame.values("event_time") or nothing,
        "origin": [origin] * count,
        "agent": cast(list[object], frame.values("agent")),
        "key": cast(list[object], frame.values("key")),
        "type": types,
        "source": frame.values("source") or nothing,
        "seq": frame.values("seq") or nothing,
        "sender": _senders(frame) or nothing,
        "payload": texts,
    }


def _senders(frame: Frame) -> list[object] | None:
    """Of a message the agent, of a reply the call."""
    agents, keys = frame.values("from_agent"), frame.values("from_key")
    if agents is None or keys is None:
        return frame.values("call")
    return [f"{agent}/{key}" for agent, key in zip(agents, keys, strict=True)]


class Journal:
    """The timers and expiries behind a place, taken as far as they go before a position."""

    def __init__(self, view: View, place: Place, end: int, payloads: Contents, gaps: Gaps) -> None:
        self._partition = place.partition
        self._runs = runs(view.journal, "timers", place, place.fired, end, gaps)
        self._payloads = payloads
        self._first = self._at = place.fired
        self._positions: list[int] = []
        self._columns: Columns = {}
        self.position: int | None = None  # of the next one
        self._look()

    def before(self, position: int, after: Place) -> Iterator[Slice]:
        while self.position is not None and self.position <= position:
            start = stop = self._at - self._first
            while stop < len(self._positions) and self._positions[stop] <= position:
                stop += 1
            self._at = self._first + stop
            after = after._replace(fired=self._at)
            yield Slice(self._columns, start, stop, after)
            self._look()

    def _look(self) -> None:
        if self._at == self._first + len(self._positions):
            for run in islice(self._runs, 1):
                self._open(run)
        at = self._at - self._first
        self.position = self._positions[at] if at < len(self._positions) else None

    def _open(self, run: Journalled) -> None:
        frame = Frame.decode(run.frame)
        names = ("position", "agent", "key", "name", "due", "now", "event")
        positions, agents, keys, timers, due, now, events = [
            cast(list[object], frame.values(name)) for name in names
        ]
        rows = cast("list[tuple[int, bytes] | None]", events)
        urgent = {i: row for i, row in enumerate(rows) if row and timers[i] == TAKEN_NAME}
        shown = [
            (None, None) if row is None or i in urgent else self._payloads.one(*row)
            for i, row in enumerate(rows)
        ]
        self._first, self._at = run.first, max(self._at, run.first)
        self._positions = cast(list[int], positions)
        self._columns = {
            "partition": [self._partition] * run.count,
            "position": positions,
            "fired": list(range(run.first, run.first + run.count)),
            "stamp": now,
            "event_time": due,
            "origin": ["expiry" if row is None else "timer" for row in rows],
            "agent": agents,
            "key": keys,
            "type": [name for name, _ in shown],
            "source": [None] * run.count,
            "seq": [None] * run.count,
            "sender": [name or None for name in timers],
            "payload": [text for _, text in shown],
        }
        for i, (number, encoded) in urgent.items():
            self._show(i, StoredFrame(number, 1, cast(float, due[i]), encoded))

    def _show(self, at: int, urgent: StoredFrame) -> None:
        """An urgent event is journalled, and shown as what it was when it was sent."""
        own = _inbox_columns(urgent, self._partition, self._payloads)
        for name in ("event_time", "origin", "type", "source", "seq", "sender", "payload"):
            self._columns[name][at] = own[name][0]


def runs(
    read: Callable[[int, int], list[R]],
    what: str,
    place: Place,
    first: int,
    end: int,
    gaps: Gaps,
) -> Iterator[R]:
    """Runs of a journal or of actions from `first` on, as far as retention has kept them."""
    while first < end:
        found = read(first, _RUNS_AT_ONCE)
        kept = found[0].first if found else end
        if kept > first:
            gaps.meet(what, place, first, kept)
            first = kept
        for run in found:
            if run.first >= end:
                return
            yield run
            first = run.first + run.count


# ---------------------------------------------------------------- actions


def actions(
    view: View,
    place: Place,
    fleet: str,
    payloads: Contents,
    gaps: Gaps,
    head: Head | None = None,
) -> Iterator[Slice]:
    """Up to a head, or to the present one."""
    end = (head or view.head()).actions_next
    after = place
    for run in runs(view.actions, "actions", place, place.position, end, gaps):
        start = max(after.position, run.first) - run.first  # retention may have cut some
        stop = min(run.count, end - run.first)
        after = place._replace(position=run.first + stop, stamp=run.now)
        yield Slice(_action_columns(run, place, fleet, payloads), start, stop, after)
    yield Slice({}, 0, 0, after._replace(position=end))


def _action_columns(run: Issued, place: Place, fleet: str, payloads: Contents) -> Columns:
    frame = Frame.decode(run.frame)
    rows = list(issued_in(fleet, frame))
    now = [row.now for row in rows]
    ids, texts = payloads.of_frame(frame)
    schemas = {i: payloads.schema(i) for i in set(ids)}
    return {
        "id": [row.id for row in rows],
        "partition": [place.partition] * run.count,
        "number": list(range(run.first, run.first + run.count)),
        "agent": [row.agent for row in rows],
        "key": [row.key for row in rows],
        "type": [schemas[i].name for i in ids],
        "issued": cast("list[object]", now),
        "expires_at": [_expiry(schemas[i], at) for i, at in zip(ids, now, strict=True)],
        "priority": [str(schemas[i].options.get("priority", "normal")) for i in ids],
        "undoes": [row.undoes or None for row in rows],
        "why": [row.why or None for row in rows],
        "payload": list(texts),
    }


def _expiry(schema: Schema, now: float) -> float | None:
    seconds = schema.options.get("expires")
    return None if seconds is None else now + float(cast(float, seconds))
