"""`Live`: the handle through which a program sends to a fleet and reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, NoReturn, TypeVar, cast

from holdfast.engine.port import Engine, Parcel
from holdfast.errors import AskFailed, NotYet, TimedOut, UsageError
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import check_key
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.reading import (
    ACTIONS_PER_PAGE,
    ActionPage,
    DeadLetter,
    HistoryEntry,
    Reading,
)
from holdfast.runtime.schemas import agree
from holdfast.runtime.sending import Receipt, Router, Row, Sending
from holdfast.stepping.inputs import control_frame

A = TypeVar("A", bound=Agent)
R = TypeVar("R")
SEND_SECONDS = 10.0
_POLL_SECONDS = (0.0005, 0.001, 0.001, 0.002, 0.005, 0.01, 0.02)


class Progress(NamedTuple):
    """How far a partition is: events in its inbox, events folded."""

    inbox: int
    folded: int

    @property
    def lag(self) -> int:
        return self.inbox - self.folded


class Live:
    """Made by `fleet.open(url)` or `fleet.connect(url)`; safe to share between threads."""

    def __init__(self, fleet: FleetModel, engine: Engine, embedded: Embedded | None = None) -> None:
        self._fleet = fleet
        self._engine = engine
        self._embedded = embedded
        codebook, _ = agree(fleet, engine.catalog)
        self._codebook = codebook
        self._router = Router(engine)
        self._sending = Sending(fleet, codebook, self._router)
        self._reading = Reading(engine, self._instance, {})
        self._closed = False
        self._closing = threading.Lock()

    def _instance(self, schema_id: int, row: bytes) -> object:
        if not self._codebook.knows(schema_id):
            self._codebook.learn(self._engine.catalog.schemas())
        return self._codebook.reader_of(schema_id).row(row)

    # Sending.

    def send(
        self,
        agent: type[Agent],
        key: str,
        event: Event,
        *,
        source: str | None = None,
        seq: int | None = None,
        previous: int | None = None,
        event_time: float | None = None,
        timeout: float = SEND_SECONDS,
    ) -> Receipt:
        """Returns when the event is durable. The same (source, seq) again is a no-op.

        `previous` makes the source ordered: it names the number sent before for this key, and a
        gap is refused.
        """
        return self._sending.send(
            [(agent, key, event)], source, seq, timeout, event_time=event_time, previous=previous
        )

    def send_many(
        self,
        rows: Sequence[Row],
        *,
        source: str | None = None,
        first_seq: int | None = None,
        timeout: float = SEND_SECONDS,
    ) -> Receipt:
        """Many events, numbered on from `first_seq`; atomic per partition; safe to repeat."""
        return self._sending.send(rows, source, first_seq, timeout)

    def send_columns(self, *arguments: object, **columns: object) -> NoReturn:
        raise NotYet("send_columns comes with a later release: use send_many")

    def keys(self, *arguments: object) -> NoReturn:
        raise NotYet("prepared keys come with a later release: use send_many")

    def ask(self, agent: type[Agent], key: str, event: Event, *, timeout: float = 5.0) -> Event:
        """Send, and wait for what the handler gives to `ctx.reply`."""
        deadline = time.monotonic() + timeout
        receipt = self._sending.send([(agent, key, event)], None, None, timeout, asks=True)
        partition, following = receipt.positions[0]
        view = self._engine.view(partition)
        answer = self._poll(lambda: view.answer(following - 1), deadline)
        if answer is None:
            raise TimedOut(f"{agent.__name__}/{key} did not answer within {timeout:g} s")
        if answer.status != "reply":
            raise AskFailed(f"{agent.__name__}/{key}: {answer.text}")
        return cast(Event, self._instance(answer.schema, answer.row))

    # Reading.

    def state(
        self,
        agent: type[A],
        key: str,
        *,
        after: Receipt | None = None,
        timeout: float = SEND_SECONDS,
        at: object = None,
    ) -> A | None:
        """The committed state, or None. With `after`, one that includes those events."""
        if at is not None:
            raise NotYet("state(at=…) comes with a later release: see live.history")
        check_key(key)
        if after is not None:
            self.wait_for(after, timeout=timeout)
        record = self._reading.record(agent.__name__, key)
        return None if record is None else cast(A, self._instance(record.schema, record.state))

    def states(self, agent: type[A]) -> Iterator[tuple[str, A]]:
        """Every agent of a class with its key, partition by partition."""
        for view in self._reading.views():
            for record in view.records(agent.__name__):
                yield record.key, cast(A, self._instance(record.schema, record.state))

    def history(self, agent: type[Agent], key: str) -> list[HistoryEntry]:
        """The inputs of one agent that retention has kept, in the order it took them."""
        check_key(key)
        return list(self._reading.history(agent.__name__, key))

    def actions(self, *, after: str | None = None, most: int = ACTIONS_PER_PAGE) -> ActionPage:
        """Actions issued after a cursor; `page.cursor` continues behind the last one."""
        return self._reading.actions(after, most)

    def dead_letters(self) -> list[DeadLetter]:
        return self._reading.dead_letters()

    def positions(self) -> dict[int, Progress]:
        found = {}
        for number, view in enumerate(self._reading.views()):
            folded = view.head().position
            found[number] = Progress(max(folded, view.inbox_next()), folded)
        return found

    # Operating.

    def redrive(self, letter_id: str) -> None:
        """Give a dead letter's event to its agent again. A letter is redriven once."""
        number, _, local = letter_id.partition(".")
        found = [x for x in self.dead_letters() if x.id == letter_id]
        if not found:
            raise UsageError(f"no dead letter {letter_id!r}: see live.dead_letters()")
        self._control(int(number), found[0].agent, found[0].key, ["redrive", int(local)])

    def pause(self, agent: type[Agent], key: str, reason: str = "by an operator") -> None:
        """Hold this agent's events until `resume`; nothing is lost."""
        self._control(self._router.partition_of(key), agent.__name__, key, ["pause", reason])

    def resume(self, agent: type[Agent], key: str) -> None:
        self._control(self._router.partition_of(key), agent.__name__, key, ["resume"])

    def _control(self, partition: int, agent: str, key: str, command: list[object]) -> None:
        frame = control_frame(agent, key, command)
        parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
        self._router.append(partition, parcel, SEND_SECONDS)

    # Waiting.

    def wait_for(self, receipt: Receipt, *, timeout: float = SEND_SECONDS) -> None:
        """Until everything the receipt stands for is folded and committed."""
        deadline = time.monotonic() + timeout
        for partition, following in receipt.positions:
            view = self._engine.view(partition)
            if self._poll(lambda v=view, f=following: v.head().position >= f, deadline) is None:  # type: ignore[misc]
                raise TimedOut(
                    f"partition {partition} has folded up to {view.head().position}, not "
                    f"{following}, after {timeout:g} s{self._reasons()}"
                )

    def settle(self, *, timeout: float = 60.0) -> None:
        """Until nothing waits anywhere: inboxes and relays, seen twice. Future timers may."""
        deadline = time.monotonic() + timeout
        quiet: object = None
        while True:
            seen = self._quiet_at()
            if seen is not None and seen == quiet:
                return
            quiet = seen
            if time.monotonic() > deadline:
                lag = {n: p.lag for n, p in self.positions().items() if p.lag}
                raise TimedOut(f"not settled after {timeout:g} s, lag {lag}{self._reasons()}")
            time.sleep(0.002)

    def _quiet_at(self) -> object:
        """The positions at which nothing waits, or None."""
        views = self._reading.views()
        heads = [view.head() for view in views]
        marks = [view.marks() for view in views]
        if any(v.inbox_next() != h.position for v, h in zip(views, heads, strict=True)):
            return None
        for view in views:
            source = view.incarnation()
            for destination, following in view.sent_next().items():
                if marks[destination].get(source, 0) != following - 1:
                    return None
        return heads

    def _poll(self, look: Callable[[], R | None], deadline: float) -> R | None:
        attempt = 0
        while True:
            found = look()
            if found:
                return found
            if self._embedded is not None:
                self._embedded.check()
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS[min(attempt, len(_POLL_SECONDS) - 1)])
            attempt += 1

    def _reasons(self) -> str:
        if self._embedded is None:
            return ": does a worker run? (`holdfast doctor` tells)"
        alarms = "; ".join(f"partition {n}: {text}" for n, text in self._embedded.alarms().items())
        return f": {alarms}" if alarms else ""

    # Closing.

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if self._embedded is not None:
                self._embedded.stop()
            self._engine.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
