"""Routing: which inbox a key belongs to, and how sends of several threads share a transaction."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from itertools import compress, islice
from typing import NamedTuple, TypeVar, cast

from holdfast.engine.port import APPEND_SECONDS, Engine, Parcel, Taken
from holdfast.errors import Busy, HoldfastError, Rescaling, TryAgain
from holdfast.model.keys import Layout, check_key
from holdfast.runtime.stored import StoredSchemas, is_urgent
from holdfast.runtime.world import REAL, World
from holdfast.stepping.rows import select

RETRY_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1)
_ROUTES_MAX = 1_000_000

T = TypeVar("T")


class Share(NamedTuple):
    """The rows of a send that go to one partition."""

    partition: int
    flags: bytes | None  # one per row, 1 for those that go there; None: all of them do

    def of(self, rows: Sequence[T]) -> Sequence[T]:
        return rows if self.flags is None else list(compress(rows, self.flags))


class _Routes:
    """Where keys live in one layout. Partitions are given as bytes, so that a send is split by
    looking at each of its keys once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.numbers = list(layout.numbers)
        self._known: dict[str, int] = {}
        self._wanted = [
            bytes(index == wanted for index in range(256)) for wanted in range(len(self.numbers))
        ]

    def of(self, keys: Sequence[str]) -> bytes:
        """For each key the index of its partition. New keys are checked first."""
        known = self._known
        try:
            return bytes(map(known.__getitem__, keys))
        except (KeyError, TypeError):
            for key in keys:
                check_key(key)
        first = self.numbers[0]
        found = bytes([self.layout.partition_of(key) - first for key in keys])
        if len(known) + len(keys) > _ROUTES_MAX:
            known.clear()
        known.update(zip(keys, found, strict=True))
        return found

    def shares(self, keys: Sequence[str]) -> list[Share]:
        indexes = self.of(keys)
        owners = sorted(set(indexes))
        if len(owners) == 1:
            return [Share(self.numbers[owners[0]], None)]
        return [Share(self.numbers[i], indexes.translate(self._wanted[i])) for i in owners]


class Group:
    """Sends of several threads to one inbox that share a transaction.

    One of those who wait leads: it appends what all of them have brought, tells each its result,
    and hands the lead to the first who has come meanwhile. Whoever has its result is off at once;
    behind a lock that the next leader holds it would wait for one sync more, and bring its next
    send too late for that one.
    """

    def __init__(self, engine: Engine, partition: int) -> None:
        self._engine = engine
        self._partition = partition
        self._lock = threading.Lock()  # for the two below, never held for long
        self._queue: list[_Waiting] = []
        self._leader: _Waiting | None = None

    def append(self, parcel: Parcel, wait_seconds: float) -> Taken:
        (result,) = self.append_together([parcel], wait_seconds)
        if isinstance(result, Taken):
            return result
        raise result

    def append_together(
        self, parcels: Sequence[Parcel], wait_seconds: float
    ) -> list[Taken | Exception]:
        """In one transaction; what became of each."""
        waiting = _Waiting(parcels)
        try:
            with self._lock:
                self._queue.append(waiting)
                if self._leader is None:
                    self._lead(waiting)
            waiting.called.acquire()
            if waiting.results is None:
                self._append_all(waiting, wait_seconds)
        finally:
            self._leave(waiting)
        if waiting.results is None:
            return [Busy("the append was interrupted: try again")] * len(parcels)
        return waiting.results

    def _lead(self, waiting: _Waiting) -> None:
        self._leader = waiting
        waiting.called.release()

    def _leave(self, waiting: _Waiting) -> None:
        with self._lock:
            if waiting in self._queue:
                self._queue.remove(waiting)  # interrupted before anybody has appended it
            if self._leader is waiting:
                self._leader = None
                if self._queue:
                    self._lead(self._queue[0])

    def _append_all(self, leader: _Waiting, wait_seconds: float) -> None:
        batch: list[_Waiting] = []
        parcels: list[Parcel] = []
        results: Sequence[Taken | Exception] | None = None
        try:
            with self._lock:
                batch, self._queue = self._queue, []
            parcels = [parcel for waiting in batch for parcel in waiting.parcels]
            results = self._engine.append(self._partition, parcels, wait_seconds)
        except Exception as error:
            results = [error] * len(parcels)
        finally:
            if results is None:
                # Ours alone is an interruption such as Ctrl-C; the others have to try again.
                busy = Busy("another thread's append was interrupted: try again")
                results = [busy] * len(parcels)
            following = iter(results)
            for waiting in batch:
                waiting.results = list(islice(following, len(waiting.parcels)))
                if waiting is not leader:
                    waiting.called.release()


