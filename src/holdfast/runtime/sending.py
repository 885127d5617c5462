"""Sending: from a user's events to numbered parcels, encoded before any is appended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from holdfast.engine.admission import SEQ_MAX, WINDOW, Picked
from holdfast.engine.port import Parcel
from holdfast.engine.sources import ANONYMOUS_SECONDS
from holdfast.errors import Busy, HoldfastError, TimedOut, UsageError
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fates import MADE_HERE
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import plain_text, shortened
from holdfast.runtime.columns import EVENT_TIME_END, need_numpy
from holdfast.runtime.reached import Reached
from holdfast.runtime.routing import Router, Share
from holdfast.runtime.tracing.contexts import Contexts, TraceGiven, contexts_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import event_frame

if TYPE_CHECKING:
    from holdfast.runtime.columnar import Target
    from holdfast.runtime.prepared import Keys

_OTHERS_SECONDS = 0.001
EVENTS_PER_SEND_MAX = WINDOW // 2  # a whole send can be repeated and still be told from new
FRAME_BYTES_MAX = 64 * 1024 * 1024
UNFINISHED_SENDS = 64

R = TypeVar("R", bound=tuple[object, ...])
Row = tuple[type[Agent], str, Event]


class Receipt(NamedTuple):
    """Proof that events are durable. `live.state(…, after=receipt)` sees what they did."""

    positions: tuple[tuple[int, int], ...]  # (partition, first position after the events)
    repeats: int = 0  # how many of them were known already, by source and number


class Batch(Protocol):
    """The events of one send, and how they are recognised when they are sent again.

    The very same events, not equal ones: two equal ticks are two ticks.
    """

    def __len__(self) -> int: ...
    def memory(self) -> object: ...
    def is_remembered(self, memory: object) -> bool: ...


class RowBatch:
    def __init__(self, rows: Sequence[tuple[object, ...]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def memory(self) -> object:
        return list(self._rows)

    def is_remembered(self, memory: object) -> bool:
        return (
            isinstance(memory, list)
            and len(memory) == len(self._rows)
            and all(
                a[-1] is b[-1] and a[:-1] == b[:-1] for a, b in zip(self._rows, memory, strict=True)
            )
        )


class Unfinished(NamedTuple):
    """A send without a source that failed, although a part of it may be stored."""

    memory: object
    first: int
    since: float


class Courier(Generic[R]):
    """Numbers rows and appends their parcels. How rows become parcels is its subclasses'."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._source = f"~{router.world.fresh_name()}"
        self._numbering = threading.Lock()
        self._next = 1
        self._under_way: list[int] = []  # first numbers of sends that we have numbered
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
        trace: TraceGiven = None,
    ) -> Receipt:
        contexts = contexts_of(trace, len(rows))
        if rows:
            check_numbers(first_seq, previous, event_time)

        def parcels(name: str, first: int) -> list[tuple[int, Parcel]]:
            own = Contexts(first, contexts)
            return self._parcels(rows, name, first, event_time, previous, asks, own)

        return self.deliver(RowBatch(rows), parcels, source, first_seq, timeout, asks=asks)

    def deliver(
        self,
        batch: Batch,
        parcels: Callable[[str, int], list[tuple[int, Parcel]]],
        source: str | None,
        first_seq: int | None,
        timeout: float,
        *,
        asks: bool = False,
    ) -> Receipt:
        """Number the batch and append its parcels, which are made before any is appended."""
        if not len(batch):
            return Receipt(())
        check_count(len(batch))
        check_timeout(timeout)
        if first_seq is not None:
            check_numbers(first_seq + len(batch) - 1, None, None)  # else a part would be refused
        name, first, own = self._number(batch, source, first_seq, timeout)
        reached = Reached()
        repeats = 0
        made: list[tuple[int, Parcel]] = []
        try:
            made = parcels(name, first)
            for partition, parcel in made:
                repeats += parcel.frame.count
                for number, taken in self._router.append(partition, parcel, timeout):
                    if asks and not taken.new:
                        raise TimedOut("the question may have been sent before: ask again")
                    for place in taken.places:
                        reached.add(number, place)
                    repeats -= taken.new
        except HoldfastError:  # also one that does not pass by itself: somebody may see to it
            # What could not even be made is stored nowhere; a question asked again is another one.
            if made and own and not asks:
                self._remember(batch, first)
            raise
        finally:
            if own:
                with self._numbering:
                    self._under_way.remove(first)
        return Receipt(reached.positions, repeats)

    def _remember(self, batch: Batch, first: int) -> None:
        """A part may be stored: the same events sent again soon are a retry, with their numbers."""
        unfinished = Unfinished(batch.memory(), first, self._router.world.monotonic())
        with self._numbering:
            self._unfinished = [*self._unfinished[1 - UNFINISHED_SENDS :], unfinished]

    def _number(
        self, batch: Batch, source: str | None, first_seq: int | None, timeout: float
    ) -> tuple[str, int, bool]:
        if source is not None:
            check_source(source)
            if first_seq is None:
                raise UsageError(
                    f"source {source!r} without a sequence number: give seq=… or first_seq=…, "
                    "or leave the source out and the handle numbers by itself"
                )
            return plain_text(source), first_seq, False
        if first_seq is not None:
            raise UsageError("a sequence number without a source: give source=… too")
        world = self._router.world
        deadline = world.monotonic() + timeout
        while (first := self._own_number(batch)) is None:
            if world.monotonic() > deadline:
                raise Busy(f"a send of another thread has not ended for {timeout:g} s: try again")
            world.sleep(_OTHERS_SECONDS)
        return self._source, first, True

    def _own_number(self, batch: Batch) -> int | None:
        """None while a send of another thread is so far behind that its number would be too old."""
        with self._numbering:
            recent = self._router.world.monotonic() - ANONYMOUS_SECONDS / 2
            for unfinished in self._unfinished:
                if unfinished.since > recent and batch.is_remembered(unfinished.memory):
                    self._unfinished.remove(unfinished)
                    self._under_way.append(unfinished.first)
                    return unfinished.first
            oldest = min(self._under_way, default=self._next)
            if self._next > oldest and self._next + len(batch) - oldest > WINDOW:
                return None
            first = self._next
            self._next += len(batch)
            self._under_way.append(first)
            return first

    def _parcels(
        self,
        rows: Sequence[R],
        source: str,
        first: int,
        event_time: float | None,
        previous: int | None,
        asks: bool,
        contexts: Contexts,
    ) -> list[tuple[int, Parcel]]:
        """One parcel per partition, encoded before any of them is appended."""
        raise NotImplementedError


