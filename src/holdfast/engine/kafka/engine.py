"""The Kafka engine: the parts of this folder behind the port."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial

from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.kafka import planting, rescaling
from holdfast.engine.kafka.capturing import Capturer
from holdfast.engine.kafka.claiming import claims
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.founding import Founded, open_fleet
from holdfast.engine.kafka.handover import Handover
from holdfast.engine.kafka.intake import Intake
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.owning import Ownership
from holdfast.engine.kafka.serving import Owned, ViewServer
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import inbox_topic
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
from holdfast.engine.sqlite.locks import Bell
from holdfast.engine.stamping import Clock, system_clock
from holdfast.errors import Fenced, HoldfastError, TryAgain, UsageError
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame

# How long a standby stays away from its group at most: copies that take longer are made beside it.
PREPARE_SECONDS = 60.0
LOOK_SECONDS = 0.1
ASK_SECONDS = 2.0  # for what is only to be shown

_log = logging.getLogger("holdfast.engine")


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
        self._clock = clock
        self._faults = faults
        self._tidying = threading.Lock()
        self._owned: dict[int, Ownership] = {}
        self._revoked: set[int] = set()
        self._membership: Membership | None = None
        self._server: ViewServer | None = None
        self._bell = Bell()
        self._opened = time.monotonic()
        self._waits_for_copies = False  # then it looks again soon
        self._closed = False
        self._fleet: Founded = open_fleet(settings, fleet, create_partitions)
        try:
            self.catalog = self._fleet.catalog
            feed, appender = self._fleet.feed, self._fleet.appender
            arrived = self._has_arrived
            self._copies = Copies(settings, self.catalog, feed, appender, clock, arrived)
            self._intake = Intake(self._fleet, self._copies, faults)
            self._forwarder = rescaling.Forwarder(self._fleet, self._copies, self.append)
            self._capturer = Capturer(self._fleet, self._copies, clock)
        except BaseException:
            self._fleet.close()
            raise

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
        """With `wanted`, who was fenced never claims again; without, the group has the say."""
        self._check_open()
        if wanted is None:
            yield from self._assigned(generation)
            return
        for number in sorted(self._revoked & self._owned.keys()):
            del self._owned[number]
            yield Revoked(number)
        for number in wanted:
            if number not in self._owned and number not in self._revoked:
                yield Granted(self._claim(number, generation))

    def _assigned(self, generation: int) -> Iterator[Granted | Revoked]:
        """What the group of workers has assigned, once the copy of it is up to date."""
        first = self.catalog.layout.first
        if (membership := self._membership) is None:
            if not self._is_prepared():
                return
            membership = self._join(first)
        for number in self._revoked & self._owned.keys():
            del self._owned[number]  # whoever folded it has been told
            membership.let_go(number - first)
        self._revoked.clear()
        wanted = {first + index for index in membership.assigned()}
        for number in sorted(self._owned.keys() - wanted):
            self._owned.pop(number).release()
            membership.let_go(number - first)
            yield Revoked(number)
        new = sorted(wanted - self._owned.keys())
        take = partial(self._take, membership, generation)
        for number, taken in claims(new, take):
            if isinstance(taken, TryAgain):  # it is looked at again, and others are not held up
                _log.warning("partition %d cannot be had yet: %s", number, taken)
            elif taken is not None:
                yield Granted(taken)
        self._waits_for_copies = bool(wanted - self._owned.keys())
        if self.settings.standby:
            self._follow_all()

    def _is_prepared(self) -> bool:
        """A standby has all copies before it joins: what others fold pauses once it is here."""
        if not self.settings.standby:
            return True
        copies = self._follow_all()
        complete = len(copies) == len(self.catalog.layout.numbers)
        near = complete and all(each.is_near() for each in copies)
        late = time.monotonic() - self._opened > PREPARE_SECONDS
        self._waits_for_copies = not (near or late)
        return near or late

    def _follow_all(self) -> list[Following]:
        found = []
        for number in self.catalog.layout.numbers:
            try:
                found.append(self._copies.of(number))
            except TryAgain as trouble:
                _log.warning("partition %d cannot be copied yet: %s", number, trouble)
        return found

    def _take(self, membership: Membership, generation: int, number: int) -> Claim | None:
        """None while the copy lacks much: others may fold on until it has it."""
        if not self._copies.of(number).is_near():
            return None
        index = number - self.catalog.layout.first
        membership.hold(index)
        try:
            return self._claim(number, generation)
        except BaseException:
            membership.let_go(index)  # or whoever is to have it next would wait for us
            raise

    def _join(self, first: int) -> Membership:
        topic = inbox_topic(self.settings.prefix or "", first)
        place = self._copies.place
        named = self.settings.instance is not None
        name = place.member_name(self.settings.session_seconds) if named else None
        self._membership = Membership(self.settings, topic, name, self.wake)
        if (host := self.settings.serving_host) is not None:
            self._server = ViewServer(self._look_at_owned, host=host)
        return self._membership

    def _look_at_owned(self, number: int) -> Owned | None:
        owned = self._owned.get(number)
        if owned is None or number in self._revoked or self._closed:
            return None
        return Owned(owned.claim.epoch, MirrorView(self._copies.of(number)))

    def _claim(self, number: int, generation: int) -> Claim:
        self._check_lives(number)
        place = self._copies.place
        owned = Ownership(
            self._copies.of(number),
            generation,
            lambda: place.noted(number),
            self._faults,
            self._membership,
            self._handover(number),
        )
        try:
            place.note(number, None)
            self.catalog.set_intake(number, closed=False)
            self._check_lives(number)  # a rescaling may have been faster
        except BaseException:
            owned.release()
            raise
        self._owned[number] = owned
        paused = owned.handover.paused_seconds
        _log.info("partition %d is ours; what waits there came %.1f s ago", number, paused)
        return owned.claim

    def _handover(self, number: int) -> Handover:
        address = "" if self._server is None else self._server.address
        machine = self._copies.place.machine
        return Handover(self._fleet.owners, number, address, machine, self._clock)

    def _check_lives(self, number: int) -> None:
        if number not in self.catalog.layout.numbers:
            raise Fenced(f"partition {number} is retired: the fleet was rescaled")

    def load(self, claim: Claim) -> Loaded:
        following = self._copies.of(claim.partition)
        if not following.owned:
            following.catch_up()
        mirror, view = following.mirror, following.mirror.view
        stamp = mirror.inbox.head().stamp
        return Loaded(view.head(), view.sent_next(), [], view.everything(), stamp)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            owned = self._ownership(claim)
            try:
                owned.commit(commit)
            except Fenced:
                self._revoked.add(claim.partition)
                owned.release()
                raise

    def _ownership(self, claim: Claim) -> Ownership:
        self._check_open()
        owned = self._owned.get(claim.partition)
        if owned is None or owned.claim.epoch != claim.epoch or claim.partition in self._revoked:
            raise Fenced(f"partition {claim.partition}: not claimed here")
        return owned

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
        self._ownership(claim).check()
        self._check_lives(claim.partition)
        self.catalog.set_intake(claim.partition, closed=closed)

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        check_count(partitions)
        owned = {claim.partition: self._ownership(claim) for claim in claims}
        rescaling.rescale(self._fleet, self._copies, owned, partitions, self._faults)
        for number in owned:
            self._owned.pop(number).release()

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
        seconds = min(seconds, LOOK_SECONDS) if self._waits_for_copies else seconds
        if poll.poll(seconds * 1000):
            os.read(self._bell.descriptor, 8)

    def wake(self) -> None:
        self._bell.ring()

    def _has_arrived(self, number: int) -> None:
        if number in self._owned:
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
                    self._look_after_owned(following)
                    if following.mirror.number == self.catalog.layout.first in self._owned:
                        self._forwarder.look()
                except HoldfastError as trouble:
                    troubles.append(trouble)
        if troubles:
            raise troubles[0]

    def _look_after_owned(self, following: Following) -> None:
        mirror = following.mirror
        owned = self._owned.get(mirror.number)
        if owned is not None:
            waiting = mirror.inbox.head().next - mirror.view.head().position
            most = self.limits.backlog_events_max
            epoch = owned.claim.epoch
            told = self._fleet.owners.notice_of_backlog(mirror.number, epoch, waiting, most)
            if told is not None:
                self._fleet.appender.write(*told.place, told.value, key=told.key)
            self._copies.bases.look(following)

    def make_base_copies(self) -> None:
        """Now, of every partition that is owned here: so that others can begin with them."""
        for number in sorted(self._owned):
            self._copies.bases.make(self._copies.of(number))

    def close(self) -> None:
        """First whoever asks us, then whom we hear, then what we have."""
        if self._closed:
            return
        for number, owned in self._owned.items():
            if number not in self._revoked and not owned.take_leave():
                break  # brokers that do not hear us need not be told the rest
        self._closed = True
        if self._server is not None:
            self._server.close()
        if self._membership is not None:
            self._membership.close()
        with self._tidying:
            for owned in self._owned.values():
                owned.close()
            self._fleet.close()
            self._capturer.close()
            self._copies.close()
