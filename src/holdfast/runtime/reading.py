"""Reading: committed states, actions, history and dead letters, as objects of the user's classes
or, without them, as plain values by the schemas stored with the data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec

from holdfast.engine.port import VIEW_SECONDS, Engine, View
from holdfast.errors import UsageError
from holdfast.model.schema import Schema, UntypedReader
from holdfast.runtime.agentlog import Rows, inputs_of
from holdfast.stepping.cell import unpack_extras
from holdfast.stepping.commit import Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.issued import IssuedRow, issued_in
from holdfast.stepping.rows import read_raw_payload

ACTIONS_PER_PAGE = 10_000
LOOKED_AT_MAX = 100_000  # actions that one page of pending ones passes over
_FRAMES_AT_ONCE = 256

Instance = Callable[[int, bytes], object]


class Plain(NamedTuple):
    """An event, action or state without its class: its name and its values."""

    name: str
    values: dict[str, object]


class Untyped:
    """Rows as `Plain`, by the stored schemas alone."""

    def __init__(self, schemas: Callable[[], dict[int, Schema]]) -> None:
        self._load = schemas
        self._readers: dict[int, tuple[str, UntypedReader]] = {}

    def __call__(self, schema_id: int, row: bytes) -> Plain:
        if schema_id not in self._readers:
            self._readers = {i: (s.name, UntypedReader(s)) for i, s in self._load().items()}
        name, reader = self._readers[schema_id]
        return Plain(name, reader.row(row))


@dataclass(frozen=True, slots=True)
class IssuedAction:
    """An action as it left the fleet. Store the id, and doing it twice is noticed."""

    agent: str
    key: str
    action: object
    id: str
    now: float
    expires_at: float | None
    priority: str
    undoes: str | None = None  # the id of the action that it takes back, and why
    why: str | None = None
    by: str | None = None  # the operator who had it issued
    status: str | None = None  # where it was asked for: issued, delivered, acknowledged, …
    trace: str = ""  # the `traceparent` of whoever carries it out


class ActionPage(list[IssuedAction]):
    """Actions, ordered within a partition, and the cursor after the last of them."""

    cursor: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One input an agent took. `origin` is external, message, reply, timer, expiry or
    control."""

    position: int
    now: float
    origin: str
    event: object
    source: str | None
    seq: int | None
    sender: str | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    agent: str
    key: str
    event: object
    error: str
    trace: str
    now: float
    redriven: bool


@dataclass(frozen=True, slots=True)
class PausedAgent:
    agent: str
    key: str
    reason: str
    held: int


@dataclass(frozen=True, slots=True)
class PendingTimer:
    """`every` is the period of a timer that fires again, or None."""

    name: str
    due: float
    every: float | None
    event: object


# Which rows of a frame of actions are wanted, each with how it stands, where that was looked up.
Pick = Callable[[list[IssuedRow]], list[tuple[int, str | None]]]


def all_of(rows: list[IssuedRow]) -> list[tuple[int, str | None]]:
    return [(i, None) for i in range(len(rows))]


