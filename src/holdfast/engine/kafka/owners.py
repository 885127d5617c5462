"""Who owns which partition, and where they answer: a compacted topic that every handle follows.

It is a hint and decides nothing: the changelog does. What it says of an owner that is gone only
costs whoever believes it a moment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from confluent_kafka import Message

from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.topics import owners_topic

UNANSWERED_SECONDS = 10.0

_log = logging.getLogger("holdfast.engine")


class Owner(NamedTuple):
    epoch: int
    address: str  # empty: it answers nobody
    machine: str  # where its copies are
    # How long the oldest event that waited at the handover has waited for its commit; 0.0 if none
    # did. By the clocks of the broker and of the new owner.
    paused_seconds: float = 0.0
    full: bool = False  # more waits there than may: senders are refused


class Notice(NamedTuple):
    """A record of this topic, for a transaction that makes it true."""

    place: Place
    key: bytes
    value: bytes


class Owners:
    full = False

    def __init__(self, prefix: str, feed: Feed) -> None:
        self._place = Place(owners_topic(prefix), 0)
        self._feed = feed
        self._known: dict[int, Owner] = {}
        self._outdated: set[int] = set()  # of these the newest record is of an owner before
        self._silent_until: dict[str, float] = {}  # by address
        self.next_offset = feed.beginning(self._place)
        feed.follow(self._place, self)

    def of(self, number: int) -> Owner | None:
        """None also where it did not answer a moment ago: its other partitions wait for nobody."""
        owner = self._known.get(number)
        if owner is None or time.monotonic() < self._silent_until.get(owner.address, 0.0):
            return None
        return owner

    def told_of(self, number: int) -> Owner | None:
        return self._known.get(number)

    def has_left(self, number: int) -> bool:
        """Whether its last owner has said goodbye. One that was killed has not."""
        owner = self._known.get(number)
        return owner is not None and not owner.machine

    def paused_seconds(self, number: int, seconds: float) -> float | None:
        """At the last handover that anybody told of until now; None: of none."""
        self._feed.wait_until(self._place, self._feed.end(self._place), seconds)
        owner = self._known.get(number)
        return None if owner is None else owner.paused_seconds

    def note_silent(self, address: str) -> None:
        self._silent_until[address] = time.monotonic() + UNANSWERED_SECONDS

    def take(self, records: Sequence[Message]) -> None:
        for record in records:
            try:
                number = int(record.key() or b"")
                owner = msgspec.json.decode(record.value() or b"", type=Owner)
            except (ValueError, msgspec.MsgspecError):
                _log.warning("%s: passed over what is none of ours", self._place.topic)
            else:
                known = self._known.get(number)
                if known is None or owner.epoch >= known.epoch:
                    self._known[number] = owner
                    self._outdated.discard(number)
                else:
                    self._outdated.add(number)
            self.next_offset = (record.offset() or 0) + 1

    def news(self, number: int, epoch: int, waiting: int, most: int) -> Notice | None:
        """For the owner, now and then, if it has to tell anything: who is refused may come back
        once half of it is folded. What one before it told late would be all that is kept."""
        owner = self._known.get(number)
        if owner is None or owner.epoch != epoch:
            return None  # what we told of ourselves has not come back yet
        full = waiting > (most // 2 if owner.full else most)
        if full != owner.full:
            now = "refused" if full else "let in again"
            _log.warning("partition %d: %d events wait: senders are %s", number, waiting, now)
        elif number not in self._outdated:
            return None
        return self.notice(number, owner._replace(full=full))

    def notice(self, number: int, owner: Owner) -> Notice:
        return Notice(self._place, str(number).encode(), msgspec.json.encode(owner))