_FIELDS = (itemgetter(0), itemgetter(1), itemgetter(2))  # of a Row


class Sending(Courier[Row]):
    """The sending half of `Live`: events of the user's classes."""

    def __init__(self, fleet: FleetModel, codebook: Codebook, router: Router) -> None:
        super().__init__(router)
        self._fleet = fleet
        self._codebook = codebook
        self._targets: dict[tuple[str, type[Event]], Target] = {}

    def _parcels(
        self,
        rows: Sequence[Row],
        source: str,
        first: int,
        event_time: float | None,
        previous: int | None,
        asks: bool,
        contexts: Contexts,
    ) -> list[tuple[int, Parcel]]:
        try:
            if set(map(len, rows)) != {3}:
                raise ValueError
            agents, keys, events = (list(map(field, rows)) for field in _FIELDS)
            distinct = set(agents)
        except (TypeError, ValueError, LookupError):
            raise UsageError("send_many takes rows of (Agent, key, event)") from None
        names = {agent: self.name_of(agent) for agent in distinct}
        self._check_classes(events)
        # Most sends are for one class of agents: then its name is not spelled out row by row.
        only = names.popitem()[1] if len(names) == 1 else None
        parcels = []
        for share in self._router.split(keys):
            own = share.of(keys)
            seqs = numbered(first, len(rows), share)
            frame = event_frame(
                only or [names[agent] for agent in share.of(agents)],
                own,
                share.of(events),
                self._codebook,
                source=source,
                seqs=seqs,
                event_times=None if event_time is None else [event_time] * len(own),
                previous=None if previous is None else [previous] * len(own),
                asks=asks,
            )
            parcels.append((share.partition, make_parcel(frame, source, seqs, contexts)))
        return parcels

    def send_columns(
        self,
        agent: type[Agent],
        event: type[Event],
        keys: Keys,
        columns: Mapping[str, object],
        source: str | None,
        first_seq: int | None,
        timeout: float,
        event_time: object,
        trace: TraceGiven,
    ) -> Receipt:
        need_numpy()
        from holdfast.runtime.columnar import ColumnBatch, check_keys

        name = self.name_of(agent)
        check_keys(keys, agent)
        check_count(len(keys))
        check_numbers(first_seq, None, None)
        batch = ColumnBatch(self._target(name, event), keys, columns, event_time)
        if source is None:
            batch.keep()

        contexts = contexts_of(trace, len(keys))

        def parcels(name: str, first: int) -> list[tuple[int, Parcel]]:
            made = batch.frames(self._router.layout, name, first)
            own = Contexts(first, contexts)
            return [(number, make_parcel(frame, name, seqs, own)) for number, frame, seqs in made]

        return self.deliver(batch, parcels, source, first_seq, timeout)

    def _target(self, agent: str, event: type[Event]) -> Target:
        from holdfast.runtime.columnar import target_of

        if not (isinstance(event, type) and issubclass(event, Event)):
            raise UsageError(f"{shortened(event)} is no class of events: name one")
        self.check_event(event)
        known = self._targets.get((agent, event))
        if known is None:
            known = target_of(agent, event, self._codebook.id_of(event))
            self._targets[agent, event] = known
        return known

    def _check_classes(self, events: Sequence[Event]) -> None:
        for event in set(map(type, events)):
            if not issubclass(event, Event):
                given = next(each for each in events if type(each) is event)
                raise UsageError(f"{shortened(given)} is no Event: send an instance of one")
            self.check_event(event)

    def check_event(self, event: type[Event]) -> None:
        if self._fleet.events.get(event.__name__) is not event:
            known = ", ".join(sorted(self._fleet.events.keys() - MADE_HERE))
            raise UsageError(f"no agent of this fleet handles {event.__name__}: it has {known}")

    def name_of(self, agent: type[Agent]) -> str:
        name = getattr(agent, "__name__", repr(agent))
        if agent is None or self._fleet.agents.get(name) is not agent:
            known = ", ".join(sorted(self._fleet.agents))
            raise UsageError(f"{name} is no agent of fleet {self._fleet.name!r}: it has {known}")
        return name