class Reading:
    def __init__(self, engine: Engine, instance: Instance) -> None:
        self._engine = engine
        self._instance = instance
        self._fleet = engine.catalog.fleet
        self._schemas: dict[int, Schema] = {}

    def views(self, wait_seconds: float = VIEW_SECONDS) -> dict[int, View]:
        """The partitions that live now, by number."""
        numbers = self._engine.catalog.layout.numbers
        return {n: self._engine.view(n, wait_seconds) for n in numbers}

    def record(self, agent: str, key: str) -> Record | None:
        number = self._engine.catalog.layout.partition_of(key)
        return self._engine.view(number).record(agent, key)

    # Actions.

    def actions(self, after: str | None, most: int, pick: Pick = all_of) -> ActionPage:
        """From retired partitions too, the oldest first: a cursor stays good over a rescaling."""
        starts = _read_cursor(after, self._ends())
        page = ActionPage()
        looked = 0
        for number in range(len(starts)):
            view = self._engine.view(number)
            while len(page) < most and looked < LOOKED_AT_MAX:
                batch = view.actions(starts[number], _FRAMES_AT_ONCE)
                if not batch:
                    break
                for issued in batch:
                    start = max(starts[number], issued.first)  # retention may have cut some
                    rows = list(issued_in(self._fleet, Frame.decode(issued.frame)))
                    rows = rows[start - issued.first :]
                    picked = pick(rows)
                    taken = picked[: most - len(page)]
                    page += [self.issued(rows[i], status) for i, status in taken]
                    passed = len(rows) if len(taken) == len(picked) else taken[-1][0] + 1
                    starts[number] = start + passed
                    looked += 0 if pick is all_of else passed
                    if len(page) >= most or looked >= LOOKED_AT_MAX:
                        break
        page.cursor = _write_cursor(starts)
        return page

    def actions_end(self) -> str:
        """The cursor behind every action that was issued."""
        numbers = range(self._ends()[-1])
        return _write_cursor([self._engine.view(n).head().actions_next for n in numbers])

    def _ends(self) -> list[int]:
        """How many partitions there were, retired ones included, before each rescaling and now."""
        layout = self._engine.catalog.layout
        starts = [n for n, slots in self._engine.catalog.retired.items() if slots.start == 0]
        return sorted({*starts, layout.first, layout.numbers.stop} - {0})

    def issued(self, one: IssuedRow, status: str | None = None) -> IssuedAction:
        expires, priority = self._options(one.schema)
        return IssuedAction(
            agent=one.agent,
            key=one.key,
            action=self._instance(one.schema, one.row),
            id=one.id,
            now=one.now,
            expires_at=None if expires is None else one.now + expires,
            priority=priority,
            undoes=one.undoes or None,
            why=one.why or None,
            by=one.by or None,
            status=status,
            trace=one.trace,
        )

    def expires_at(self, one: IssuedRow) -> float | None:
        expires, _ = self._options(one.schema)
        return None if expires is None else one.now + expires

    @staticmethod
    def name_of(issued: IssuedAction) -> str:
        """The name of its class."""
        action = issued.action
        return action.name if isinstance(action, Plain) else type(action).__name__

    def _options(self, schema_id: int) -> tuple[float | None, str]:
        found = self._schema(schema_id).options
        expires = found.get("expires")
        return (
            None if expires is None else float(cast(float, expires)),
            str(found.get("priority", "normal")),
        )

    def _schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:
            self._schemas = self._engine.catalog.schemas()
        return self._schemas[schema_id]

    # History.

    def history(self, agent: str, key: str) -> Iterator[HistoryEntry]:
        """Every input of one agent that retention has kept, in the order it was folded.

        It begins in the retired partitions in which the agent lived before.
        """
        for taken in inputs_of(self._engine, agent, key):
            if isinstance(taken, Rows):
                yield from self._entries(taken)
            else:
                yield HistoryEntry(
                    position=taken.position,
                    now=taken.now,
                    origin="expiry" if taken.event is None else "timer",
                    event=None if taken.event is None else self._instance(*taken.event),
                    source=None,
                    seq=None,
                    sender=taken.name or None,
                )

    def _entries(self, taken: Rows) -> Iterator[HistoryEntry]:
        stored, frame = taken.stored, Frame.decode(taken.stored.frame)
        origin = cast(str, frame.constant("origin"))
        rows = read_raw_payload(frame) if origin != "control" else []
        seqs = frame.values("seq")
        senders = cast("list[str] | None", frame.values("call"))
        from_agent, from_key = frame.values("from_agent"), frame.values("from_key")
        if from_agent is not None and from_key is not None:
            senders = [f"{name}/{key}" for name, key in zip(from_agent, from_key, strict=True)]
        for i in taken.rows:
            if origin == "control":
                command = cast(list[list[object]], frame.values("command"))[i]
                event: object = command_text(command)
            else:
                event = self._instance(*rows[i])
            yield HistoryEntry(
                position=stored.first + i if taken.before is None else taken.before,
                now=stored.stamp,
                origin=origin,
                event=event,
                source=cast("str | None", frame.constant("source")),
                seq=None if seqs is None else cast(int, seqs[i]),
                sender=senders[i] if senders is not None else None,
            )

    # Dead letters and paused agents.

    def dead_letters(self) -> list[DeadLetter]:
        found = []
        for number, view in self.views().items():
            for letter, redriven in view.letters():
                found.append(self._dead_letter(number, letter, redriven))
        return found

    def paused(self) -> list[PausedAgent]:
        found = []
        for view in self.views().values():
            for record in view.records():
                if record.extras:
                    extras = unpack_extras(record.extras)
                    if extras.paused:
                        held = len(extras.held)
                        found.append(PausedAgent(record.agent, record.key, extras.paused, held))
        return found

    def timers(self, agent: str, key: str) -> list[PendingTimer] | None:
        """Those that are set, the next one first; None if there is no such agent."""
        record = self.record(agent, key)
        if record is None:
            return None
        rows = unpack_extras(record.extras).timers if record.extras else []
        return [
            PendingTimer(name, due, period or None, self._instance(schema, bytes(row)))
            for name, due, period, schema, row in sorted(rows, key=lambda row: (row[1], row[0]))
        ]

    def _dead_letter(self, number: int, letter: Letter, redriven: bool) -> DeadLetter:
        return DeadLetter(
            id=f"{number}.{letter.id}",
            agent=letter.agent,
            key=letter.key,
            event=self._instance(letter.schema, letter.row),
            error=letter.error,
            trace=letter.trace,
            now=letter.now,
            redriven=redriven,
        )


def command_text(command: list[object]) -> str:
    """Its words: packed rows among them are left out."""
    words = [str(word) for word in command if isinstance(word, str) and word]
    return " ".join(words) if len(words) > 1 else " ".join(map(str, command[:3]))


# ---------------------------------------------------------------- cursors


def _write_cursor(starts: list[int]) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(starts)).decode()


def _read_cursor(cursor: str | None, ends: list[int]) -> list[int]:
    """Where to go on in each partition; in those that are newer than the cursor, at the start."""
    if not cursor:
        return [0] * ends[-1]
    try:
        starts = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor), type=list[int])
    except (ValueError, msgspec.MsgspecError):
        raise UsageError(
            f"cursor {cursor!r} is none of ours: use the one a page gave you"
        ) from None
    if len(starts) not in ends:
        raise UsageError(f"cursor {cursor!r} belongs to a fleet with {len(starts)} partitions")
    return starts + [0] * (ends[-1] - len(starts))
