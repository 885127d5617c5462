"""Sending: from a user's events to numbered parcels, encoded before any is appended."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from holdfast.engine.admission import ANONYMOUS_SECONDS, SEQ_MAX, WINDOW, Picked
from holdfast.engine.port import Parcel
from holdfast.errors import TimedOut, TryAgain, UsageError
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import shortened
from holdfast.runtime.routing import Router, Share
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import event_frame

EVENTS_PER_SEND_MAX = WINDOW // 2  # a whole send can be repeated and still be told from new
FRAME_BYTES_MAX = 64 * 1024 * 1024
UNFINISHED_SENDS = 64

R = TypeVar("R", bound=tuple[object, ...])
Row = tuple[type[Agent], str, Event]


class Receipt(NamedTuple):
    """Proof that events are durable. `live.state(…, after=receipt)` sees what they did."""

    positions: tuple[tuple[int, int], ...]  # (partition, first position after the events)
    repeats: int = 0  # how many of them were known already, by source and number


class Unfinished(NamedTuple):
    """A send without a source that failed, although a part of it may be stored."""

    rows: list[tuple[object, ...]]
    first: int
    since: float

    def is_repeated_by(self, rows: Sequence[tuple[object, ...]], now: float) -> bool:
        """The very same events, not equal ones: two equal ticks are two ticks."""
        return (
            len(rows) == len(self.rows)
            and now - self.since < ANONYMOUS_SECONDS / 2
            and all(
                a[-1] is b[-1] and a[:-1] == b[:-1] for a, b in zip(rows, self.rows, strict=True)
            )
        )


class Courier(Generic[R]):
    """Numbers rows and appends their parcels. How rows become parcels is its subclasses'."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._source = f"~{router.world.fresh_name()}"
        self._numbering = threading.Lock()
        self._next = 1
        self._unfinished: list[Unfinished] = []

    def send(
        self,
        rows: Sequence[R],
        source: str | None,
        first_seq: int | None,
        timeout: float,
        *,
        event_time: float | None = None,
        previous: int | None = None,
        asks: bool = False,
    ) -> Receipt:
        if not rows:
            return Receipt(())
        if len(rows) > EVENTS_PER_SEND_MAX:
            raise UsageError(
                f"{len(rows):,} events in one send: send at most {EVENTS_PER_SEND_MAX:,} at once"
            )
        check_numbers(first_seq, previous, event_time)
        name, first, own = self._number(rows, source, first_seq)
        positions: dict[int, int] = {}
        repeats = 0
        try:
            for partition, parcel in self._parcels(rows, name, first, event_time, previous, asks):
                repeats += parcel.frame.count
                for number, taken in self._router.append(partition, parcel, timeout):
                    if asks and not taken.new:
                        raise TimedOut("the question may have been sent before: ask again")
                    positions[number] = max(taken.next, positions.get(number, 0))
                    repeats -= taken.new
        except TryAgain:
            if own and not asks:  # a question that is asked again is another one
                self._remember(rows, first)
            raise
        return Receipt(tuple(positions.items()), repeats)

    def _remember(self, rows: Sequence[R], first: int) -> None:
        """A part may be stored: the same events sent again soon are a retry, with their numbers."""
        with self._numbering:
            unfinished = Unfinished(list(rows), first, self._router.world.monotonic())
            self._unfinished = [*self._unfinished[1 - UNFINISHED_SENDS :], unfinished]

    def _number(
        self, rows: Sequence[R], source: str | None, first_seq: int | None
    ) -> tuple[str, int, bool]:
        if source is not None:
            check_source(source)
            if first_seq is None:
                raise UsageError(
                    f"source {source!r} without a sequence number: give seq=… or first_seq=…, "
                    "or leave the source out and the handle numbers by itself"
                )
            return source, first_seq, False
        if first_seq is not None:
            raise UsageError("a sequence number without a source: give source=… too")
        with self._numbering:
            for unfinished in self._unfinished:
                if unfinished.is_repeated_by(rows, self._router.world.monotonic()):
                    self._unfinished.remove(unfinished)
                    return self._source, unfinished.first, True
            first = self._next
            self._next += len(rows)
            return self._source, first, True

    def _parcels(
        self,
        rows: Sequence[R],
        source: str,
        first: int,
        event_time: float | None,
        previous: int | None,
        asks: bool,
    ) -> list[tuple[int, Parcel]]:
        """One parcel per partition, encoded before any of them is appended."""
        raise NotImplementedError