def check_sendable(name: str) -> None:
    if name in MADE_HERE:
        raise UsageError(f"{name} comes from the fleet itself: nobody sends one")


def numbered(first: int, count: int, share: Share) -> range | Picked:
    """The sequence numbers of a share of a send whose `count` rows have numbers from `first` on."""
    return range(first, first + count) if share.flags is None else Picked(first, share.flags)


def check_count(events: int) -> None:
    if events > EVENTS_PER_SEND_MAX:
        raise UsageError(
            f"{events:,} events in one send: send at most {EVENTS_PER_SEND_MAX:,} at once"
        )


def check_numbers(seq: object, previous: object, event_time: object) -> None:
    for name, number in (("a sequence number", seq), ("previous", previous)):
        whole = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (whole and 0 <= number <= SEQ_MAX):  # type: ignore[operator]
            raise UsageError(f"{name} cannot be {shortened(number)}: give 0 to {SEQ_MAX}")
    if event_time is not None and not (
        isinstance(event_time, (int, float)) and abs(event_time) < EVENT_TIME_END
    ):
        raise UsageError(f"event_time cannot be {shortened(event_time)}: give seconds as a number")


def check_timeout(timeout: object) -> None:
    if not (isinstance(timeout, (int, float)) and timeout >= 0):
        raise UsageError(f"timeout cannot be {shortened(timeout)}: give seconds as a number")


def check_source(source: str) -> None:
    if not isinstance(source, str):
        raise UsageError(f"source {shortened(source)}: give a string")
    if not source or len(source) > 128 or source.startswith("~") or not source.isprintable():
        raise UsageError(
            f"source {source!r}: give 1 to 128 printable characters that do not start with ~"
        )


def make_parcel(
    frame: Frame,
    source: str | None,
    seqs: range | Sequence[int],
    contexts: Contexts | None = None,
) -> Parcel:
    if contexts is not None and contexts.each:
        frame.columns |= contexts.columns(seqs)
    encoded = frame.encode()
    if len(encoded) > FRAME_BYTES_MAX:
        raise UsageError(
            f"{frame.count} events of {len(encoded):,} bytes in one send exceed the bound of "
            f"{FRAME_BYTES_MAX:,}: send fewer at once"
        )
    return Parcel(frame=frame, encoded=encoded, source=source, seqs=seqs)
