"""Routing: which inbox a key belongs to, and how sends of several threads share a transaction."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import cast

from holdfast.engine.port import APPEND_SECONDS, Engine, Parcel, Taken
from holdfast.errors import Busy, Rescaling, TryAgain
from holdfast.model.keys import Layout, check_key
from holdfast.runtime.world import REAL, World
from holdfast.stepping.rows import select

RETRY_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1)
_ROUTES_MAX = 1_000_000


class Group:
    """Sends of several threads to one inbox that share a transaction."""

    def __init__(self, engine: Engine, partition: int) -> None:
        self._engine = engine
        self._partition = partition
        self._queue: list[_Waiting] = []
        self._queueing = threading.Lock()
        self._turn = threading.Lock()

    def append(self, parcel: Parcel, wait_seconds: float) -> Taken:
        waiting = self._queue_up(parcel)
        with self._turn:
            if waiting.result is None:
                self._append_all(wait_seconds)
        if isinstance(waiting.result, Taken):
            return waiting.result
        raise waiting.result or Busy("the append was interrupted: try again")

    def _queue_up(self, parcel: Parcel) -> _Waiting:
        waiting = _Waiting(parcel)
        with self._queueing:
            self._queue.append(waiting)
        return waiting

    def _append_all(self, wait_seconds: float) -> None:
        with self._queueing:
            batch, self._queue = self._queue, []
        results: Sequence[Taken | Exception]
        try:
            parcels = [waiting.parcel for waiting in batch]
            results = self._engine.append(self._partition, parcels, wait_seconds)
        except Exception as error:
            results = [error] * len(batch)
        except BaseException:
            # Ours alone, such as Ctrl-C; the others have to try again.
            for waiting in batch:
                waiting.result = Busy("another thread's append was interrupted: try again")
            raise
        for waiting, result in zip(batch, results, strict=True):
            waiting.result = result


class _Waiting:
    __slots__ = ("parcel", "result")

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.result: Taken | Exception | None = None


class Router:
    """Parcels to inboxes: grouping, and patience with refusals that pass.

    The layout is looked at again when an inbox refuses because of a rescaling.
    """

    def __init__(self, engine: Engine, world: World = REAL) -> None:
        self.world = world
        self._engine = engine
        self._groups: dict[int, Group] = {}
        self._look_at_layout()

    def _look_at_layout(self) -> None:
        # In this order: whoever finds the new routes finds the new layout too.
        self.layout: Layout = self._engine.catalog.layout
        self._routes: dict[str, int] = {}

    def partition_of(self, key: str) -> int:
        return self.partitions_of((key,))[0]

    def partitions_of(self, keys: Sequence[str]) -> list[int]:
        """Where each key lives. Known keys cost one look-up; new ones are checked first."""
        routes = self._routes
        try:
            return [routes[key] for key in keys]
        except (KeyError, TypeError):
            for key in keys:
                check_key(key)
        found = [self.layout.partition_of(key) for key in keys]
        if len(routes) + len(keys) > _ROUTES_MAX:
            routes.clear()
        routes.update(zip(keys, found, strict=True))
        return found

    def split(self, keys: Sequence[str]) -> dict[int, Sequence[int]]:
        """Which of the rows go to which partition, by their keys."""
        numbers = self.partitions_of(keys)
        return {
            number: [i for i, n in enumerate(numbers) if n == number]
            for number in sorted(set(numbers))
        }

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
                if isinstance(refusal, Rescaling) and self._is_retired(partition):
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

    def _group(self, partition: int) -> Group:
        group = self._groups.get(partition)
        if group is None:  # two threads may make one each: one of them is kept
            group = self._groups.setdefault(partition, Group(self._engine, partition))
        return group

    def _is_retired(self, partition: int) -> bool:
        if partition in self.layout.numbers and self.layout != self._engine.catalog.layout:
            self._look_at_layout()
        return partition not in self.layout.numbers

    def _split_again(self, parcel: Parcel) -> list[tuple[int, Parcel]]:
        """One parcel for each partition that owns some of its keys now, under the same numbers."""
        members = self.split(cast(list[str], parcel.frame.values("key")))
        return [(number, _part(parcel, rows)) for number, rows in members.items()]


def _part(parcel: Parcel, rows: Sequence[int]) -> Parcel:
    if len(rows) == parcel.frame.count:
        return parcel
    frame = select(parcel.frame, rows)
    seqs = [parcel.seqs[i] for i in rows] if parcel.source is not None else parcel.seqs
    return dataclasses.replace(parcel, frame=frame, encoded=frame.encode(), seqs=seqs)
