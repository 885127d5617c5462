"""The mirrors that this process has, and what they begin with."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.engine.kafka.appending import Appender
from holdfast.engine.kafka.bases import BaseStore, BlobBases, TopicBases
from holdfast.engine.kafka.catalog import KafkaCatalog
from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.keeping import BaseKeeper
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.places import MirrorPlace
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import changelog_topic, inbox_topic, owners_topic
from holdfast.engine.sqlite.files import undone
from holdfast.engine.stamping import Clock
from holdfast.errors import DamagedData, UsageError


class Copies:
    def __init__(
        self,
        settings: KafkaSettings,
        catalog: KafkaCatalog,
        feed: Feed,
        appender: Appender,
        clock: Clock,
        arrived: Callable[[int], None],
    ) -> None:
        """`arrived` is told of partitions in whose inbox something new stands."""
        self._settings = settings
        self._catalog = catalog
        self._feed = feed
        self._clock = clock
        self._arrived = arrived
        self._lock = threading.Lock()
        self._making: dict[int, threading.Lock] = {}  # several are made at once, each one once
        self._followed: dict[int, Following] = {}
        self._closed = False
        born = catalog.founded.born
        self.limits = dataclasses.replace(
            settings.limits,
            sources_max=catalog.founded.sources_max,
            anonymous_sources_max=catalog.founded.anonymous_sources_max,
        )
        self.place = MirrorPlace(settings.folder / born, settings.instance)
        with undone(self.place.close):
            store: BaseStore = (
                BlobBases(settings, born)
                if settings.base is not None
                else TopicBases(settings, feed, appender, catalog.first_of, born)
            )
            self.bases = BaseKeeper(settings, feed, store, self.place.scratch, clock)

    def has(self, number: int) -> bool:
        return number in self._followed

    def is_at_hand(self, number: int) -> bool:
        """Whether there are files from before, which may be old."""
        return (self.place.folder_of(number) / "state.db").exists()

    def of(self, number: int) -> Following:
        with self._lock:
            self._check_open()
            if (found := self._followed.get(number)) is not None:
                return found
            making = self._making.setdefault(number, threading.Lock())
        with making:
            if (found := self._followed.get(number)) is None:
                found = self._follow(number)
                with self._lock:
                    if self._closed:
                        found.mirror.close()
                    self._check_open()
                    self._followed[number] = found
            return found

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self._settings.place}: this handle is closed: open another")

    def all(self) -> list[Following]:
        with self._lock:
            return list(self._followed.values())

    def _follow(self, number: int) -> Following:
        incarnation = self._catalog.incarnation(number)
        mirror = Mirror(
            self.place.folder_of(number),
            number,
            incarnation,
            self.limits,
            self._clock,
            self._arrived,
            lambda folder: self.restore(number, folder),
        )
        inbox, changelog = self.inbox_of(number), self.changelog_of(number)
        with undone(mirror.close):
            return Following(
                *(self._settings, self._feed, mirror, inbox, changelog),
                *(self.inbox_of, self._written_by_owners),
            )

    def _written_by_owners(self) -> list[Place]:
        """Besides a changelog."""
        inboxes = [self.inbox_of(number) for number in self._catalog.layout.numbers]
        return [*inboxes, Place(owners_topic(self._settings.prefix or ""), 0)]

    def restore(self, number: int, folder: Path) -> bool:
        """Put the newest base copy into an empty folder. Who begins without one reads all there is
        in the topics, which is nothing where everything began with it."""
        found = self.bases.restore(number, self._catalog.incarnation(number), folder)
        if not found and self._catalog.begins_with_a_base(number):
            raise DamagedData(
                f"{self._settings.place}: the base copy of partition {number} is not to be found: "
                "give the ?base= that the fleet was restored or rescaled with, or restore it again"
            )
        return found

    def inbox_of(self, number: int) -> Place:
        first = self._catalog.first_of(number)
        return Place(inbox_topic(self._settings.prefix or "", first), number - first)

    def inbox_end(self, number: int) -> int:
        return self._feed.end(self.inbox_of(number))

    def hides(self, number: int) -> bool:
        """Asked in this order, so that what was sent meanwhile does not count."""
        inbox = self.inbox_of(number)
        return self._feed.acknowledged_end(inbox) > self._feed.end(inbox)

    def changelog_of(self, number: int) -> Place:
        first = self._catalog.first_of(number)
        return Place(changelog_topic(self._settings.prefix or "", first), number - first)

    def close(self) -> None:
        """Once the feed gives them nothing any more."""
        with self._lock:
            self._closed = True
            for following in self._followed.values():
                following.mirror.close()
        self.bases.close()
        self.place.close()