class Sending(Courier[Row]):
    """The sending half of `Live`: events of the user's classes."""

    def __init__(self, fleet: FleetModel, codebook: Codebook, router: Router) -> None:
        super().__init__(router)
        self._fleet = fleet
        self._codebook = codebook

    def _parcels(
        self,
        rows: Sequence[Row],
        source: str,
        first: int,
        event_time: float | None,
        previous: int | None,
        asks: bool,
    ) -> list[tuple[int, Parcel]]:
        try:
            agents = {agent for agent, _, _ in rows}
            keys = [key for _, key, _ in rows]
            events = [event for _, _, event in rows]
        except (TypeError, ValueError):
            raise UsageError("send_many takes rows of (Agent, key, event)") from None
        names = {agent: self.name_of(agent) for agent in agents}
        self._check_classes(events)
        # Most sends are for one class of agents: then its name is not spelled out row by row.
        only = names.popitem()[1] if len(names) == 1 else None
        parcels = []
        for share in self._router.split(keys):
            own = share.of(keys)
            seqs = numbered(first, len(rows), share)
            frame = event_frame(
                only or [names[agent] for agent, _, _ in share.of(rows)],
                own,
                share.of(events),
                self._codebook,
                source=source,
                seqs=seqs,
                event_times=None if event_time is None else [event_time] * len(own),
                previous=None if previous is None else [previous] * len(own),
                asks=asks,
            )
            parcels.append((share.partition, make_parcel(frame, source, seqs)))
        return parcels

    def _check_classes(self, events: Sequence[Event]) -> None:
        for event in set(map(type, events)):
            if not issubclass(event, Event):
                given = next(each for each in events if type(each) is event)
                raise UsageError(f"{shortened(given)} is no Event: send an instance of one")
            if self._fleet.events.get(event.__name__) is not event:
                known = ", ".join(sorted(self._fleet.events.keys() - {CallFailed.__name__}))
                raise UsageError(f"no agent of this fleet handles {event.__name__}: it has {known}")

    def name_of(self, agent: type[Agent]) -> str:
        name = getattr(agent, "__name__", repr(agent))
        if self._fleet.agents.get(name) is not agent:
            known = ", ".join(sorted(self._fleet.agents))
            raise UsageError(f"{name} is no agent of fleet {self._fleet.name!r}: it has {known}")
        return name


def numbered(first: int, count: int, share: Share) -> range | Picked:
    """The sequence numbers of a share of a send whose `count` rows have numbers from `first` on."""
    return range(first, first + count) if share.flags is None else Picked(first, share.flags)


def check_numbers(seq: object, previous: object, event_time: object) -> None:
    for name, number in (("a sequence number", seq), ("previous", previous)):
        whole = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (whole and 0 <= number <= SEQ_MAX):  # type: ignore[operator]
            raise UsageError(f"{name} cannot be {shortened(number)}: give 0 to {SEQ_MAX}")
    if event_time is not None and not (
        isinstance(event_time, (int, float)) and math.isfinite(event_time)
    ):
        raise UsageError(f"event_time cannot be {shortened(event_time)}: give seconds as a number")


def check_source(source: str) -> None:
    if not source or len(source) > 128 or source.startswith("~") or not source.isprintable():
        raise UsageError(
            f"source {source!r}: give 1 to 128 printable characters that do not start with ~"
        )


def make_parcel(frame: Frame, source: str | None, seqs: range | Sequence[int]) -> Parcel:
    encoded = frame.encode()
    if len(encoded) > FRAME_BYTES_MAX:
        raise UsageError(
            f"{frame.count} events of {len(encoded):,} bytes in one send exceed the bound of "
            f"{FRAME_BYTES_MAX:,}: send fewer at once"
        )
    return Parcel(frame=frame, encoded=encoded, source=source, seqs=seqs)
