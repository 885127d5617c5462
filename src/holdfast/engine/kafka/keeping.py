"""Keeping base copies: when an owner makes one, and what goes from the topics afterwards."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.engine.kafka.bases import BaseCopy, BaseStore, pack, unpack
from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.stamping import Clock

COMMITS_MAX = 20_000  # a new worker reads at most about so many
COMMITS_LEAST = 100  # fewer are read faster than a base copy is


class BaseKeeper:
    def __init__(
        self, settings: KafkaSettings, feed: Feed, store: BaseStore, scratch: Path, clock: Clock
    ) -> None:
        self._settings = settings
        self._feed = feed
        self._store = store
        self._scratch = scratch
        self._clock = clock
        self._made: dict[int, tuple[int, float]] = {}  # commits, and when

    def restore(self, number: int, incarnation: str, folder: Path) -> bool:
        found = self._store.newest(number, incarnation)
        if found is None:
            return False
        unpack(found[1], folder)
        return True

    def look(self, following: Following) -> None:
        """For the owner, now and then: make a base copy if it is time for one."""
        mirror = following.mirror
        commits, now = mirror.view.head().commits, time.monotonic()
        before, since = self._made.setdefault(mirror.number, (commits, now))
        new = commits - before
        due = now - since >= self._settings.base_seconds and new >= COMMITS_LEAST
        if due or new >= COMMITS_MAX:
            self.make(following)

    def make(self, following: Following) -> None:
        """1 copy, 2 keep it durably, 3 delete what is before it and past retention."""
        mirror = following.mirror
        facts, packed = pack(mirror, self._scratch / f"base-{mirror.number:03d}")
        self._store.put(facts, packed)
        self._made[mirror.number] = (facts.commits, time.monotonic())
        oldest = self._clock().wall - self._settings.limits.retain_seconds
        self._forget(following.changelog, facts.changelog, oldest)
        self._forget(following.inbox, facts.inbox, oldest)

    def put(self, packed: tuple[BaseCopy, bytes]) -> None:
        self._store.put(*packed)

    def _forget(self, place: Place, offset: int, oldest: float) -> None:
        offset = min(offset, self._feed.offset_at(place, oldest))
        if offset > self._feed.beginning(place):
            self._feed.delete_before(place, offset)

    def close(self) -> None:
        self._store.close()
