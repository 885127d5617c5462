"""From messages to durable appends; blocking, on threads of the gateway.

A stream's messages that wait are appended together and acknowledged together. What can never be
stored is told in the acknowledgement and the stream goes on. What may be stored later ends it, so
that nothing behind it overtakes it; the client sends again what was not acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError, TryAgain, UsageError
from holdfast.gateway.carrying import Carried
from holdfast.gateway.envelopes import Sent
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.door import Entry
from holdfast.gateway.grpc.refusing import as_problem, code_of, detail_of
from holdfast.gateway.grpc.values import read_values
from holdfast.gateway.problems import Problem
from holdfast.gateway.sending import Taker, check_sources
from holdfast.runtime.consigning import Numbered
from holdfast.runtime.reached import Reached
from holdfast.runtime.sending import Receipt
from holdfast.runtime.untyped import UntypedLive, receipt_text

ROWS_SHOWN = 100


class _Packed(NamedTuple):
    """A message whose events fit their classes."""

    number: int
    rows: list[Numbered]
    carried: Carried


class Intake:
    def __init__(self, live: UntypedLive, taker: Taker, send_seconds: float) -> None:
        self._live = live
        self._taker = taker
        self._send_seconds = send_seconds

    def is_urgent(self, message: pb.SendRequest) -> bool:
        """Every event of it, as far as is known."""
        types = {each.event.type for each in message.events}
        return bool(types) and all(map(self._live.names.seems_urgent, types))

    def send(self, message: pb.SendRequest, entry: Entry) -> pb.SendReply:
        if message.number:
            raise UsageError("number is for SendStream: leave it out, or use that")
        once = message.idempotency_key if message.HasField("idempotency_key") else None
        rows, arrived = self._rows(message), time.monotonic()
        with self._taker.carried(rows, entry.trace):
            found: dict[str, Any] = self._taker.take_rows(rows, once, entry.who, arrived)
        return pb.SendReply(**found)

    def take(self, messages: Sequence[pb.SendRequest], trace: str) -> pb.Acknowledgement:
        """Returns when all of them is durable but what it tells as refused."""
        found = pb.Acknowledgement(number=messages[-1].number)
        packed = []
        for message in messages:
            try:
                packed.append(self._packed(message, trace))
            except (UsageError, Problem) as error:
                _refuse(found, message.number, range(len(message.events)), error)
        try:
            reached = self._append_all(packed, found)
        except (HoldfastError, Problem) as error:
            _end(packed, found, str(error))
            raise
        _end(packed, found)
        found.receipt = receipt_text(Receipt(reached.positions))
        return found

    def _append_all(self, packed: Sequence[_Packed], found: pb.Acknowledgement) -> Reached:
        reached = Reached()
        try:
            self._append(packed, found, reached)
        except UsageError:
            # One of them is wrong in itself. A repeat is a no-op: now one by one.
            for each in packed:
                try:
                    self._append([each], found, reached)
                except UsageError as error:
                    _refuse(found, each.number, range(len(each.rows)), error)
        return reached

    def _append(
        self, packed: Sequence[_Packed], found: pb.Acknowledgement, reached: Reached
    ) -> None:
        rows = [row for each in packed for row in each.rows]
        if not rows:
            return
        outcome = self._live.consign(rows, timeout=self._send_seconds)
        for _, error in outcome.refused:
            if isinstance(error, TryAgain):
                raise error
        places = [(each.number, index) for each in packed for index in range(len(each.rows))]
        refused = 0
        for indexes, error in outcome.refused:
            refused += len(indexes)
            by_message: dict[int, list[int]] = {}
            for number, index in (places[each] for each in indexes):
                by_message.setdefault(number, []).append(index)
            for number, own in by_message.items():
                _refuse(found, number, own, error)
        found.events += len(rows) - refused
        found.repeats += outcome.repeats
        for partition, following in outcome.reached.positions:
            reached.add(partition, following)

    def _packed(self, message: pb.SendRequest, trace: str) -> _Packed:
        if message.HasField("idempotency_key"):
            raise UsageError("idempotency_key is for Send: number the events of a stream")
        rows = self._rows(message)
        for row in rows:
            if row.source is None:
                raise UsageError("an event without a source: number the events of a stream")
        return _Packed(message.number, *self._taker.carry_packed(rows, trace))

    def _rows(self, message: pb.SendRequest) -> list[Sent]:
        self._taker.check_count(len(message.events))
        if message.HasField("source") != message.HasField("first_seq"):
            raise UsageError("source and first_seq of a message go together: give both or none")
        rows = [_row(event) for event in message.events]
        if message.HasField("source"):
            seq = message.first_seq
            for row in rows:
                if row.source is not None:
                    continue
                row.source = message.source
                if row.seq is None:
                    row.seq, seq = seq, seq + 1
        check_sources(rows)
        return rows


def _row(event: pb.Event) -> Sent:
    has = event.HasField
    return Sent(
        event.agent,
        event.key,
        event.event.type,
        read_values(event.event),
        event.source if has("source") else None,
        event.seq if has("seq") else None,
        event.previous if has("previous") else None,
        event.event_time if has("event_time") else None,
        event.traceparent if has("traceparent") else None,
    )


def _end(packed: Sequence[_Packed], found: pb.Acknowledgement, error: str = "") -> None:
    """Their spans: what is refused says why, the others what is wrong with all of them."""
    refused = {each.number: each.detail for each in found.refused}
    for each in packed:
        each.carried.end(refused.get(each.number, error))


def _refuse(
    found: pb.Acknowledgement,
    number: int,
    rows: Sequence[int],
    error: HoldfastError | Problem,
) -> None:
    problem = as_problem(error)
    found.refused.add(
        number=number,
        events=rows[:ROWS_SHOWN],
        count=len(rows),
        code=code_of(problem).value[0],
        detail=detail_of(problem),
    )
