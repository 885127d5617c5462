"""The Kafka engine: the parts of this folder behind the port."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator, Sequence

from holdfast.engine.bell import Bell
from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.kafka import planting, rescaling
from holdfast.engine.kafka.capturing import Capturer
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.founding import open_fleet
from holdfast.engine.kafka.holdings import Holdings
from holdfast.engine.kafka.intake import Intake
from holdfast.engine.kafka.lines import SHARED
from holdfast.engine.kafka.owning import Ownership
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.view import view_of
from holdfast.engine.port import (
    APPEND_SECONDS,
    VIEW_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Images,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
    View,
)
from holdfast.engine.sqlite.folders import check_count
from holdfast.engine.stamping import Clock, system_clock
from holdfast.errors import HoldfastError, UsageError
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame

LOOK_SECONDS = 0.1  # at copies that are not near yet
ASK_SECONDS = 2.0  # for what is only to be shown


class KafkaEngine:
    capabilities = Capabilities(
        several_processes=True,
        survives_exit=True,
        refuses_at_append=False,
        delivers_messages=True,
        assigns=True,
        rescales=True,
        captures=True,
    )

    def __init__(
        self,
        settings: KafkaSettings,
        fleet: str | None = None,
        create_partitions: int | None = None,
        clock: Clock = system_clock,
        faults: FaultPoints = no_faults,
    ) -> None:
        """The fleet under the prefix of `settings`; made with `create_partitions` if missing."""
        self.settings = settings
        self.limits: Limits = settings.limits
        self._faults = faults
        self._tidying = threading.Lock()
        self._closed = False
        self._fleet = open_fleet(settings, fleet, create_partitions)
        self._bell = Bell()
        try:
            self.catalog = self._fleet.catalog
            feed, appender = self._fleet.feed, self._fleet.appender
            self._copies = Copies(settings, self.catalog, feed, appender, clock, self._has_arrived)
            self._holdings = Holdings(self._fleet, self._copies, clock, faults, self.wake)
            self._intake = Intake(self._fleet, self._copies, faults)
            self._forwarder = rescaling.Forwarder(self._fleet, self._copies, self.append)
            self._capturer = Capturer(self._fleet, self._copies, clock)
        except BaseException:
            self._fleet.close()
            self._bell.close()
            raise
        SHARED.opened()

    # Producers.

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        self._check_open()
        return self._intake.append(partition, parcels, wait_seconds)

    # Owners.

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return self.view(partition).frames(position, events_max)

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        self._check_open()
        if wanted is None:
            return self._holdings.assigned(generation)
        return self._holdings.named(wanted, generation)

    def load(self, claim: Claim) -> Loaded:
        following = self._copies.of(claim.partition)
        if not following.owned:
            following.catch_up()
        mirror, view = following.mirror, following.mirror.view
        stamp = mirror.inbox.head().stamp
        return Loaded(view.head(), view.sent_next(), [], view.everything(), stamp)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        self._check_open()
        for claim, commit in batches:
            self._holdings.commit(claim, commit)

    def compact(self, claim: Claim, images: Images) -> None:
        self._check_open()
        state = self._copies.of(claim.partition).mirror.state
        if state.wants_compaction:
            state.try_to_compact(claim, images)

    # Rescaling and capturing.

    def close_intake(self, claim: Claim) -> None:
        self._set_intake(claim, closed=True)

    def open_intake(self, claim: Claim) -> None:
        self._set_intake(claim, closed=False)

    def _set_intake(self, claim: Claim, *, closed: bool) -> None:
        self._check_open()
        self._holdings.of(claim).check()
        self._holdings.check_lives(claim.partition)
        self.catalog.set_intake(claim.partition, closed=closed)

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        self._check_open()
        check_count(partitions)
        owned = {claim.partition: self._holdings.of(claim) for claim in claims}
        rescaling.rescale(self._fleet, self._copies, owned, partitions, self._faults)
        for number in owned:
            self._holdings.release(number)

    def capture(self) -> Contents:
        self._check_open()
        return self._capturer.capture()

    @staticmethod
    def plant(settings: KafkaSettings, contents: Contents, faults: FaultPoints = no_faults) -> None:
        planting.plant(settings, contents, faults)

    # Waiting.

    def folding(self, claim: Claim, position: int | None) -> None:
        self._copies.place.note(claim.partition, position)

    def wait(self, seconds: float) -> None:
        self._check_open()
        poll = select.poll()
        poll.register(self._bell.descriptor, select.POLLIN)
        seconds = min(seconds, LOOK_SECONDS) if self._holdings.waits_for_copies else seconds
        if poll.poll(seconds * 1000):
            os.read(self._bell.descriptor, 8)

    def wake(self) -> None:
        self._bell.ring()

    def _has_arrived(self, number: int) -> None:
        if number in self._holdings:
            self._bell.ring()

    # Readers.

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> View:
        self._check_open()
        owners = self._fleet.owners if partition in self.catalog.layout.numbers else None
        return view_of(partition, self._copies, owners, wait_seconds)

    def hides(self, partition: int) -> bool:
        """Behind an open transaction nothing can be read: its owner may have died in it."""
        self._check_open()
        return self._copies.hides(partition)

    def paused_seconds(self, partition: int) -> float | None:
        self._check_open()
        return self._fleet.owners.paused_seconds(partition, ASK_SECONDS)

    def folds_here(self, partition: int) -> bool:
        owner = self._fleet.owners.told_of(partition)
        return owner is not None and owner.machine == self._copies.place.machine

    def check_nobody_folds(self) -> None:
        """InUse where workers run. Those that have ended count for as long as their session."""
        self._fleet.check_group_is_empty()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.settings.place}: this handle is closed: open another")

    # Upkeep.

    def maintain(self) -> None:
        if self._closed:
            return
        troubles: list[HoldfastError] = []
        with self._tidying:  # two at once would find files gone under their hands
            for following in self._copies.all():
                try:
                    following.mirror.maintain()
                    if (owned := self._holdings.get(following.mirror.number)) is not None:
                        self._look_after(owned, following)
                except HoldfastError as trouble:
                    troubles.append(trouble)
        if troubles:
            raise troubles[0]

    def _look_after(self, owned: Ownership, following: Following) -> None:
        number, mirror = owned.claim.partition, following.mirror
        waiting = mirror.inbox.head().next - mirror.view.head().position
        most = self.limits.backlog_events_max
        news = self._fleet.owners.news(number, owned.claim.epoch, waiting, most)
        if news is not None:
            self._fleet.appender.write(*news.place, news.value, key=news.key)
        self._copies.bases.look(following)
        if number == self.catalog.layout.first:
            self._forwarder.look()

    def make_base_copies(self) -> None:
        """Now, of every partition that is owned here: so that others can begin with them."""
        for number in self._holdings.numbers():
            self._copies.bases.make(self._copies.of(number))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._holdings.leave()
        with self._tidying:
            self._holdings.close()
            self._fleet.close()
            self._capturer.close()
            self._copies.close()
        self._bell.close()
        SHARED.closed()
