"""Following a partition: its mirror, and the two topics that fill it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.mirror import Mirror
from holdfast.engine.kafka.nearing import is_near
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.writer import Writer
from holdfast.errors import DamagedData, TimedOut, TryAgain
from holdfast.stepping.commit import Head

CATCH_UP_SECONDS = 30.0  # without any progress
LOOK_SECONDS = 1.0
LOOKS_AT_INBOX = 5  # one is enough: whoever committed had read what it took from the same topic

_log = logging.getLogger("holdfast.engine")


class Following:
    def __init__(
        self,
        settings: KafkaSettings,
        feed: Feed,
        mirror: Mirror,
        inbox: Place,
        changelog: Place,
        inbox_of: Callable[[int], Place],
        written: Callable[[], list[Place]],
    ) -> None:
        """`written` is where its owner may write besides the changelog."""
        self.mirror = mirror
        self.inbox = inbox
        self.changelog = changelog
        self.inbox_of = inbox_of
        self.changelog_end = 0  # behind what an owner wrote itself
        self._settings = settings
        self._written = written
        self._feed = feed
        if self._begins_too_late():
            mirror.begin_again()
        self._check_end(inbox, mirror.inbox_sink.next_offset)
        self._check_end(changelog, mirror.changelog_sink.next_offset)
        feed.follow(inbox, mirror.inbox_sink)
        feed.follow(changelog, mirror.changelog_sink)

    def _begins_too_late(self) -> bool:
        """Whether what comes next has been deleted since this mirror was used."""
        mirror, beginning = self.mirror, self._feed.beginning
        return (
            beginning(self.changelog) > mirror.changelog_sink.next_offset
            or beginning(self.inbox) > mirror.inbox_sink.next_offset
        )

    def _check_end(self, place: Place, known: int) -> None:
        end = self._feed.end(place)
        if end < known:
            raise DamagedData(
                f"{self._settings.place}: {place.topic}, partition {place.partition} ends at "
                f"{end}, but the copy in {self.mirror.folder} has read up to {known}: brokers lost "
                "what they had acknowledged. Restore the topic; or remove the copy, and it goes on "
                "without what is lost"
            )

    # The changelog, which its owner need not read: it has written it.

    def stop_reading_changelog(self) -> None:
        self._feed.leave(self.changelog)

    def read_changelog(self) -> None:
        if not self._feed.follows(self.changelog):
            sink = self.mirror.changelog_sink
            sink.next_offset = max(sink.next_offset, self.mirror.state.next_offset)
            self._feed.follow(self.changelog, sink)

    @property
    def owned(self) -> bool:
        return not self._feed.follows(self.changelog)

    def open_writer(self) -> Writer:
        name = f"{self._settings.prefix}.p{self.mirror.number}"
        return Writer(self._settings, self.changelog, name, self._written())

    # Being up to date.

    def catch_up(self, seconds: float = CATCH_UP_SECONDS) -> None:
        """All that was committed before this call is in the mirror after it.

        `seconds` is how long there may be no progress.
        """
        self.read_inbox_to_its_end(seconds)
        if self.owned:
            return
        end = self._feed.end(self.changelog, seconds)
        self._wait(self.changelog, end, seconds)
        self._apply_the_rest(seconds)

    def _apply_the_rest(self, seconds: float) -> None:
        """The newest commits may have taken events that came after our look at the inbox."""
        for _ in range(LOOKS_AT_INBOX):
            if not self.mirror.waiting:
                return
            self.read_inbox_to_its_end(seconds)
            self.mirror.apply_waiting()
        if self.mirror.waiting and not self.owned:
            raise DamagedData(
                f"{self._settings.place}: {self.inbox.topic}, partition {self.inbox.partition} "
                f"ends at position {self.mirror.inbox.head().next}, and more was folded: brokers "
                "have lost what they had acknowledged. Restore the topic"
            )

    def read_inbox_to_its_end(self, seconds: float = CATCH_UP_SECONDS) -> None:
        end = self._feed.end(self.inbox, seconds)
        self._wait(self.inbox, end, seconds)

    def stop_reading_inbox(self) -> int:
        """All that was acknowledged before is read. Returns the offset behind what was."""
        self.read_inbox_to_its_end()
        reached = self._feed.reached(self.inbox)  # behind the marks of transactions too
        self._feed.leave(self.inbox)
        return max(reached, self.mirror.inbox_sink.next_offset)

    def read_inbox(self) -> None:
        self._feed.follow(self.inbox, self.mirror.inbox_sink)

    def read_inbox_up_to(self, head: Head) -> None:
        """A state is never ahead of the inbox beside it."""
        if self.mirror.is_ahead(head):
            self.read_inbox_to_its_end()

    def _wait(self, place: Place, end: int, seconds: float) -> None:
        """Also until nobody reads there any more: then this process has become the owner."""
        seen, since = self._feed.reached(place), time.monotonic()
        look = min(LOOK_SECONDS, seconds)
        while not self._feed.wait_until(place, end, look) and self._feed.follows(place):
            reached = self._feed.reached(place)
            if reached != seen:
                seen, since = reached, time.monotonic()
            if time.monotonic() - since > seconds:
                raise TimedOut(
                    f"{self._settings.place}: {place.topic}, partition {place.partition} could be "
                    f"read up to {reached}, not {end}: are the brokers up?"
                )

    def is_near(self) -> bool:
        places = [each for each in (self.inbox, self.changelog) if self._feed.follows(each)]
        try:
            return is_near(self._feed, places)
        except TryAgain as trouble:
            _log.warning("partition %d is not looked at yet: %s", self.mirror.number, trouble)
            return False
