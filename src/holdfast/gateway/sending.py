"""`POST /events` and `POST /ask`: from a request's body to a durable append.

Three ways a request is numbered: by its events, each with source and seq; by its Idempotency-Key;
or by the gateway, and then a client that is not sure must not simply send again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from holdfast.errors import HoldfastError, TryAgain, UsageError
from holdfast.gateway.carrying import HEADER, Carried
from holdfast.gateway.cloudevents import BATCH, STRUCTURED, is_cloud_event, read_cloud_events
from holdfast.gateway.envelopes import FORMS, JSON, MSGPACK, Sent, check_own_source, decoded
from holdfast.gateway.problems import Problem, problem_of
from holdfast.gateway.settings import Bounds
from holdfast.runtime.consigning import Numbered, Outcome, source_once
from holdfast.runtime.sending import Receipt
from holdfast.runtime.stored import is_urgent
from holdfast.runtime.tracing.spans import Tracer
from holdfast.runtime.untyped import Address, UntypedLive, receipt_text

KEY_LENGTH_MAX = 255
_KEY = re.compile(f"[!-~]{{1,{KEY_LENGTH_MAX}}}")
_ROWS_SHOWN = 100
TOGETHER_SECONDS = 0.1  # many wait for each other: what takes longer is for one alone
Values = dict[str, object]


class Post(NamedTuple):
    """A request as far as it matters here."""

    body: bytes
    media: str
    headers: Mapping[str, str]  # names in lower case
    who: str
    arrived: float  # of the clock that only goes forward


class Later(NamedTuple):
    """Of a request that has to be taken by itself."""

    urgent: bool  # every event of it, so it may pass those that wait for room


class Taker:
    def __init__(self, live: UntypedLive, bounds: Bounds, tracer: Tracer | None = None) -> None:
        self._live = live
        self._bounds = bounds
        self._tracer = tracer

    def take(self, post: Post) -> dict[str, object]:
        """1 read, 2 check every event, 3 append. Returns when all of it is durable."""
        once = _once(post)
        rows = self._read(post)
        with self.carried(rows, post.headers.get(HEADER)):
            return self.take_rows(rows, once, post.who, post.arrived)

    def carry(self, rows: Sequence[Sent], given: str | None) -> Carried:
        carried = Carried(given, self._tracer)
        carried.put_on(rows)
        return carried

    def carry_packed(
        self, rows: Sequence[Sent], given: str | None
    ) -> tuple[list[Numbered], Carried]:
        """What comes back is to be ended by who appends it; what does not fit has ended."""
        carried = self.carry(rows, given)
        try:
            return self.packed(rows), carried
        except (HoldfastError, Problem) as error:
            carried.end(str(error))
            raise

    @contextmanager
    def carried(self, rows: Sequence[Sent], given: str | None) -> Iterator[None]:
        """While they are appended, each with the context that it has or is given."""
        carried = self.carry(rows, given)
        try:
            yield
        except (HoldfastError, Problem) as error:
            carried.end(str(error))
            raise
        carried.end()

    def take_all(self, posts: Sequence[Post]) -> list[Values | Later | Exception]:
        """The same for many requests, which share a transaction and nothing else: what is wrong
        with one is its own answer, and what has to be waited for is taken later, alone."""
        read = [self._numbered_of(post) for post in posts]
        packed = [each.rows for each in read if isinstance(each, _Packed)]
        outcomes = iter(self._live.consign_together(packed, timeout=TOGETHER_SECONDS))
        return [each.answer(next(outcomes)) if isinstance(each, _Packed) else each for each in read]

    def _numbered_of(self, post: Post) -> _Packed | Later | Exception:
        try:
            once, rows = _once(post), self._read(post)
            types = {row.type for row in rows}
            urgent = bool(types) and all(self._is_urgent(each) for each in types)
            if not rows or not self._are_numbered(rows, once, post.who):
                return Later(urgent)
            return _Packed(*self.carry_packed(rows, post.headers.get(HEADER)), urgent)
        except (HoldfastError, Problem) as error:
            return error

    def _is_urgent(self, event: str) -> bool:
        return is_urgent(self._live.names.event(event)[1])

    def take_rows(
        self, rows: Sequence[Sent], once: str | None, who: str, arrived: float
    ) -> dict[str, object]:
        """The last two steps, for rows that `check_sources` and `check_count` let pass."""
        if not rows:
            return _told(0, Receipt(()))
        if self._are_numbered(rows, once, who):
            outcome = self._live.consign(self.packed(rows), timeout=self._left(arrived))
            if outcome.refused:
                raise _refused(outcome, len(rows))
            receipt = outcome.receipt
        else:
            receipt = self._send(rows, self._left(arrived))
        return _told(len(rows), receipt)

    def _left(self, arrived: float) -> float:
        """Of the patience with refusals that pass: waiting for a thread has cost some of it, so
        that those behind a partition that takes nothing are not held up one after the other."""
        return max(0.0, self._bounds.send_seconds - (time.monotonic() - arrived))

    def _read(self, post: Post) -> list[Sent]:
        if is_cloud_event(post.media, post.headers):
            rows = read_cloud_events(post.body, post.media, post.headers)
        else:
            form = FORMS.get(post.media)
            if form is None:
                known = ", ".join((*FORMS, STRUCTURED, BATCH))
                text = f"a body of {post.media or 'no content type'}: send one of {known}"
                raise Problem(415, "Unsupported Media Type", text)
            rows = form(post.body)
            check_sources(rows)
        self.check_count(len(rows))
        return rows

    def check_count(self, count: int) -> None:
        most = self._bounds.events_per_request_max
        if count > most:
            text = f"{count:,} events in one request: send at most {most:,}"
            raise Problem(413, "Content Too Large", text)

    def _are_numbered(self, rows: Sequence[Sent], once: str | None, who: str) -> bool:
        """Whether the events have numbers; those that an Idempotency-Key stands for get them."""
        given = sum(row.source is not None for row in rows)
        if given not in (0, len(rows)):
            raise UsageError(
                f"{given} of {len(rows)} events have a source: number all of them or none"
            )
        if given:
            return True
        if once is None:
            return False
        source = source_once("http", who, once)
        for number, row in enumerate(rows, start=1):
            row.source, row.seq = source, number
        return True

    def packed(self, rows: Sequence[Sent]) -> list[Numbered]:
        names = self._live.names
        for agent in {row.agent for row in rows}:
            names.check_agent(agent)
        packed = []
        for row in rows:
            if row.source is None or row.seq is None:
                raise UsageError(f"source {row.source!r} without a seq: give both")
            schema, packed_row = names.pack(row.type, row.data)
            packed.append(
                Numbered(
                    row.agent,
                    row.key,
                    schema,
                    packed_row,
                    row.source,
                    row.seq,
                    row.event_time,
                    row.previous,
                    row.traceparent or "",
                )
            )
        return packed

    def _send(self, rows: Sequence[Sent], timeout: float) -> Receipt:
        addresses = [
            Address(r.agent, r.key, r.type, r.data, r.event_time, r.traceparent or "") for r in rows
        ]
        try:
            return self._live.send(addresses, timeout=timeout)
        except TryAgain as refusal:
            text = (
                f"{refusal}; some of it may be stored: under an Idempotency-Key it can be repeated"
            )
            raise type(refusal)(text if len(rows) > 1 else str(refusal)) from None


class _Packed(NamedTuple):
    """The events of a request among others."""

    rows: list[Numbered]
    carried: Carried
    urgent: bool

    def answer(self, outcome: Outcome | HoldfastError) -> Values | Later | Exception:
        found = self._answer(outcome)
        if not isinstance(found, Later):
            self.carried.end(str(found) if isinstance(found, Exception) else "")
        return found

    def _answer(self, outcome: Outcome | HoldfastError) -> Values | Later | Exception:
        if isinstance(outcome, HoldfastError):
            return outcome
        if any(isinstance(error, TryAgain) for _, error in outcome.refused):
            return Later(self.urgent)  # what is stored of it is a repeat then
        count = len(self.rows)
        return _refused(outcome, count) if outcome.refused else _told(count, outcome.receipt)


def _told(count: int, receipt: Receipt) -> Values:
    text = receipt_text(receipt) if count else ""
    return {"events": count, "repeats": receipt.repeats, "receipt": text}


def _once(post: Post) -> str | None:
    once = post.headers.get("idempotency-key")
    if once is not None and not _KEY.fullmatch(once):
        raise UsageError(f"Idempotency-Key: give 1 to {KEY_LENGTH_MAX} visible ASCII characters")
    return once


def check_sources(rows: Sequence[Sent]) -> None:
    for row in rows:
        check_own_source(row.source)
        if row.source is None and row.seq is not None:
            raise UsageError(f"seq {row.seq} without a source: give both")


def _refused(outcome: Outcome, count: int) -> Problem:
    """The first refusal, and which rows it and the others are about; the rest is stored."""
    missing = sum(len(rows) for rows, _ in outcome.refused)
    more: dict[str, object] = {}
    if count > 1:
        more = {
            "stored": count - missing,
            "receipt": receipt_text(outcome.receipt),
            "refused": [
                {"rows": rows[:_ROWS_SHOWN], "count": len(rows), "detail": str(error)}
                for rows, error in outcome.refused[:_ROWS_SHOWN]
            ],
        }
    return problem_of(outcome.refused[0][1], more)


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """An event whose handler gives an answer."""

    agent: str
    key: str
    type: str
    data: dict[str, object] = {}
    timeout: float = 5.0


class Asker:
    def __init__(self, live: UntypedLive, bounds: Bounds) -> None:
        self._live = live
        self._bounds = bounds

    def ask(self, post: Post) -> dict[str, object]:
        if post.media not in (JSON, MSGPACK):
            text = f"a question as {post.media or 'no content type'}: send {JSON} or {MSGPACK}"
            raise Problem(415, "Unsupported Media Type", text)
        codec = msgspec.json if post.media == JSON else msgspec.msgpack
        question = decoded(codec.Decoder(Question).decode, post.body, "question")
        return self.ask_question(question, post.headers.get(HEADER))

    def ask_question(self, question: Question, trace: str | None) -> dict[str, object]:
        most = self._bounds.ask_seconds_max
        if not 0 <= question.timeout <= most:
            raise UsageError(f"timeout {question.timeout:g}: give 0 to {most:g} seconds")
        reply = self._live.ask(
            question.agent,
            question.key,
            question.type,
            question.data,
            timeout=question.timeout,
            trace=trace or "",
        )
        return {"type": reply.name, "data": reply.values}
