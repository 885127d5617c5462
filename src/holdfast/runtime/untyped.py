"""`UntypedLive`: a handle without the user's classes, by the schemas stored with the data.

Agents and events are named by strings, their values are plain dicts as JSON has them. The command
line uses it, so that sending and reading need no `fleet.py`. With classes there is `live`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from holdfast.engine.port import Engine, Parcel
from holdfast.engine.urls import DEFAULT_URL, open_engine
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import check_key
from holdfast.model.schema import UntypedReader
from holdfast.runtime.consigning import Numbered, Outcome, consign, consign_together
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.handle import Handle
from holdfast.runtime.naming import Names
from holdfast.runtime.reading import HistoryEntry, PendingTimer, Plain, Untyped
from holdfast.runtime.routing import Router
from holdfast.runtime.schemas import codebook_of
from holdfast.runtime.sending import (
    Courier,
    Receipt,
    check_numbers,
    make_parcel,
    numbered,
)
from holdfast.runtime.settling import check_by, check_why
from holdfast.runtime.tracing.contexts import Contexts
from holdfast.runtime.waiting import SEND_SECONDS
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Record
from holdfast.stepping.inputs import external_frame
from holdfast.stepping.rows import raw_payload


class Address(NamedTuple):
    """One event for one agent, all by name."""

    agent: str
    key: str
    event: str
    values: Mapping[str, object]
    event_time: float | None = None
    trace: str = ""  # its context


class AgentState(NamedTuple):
    agent: str
    key: str
    version: int
    updated: float
    values: dict[str, object]


class UntypedSending(Courier[Address]):
    def __init__(self, names: Names, router: Router) -> None:
        super().__init__(router)
        self._names = names

    def _parcels(
        self,
        rows: Sequence[Address],
        source: str,
        first: int,
        event_time: float | None,
        previous: int | None,
        asks: bool,
        contexts: Contexts,
    ) -> list[tuple[int, Parcel]]:
        for agent in dict.fromkeys(row.agent for row in rows):
            self._names.check_agent(agent)
        packed = [self._names.pack(row.event, row.values) for row in rows]
        times = [event_time if row.event_time is None else row.event_time for row in rows]
        check_event_times(times)
        parcels = []
        for share in self._router.split([row.key for row in rows]):
            own, events = share.of(rows), share.of(packed)
            seqs = numbered(first, len(rows), share)
            frame = external_frame(
                [row.agent for row in own],
                [row.key for row in own],
                raw_payload([schema for schema, _ in events], [row for _, row in events]),
                source=source,
                seqs=seqs,
                event_times=None if times[0] is None else cast(list[float], share.of(times)),
                previous=None if previous is None else [previous] * len(own),
                asks=asks,
                urgent=self._router.urgent([schema for schema, _ in events]),
            )
            parcels.append((share.partition, make_parcel(frame, source, seqs, contexts)))
        return parcels


def check_event_times(times: Sequence[float | None]) -> None:
    if None in times and any(time is not None for time in times):
        raise UsageError("some of these events have an event_time: give it for all or none")
    for time in times:
        check_numbers(None, None, time)


class UntypedLive(Handle):
    """Made by `connect_untyped(url)`; the same as `Live`, with names instead of classes."""

    def __init__(
        self, engine: Engine, embedded: Embedded | None = None, views: str | None = None
    ) -> None:
        super().__init__(engine, Untyped(engine.catalog.schemas), embedded, views=views)
        self.names = Names(engine.catalog.fleet, self._router.stored)
        self._sending = UntypedSending(self.names, self._router)

    def send(
        self,
        rows: Sequence[Address],
        *,
        source: str | None = None,
        first_seq: int | None = None,
        event_time: float | None = None,
        timeout: float = SEND_SECONDS,
    ) -> Receipt:
        """Returns when all are durable; atomic per partition; numbered on from `first_seq`."""
        trace = [row.trace for row in rows]
        return self._sending.send(
            rows, source, first_seq, timeout, event_time=event_time, trace=trace
        )

    def consign(self, rows: Sequence[Numbered], *, timeout: float = SEND_SECONDS) -> Outcome:
        """Events that their sources have numbered, of many of them at once."""
        return consign(self._router, rows, timeout)

    def consign_together(
        self, consignments: Sequence[Sequence[Numbered]], *, timeout: float = SEND_SECONDS
    ) -> list[Outcome | HoldfastError]:
        """Those of several senders at once; what is wrong with one is no matter of the others."""
        return consign_together(self._router, consignments, timeout)

    def ask(
        self,
        agent: str,
        key: str,
        event: str,
        values: Mapping[str, object],
        *,
        timeout: float = 5.0,
        trace: str = "",
    ) -> Plain:
        """Send, and wait for what the handler gives to `ctx.reply`."""
        deadline = self._world.monotonic() + timeout
        rows = [Address(agent, key, event, values)]
        receipt = self._sending.send(rows, None, None, timeout, asks=True, trace=trace)
        answer = self._answer_to(receipt, f"{agent}/{key}", timeout, deadline)
        return self.plain(answer.schema, answer.row)

    def state(
        self,
        agent: str,
        key: str,
        *,
        after: Receipt | None = None,
        timeout: float = SEND_SECONDS,
        at: float | None = None,
        fleet: Callable[[], FleetModel] | None = None,
        snapshots: str | None = None,
    ) -> AgentState | None:
        """The committed state, or None. With `after`, one that includes those events.

        With `at`, as it was at that time; unless the agent has not changed since, `fleet` has to
        give the code that folds its history again; `snapshots` is where they are, if not beside
        the data.
        """
        self.names.check_agent(agent)
        check_key(key)
        if after is not None:
            self.wait_for(after, timeout=timeout)
        if at is None:
            record = self._reading.record(agent, key)
            return None if record is None else self._state(record)
        codebooks: list[Codebook] = []

        def code() -> tuple[FleetModel, Codebook]:
            if fleet is None:
                raise UsageError(f"{agent}/{key} has changed since: give the fleet's code")
            loaded = fleet()
            codebooks.append(codebook_of(loaded, self._engine.catalog.schemas()))
            return loaded, codebooks[0]

        from holdfast.runtime.replaying.moments import state_at  # most commands need none of it

        record = state_at(code, self._engine, agent, key, at, snapshots)
        if record is None or not codebooks:
            return None if record is None else self._state(record)
        values = UntypedReader(codebooks[0].schema_of(record.schema)).row(record.state)
        return AgentState(record.agent, record.key, record.version, record.updated, values)

    def states(self, agent: str, *, beginning: str = "") -> Iterator[AgentState]:
        """Every agent of a class from the key `beginning` on, in order of keys."""
        self.names.check_agent(agent)
        parts = [view.records(agent) for view in self._reading.views().values()]
        for record in heapq.merge(*parts, key=lambda record: record.key):
            if record.key >= beginning:
                yield self._state(record)

    def plain(self, schema_id: int, row: bytes) -> Plain:
        """A stored row as values."""
        found = self._instance(schema_id, row)
        assert isinstance(found, Plain)
        return found

    def _state(self, record: Record) -> AgentState:
        plain = self.plain(record.schema, record.state)
        return AgentState(record.agent, record.key, record.version, record.updated, plain.values)

    def history(self, agent: str, key: str) -> Iterator[HistoryEntry]:
        """The inputs of one agent that retention has kept, in the order it took them."""
        self.names.check_agent(agent)
        check_key(key)
        return self._reading.history(agent, key)

    def timers(self, agent: str, key: str) -> list[PendingTimer] | None:
        """Those that are set, the next one first; None if there is no such agent."""
        self.names.check_agent(agent)
        check_key(key)
        return self._reading.timers(agent, key)

    def pause(self, agent: str, key: str, reason: str = "by an operator") -> Receipt:
        """Hold this agent's events until `resume`; nothing is lost."""
        self.names.check_agent(agent)
        return self._pause(agent, key, reason)

    def resume(self, agent: str, key: str) -> Receipt:
        self.names.check_agent(agent)
        return self._resume(agent, key)

    def override(
        self,
        agent: str,
        key: str,
        action: str,
        values: Mapping[str, object],
        *,
        why: str,
        by: str | None = None,
        hold: bool = False,
        timeout: float = SEND_SECONDS,
    ) -> str:
        """Have an action issued for this agent now, because an operator says so. Returns its id."""
        check_why(why, "the agent is overridden")
        self.names.check_agent(agent)
        packed = self.names.pack(action, values, "action")
        return self._override(agent, key, *packed, why, check_by(by), hold, timeout)

    def wait_for(self, receipt: Receipt, *, timeout: float = SEND_SECONDS) -> None:
        """Until everything the receipt stands for is folded; it may come from anywhere."""
        known = self._engine.catalog.layout.numbers.stop  # retired ones were folded to their end
        if any(number >= known for number, _ in receipt.positions):
            raise UsageError(f"receipt {receipt_text(receipt)} is of another fleet's data")
        super().wait_for(receipt, timeout=timeout)


def connect_untyped(url: str = DEFAULT_URL, views: str | None = None) -> UntypedLive:
    """Send to and read whatever fleet the directory holds; `views` as of `fleet.connect`."""
    engine = open_engine(url, None)
    try:
        return UntypedLive(engine, views=views)
    except BaseException:
        engine.close()
        raise


# Receipts as text, for those who pass them from one command to the next: "0:17,1:4".


def receipt_text(receipt: Receipt) -> str:
    return ",".join(f"{partition}:{following}" for partition, following in receipt.positions)


def read_receipt(text: str) -> Receipt:
    positions = []
    for part in text.split(","):
        partition, colon, following = part.strip().partition(":")
        numbers = all(n.isascii() and n.isdecimal() and len(n) < 20 for n in (partition, following))
        if not (colon and numbers):
            raise UsageError(f"{text!r} is no receipt: give what `holdfast send` printed")
        positions.append((int(partition), int(following)))
    return Receipt(tuple(positions))