class _Waiting:
    __slots__ = ("called", "parcels", "results")

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self.parcels = parcels
        self.results: list[Taken | Exception] | None = None
        self.called = threading.Lock()  # free once it has its results, or has to lead
        self.called.acquire()


class Router:
    """Parcels to inboxes: grouping, and patience with refusals that pass.

    The layout is looked at again when an inbox refuses because of a rescaling.
    """

    def __init__(self, engine: Engine, world: World = REAL) -> None:
        self.world = world
        self._engine = engine
        self._groups: dict[int, Group] = {}
        self.stored = StoredSchemas(engine.catalog.schemas, world.monotonic)
        self._look_at_layout()

    def _look_at_layout(self) -> None:
        self._routes = _Routes(self._engine.catalog.layout)

    @property
    def layout(self) -> Layout:
        return self._routes.layout

    def partition_of(self, key: str) -> int:
        return self._routes.shares((key,))[0].partition

    def split(self, keys: Sequence[str]) -> list[Share]:
        """Which of the rows go to which partition, by their keys."""
        return self._routes.shares(keys)

    def is_urgent(self, schema: int) -> bool:
        """Whether events of this schema overtake what waits."""
        return is_urgent(self.stored.of(schema))

    def urgent(self, schemas: Sequence[int]) -> list[bool]:
        """Which rows of these schemas are; empty where none is."""
        found = {schema: self.is_urgent(schema) for schema in set(schemas)}
        return [found[schema] for schema in schemas] if any(found.values()) else []

    def append(
        self, partition: int, parcel: Parcel, timeout: float, *, moves: bool = True
    ) -> list[tuple[int, Taken]]:
        """The partition and what it took; after a rescaling, those that own its keys now.

        A parcel that makes sense in this partition only does not move: Rescaling is raised.
        """
        deadline = self.world.monotonic() + timeout
        attempt = 0
        while True:
            try:
                patience = max(0.0, min(APPEND_SECONDS, deadline - self.world.monotonic()))
                return [(partition, self._group(partition).append(parcel, patience))]
            except TryAgain as refusal:
                if isinstance(refusal, Rescaling) and self.is_retired(partition):
                    if not moves:
                        raise
                    left = max(0.0, deadline - self.world.monotonic())
                    parts = self._split_again(parcel)
                    return [taken for n, part in parts for taken in self.append(n, part, left)]
                pause = RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)]
                if self.world.monotonic() + pause > deadline:
                    raise type(refusal)(f"{refusal} (tried for {timeout:g} s)") from None
                self.world.sleep(pause)
                attempt += 1

    def append_together(
        self, partition: int, parcels: Sequence[Parcel], timeout: float
    ) -> list[list[tuple[int, Taken]] | HoldfastError]:
        """Parcels in one transaction; what became of each. A refusal that passes is waited for."""
        deadline = self.world.monotonic() + timeout
        found: list[list[tuple[int, Taken]] | HoldfastError] = []
        results = self.try_together(partition, parcels, timeout)
        for parcel, result in zip(parcels, results, strict=True):
            if isinstance(result, Taken):
                found.append([(partition, result)])
                continue
            if not isinstance(result, HoldfastError):
                raise result
            try:
                if not isinstance(result, TryAgain):
                    raise result
                left = max(0.0, deadline - self.world.monotonic())
                found.append(self.append(partition, parcel, left))
            except HoldfastError as refusal:
                found.append(refusal)
        return found

    def try_together(
        self, partition: int, parcels: Sequence[Parcel], timeout: float
    ) -> list[Taken | Exception]:
        """The same once: whoever sent them will try again."""
        patience = min(APPEND_SECONDS, timeout)
        return self._group(partition).append_together(parcels, patience)

    def _group(self, partition: int) -> Group:
        group = self._groups.get(partition)
        if group is None:  # two threads may make one each: one of them is kept
            group = self._groups.setdefault(partition, Group(self._engine, partition))
        return group

    def is_retired(self, partition: int) -> bool:
        if partition in self.layout.numbers and self.layout != self._engine.catalog.layout:
            self._look_at_layout()
        return partition not in self.layout.numbers

    def _split_again(self, parcel: Parcel) -> list[tuple[int, Parcel]]:
        """One parcel for each partition that owns some of its keys now, under the same numbers."""
        shares = self.split(cast(list[str], parcel.frame.values("key")))
        return [(share.partition, _part(parcel, share)) for share in shares]


def _part(parcel: Parcel, share: Share) -> Parcel:
    if share.flags is None:
        return parcel
    frame = select(parcel.frame, share.of(range(parcel.frame.count)))
    seqs = share.of(parcel.seqs) if parcel.source is not None else parcel.seqs
    return dataclasses.replace(parcel, frame=frame, encoded=frame.encode(), seqs=seqs)
