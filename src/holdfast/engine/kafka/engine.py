"""The Kafka engine: the parts of this folder behind the port."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Iterator, Sequence

from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.inheritance import refuses
from holdfast.engine.kafka import planting, rescaling
from holdfast.engine.kafka.capturing import Capturer
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.founding import Founded, open_fleet
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.owners import Owner
from holdfast.engine.kafka.owning import Ownership
from holdfast.engine.kafka.records import bundles, following_of, pack_parcels
from holdfast.engine.kafka.serving import Owned, ViewServer
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import inbox_topic
from holdfast.engine.kafka.view import view_of
from holdfast.engine.port import (
    APPEND_SECONDS,
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
        self._closed = False
        self._fleet: Founded = open_fleet(settings, fleet, create_partitions)
        try:
            self.catalog = self._fleet.catalog
            feed, appender = self._fleet.feed, self._fleet.appender
            arrived = self._has_arrived
            self._copies = Copies(settings, self.catalog, feed, appender, clock, arrived)
            self._forwarder = rescaling.Forwarder(self._fleet, self._copies, self.append)
            self._capturer = Capturer(self._fleet, self._copies, clock)
        except BaseException:
            self._fleet.close()
            raise

    # Producers.

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        """One record, so that they are taken together."""
        self._check_open()
        if partition not in self.catalog.layout.numbers:
            return [refuses(f"partition {partition}")] * len(parcels)
        self._faults("append.before")
        place = self._copies.inbox_of(partition)
        taken: dict[int, Taken | Exception] = dict.fromkeys(range(len(parcels)), Taken(0, 0, 0.0))
        if partition in self.catalog.closed_intakes:
            late = [i for i, parcel in enumerate(parcels) if parcel.mark is None]
            taken |= dict.fromkeys(late, refuses(f"partition {partition}"))
        self._faults("append.inside")
        for bundle in bundles(parcels, [i for i, one in taken.items() if isinstance(one, Taken)]):
            value, headers = pack_parcels([parcels[i] for i in bundle])
            try:
                written = self._fleet.appender.write(*place, value, headers, wait_seconds)
            except UsageError as refusal:
                taken |= dict.fromkeys(bundle, refusal)
                continue
            for index, i in enumerate(bundle):
                following = following_of(written.offset, index)
                taken[i] = Taken(following, parcels[i].frame.count, written.stamp)
        self._faults("append.after")
        return list(taken.values())

    # Owners.

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        return self.view(partition).frames(position, events_max)

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        """Whoever is told to want a partition claims it; who was fenced never claims again."""
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
        membership = self._membership or self._join(first)
        for number in self._revoked & self._owned.keys():
            del self._owned[number]  # whoever folded it has been told
        self._revoked.clear()
        wanted = {first + index for index in membership.assigned()}
        for number in sorted(self._owned.keys() - wanted):
            self._owned.pop(number).release()
            membership.let_go(number - first)
            yield Revoked(number)
        for number in sorted(wanted - self._owned.keys()):
            try:
                if self._copies.of(number).is_near():
                    membership.hold(number - first)
                    yield Granted(self._claim(number, generation))
            except TryAgain as trouble:  # it is looked at again, and others are not held up
                _log.warning("partition %d cannot be had yet: %s", number, trouble)
        if self.settings.standby:
            for number in self.catalog.layout.numbers:
                self._copies.of(number)

    def _join(self, first: int) -> Membership:
        topic = inbox_topic(self.settings.prefix or "", first)
        place = self._copies.place
        name = f"{place.machine}.{place.name}" if self.settings.instance is not None else None
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
        address = "" if self._server is None else self._server.address
        owned = Ownership(
            self._copies.of(number),
            generation,
            lambda: place.noted(number),
            self._faults,
            self._membership,
        )
        place.note(number, None)
        self.catalog.set_intake(number, closed=False)
        self._owned[number] = owned
        self._fleet.owners.tell(number, Owner(owned.claim.epoch, address, place.machine))
        self._tell_pause(number)
        return owned.claim

    def _tell_pause(self, number: int) -> None:
        """For how long nobody folded, as far as anybody has noticed."""
        mirror = self._copies.of(number).mirror
        waiting = mirror.inbox.read(mirror.view.head().position, 1)
        paused = self._clock().wall - waiting[0].stamp if waiting else 0.0
        _log.info("partition %d is ours; what waits there came %.1f s ago", number, paused)

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
        if poll.poll(seconds * 1000):
            os.read(self._bell.descriptor, 8)

    def wake(self) -> None:
        self._bell.ring()

    def _has_arrived(self, number: int) -> None:
        if number in self._owned:
            self._bell.ring()

    # Readers.

    def view(self, partition: int) -> View:
        self._check_open()
        owners = self._fleet.owners if partition in self.catalog.layout.numbers else None
        return view_of(partition, self._copies, owners)

    def folds_here(self, partition: int) -> bool:
        owner = self._fleet.owners.told_of(partition)
        return owner is not None and owner.machine == self._copies.place.machine

    def check_nobody_folds(self) -> None:
        """InUse where workers run. Those that have ended count for as long as their session."""
        self._fleet.check_group_is_empty(f"{self.settings.prefix}.workers")

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
                    if following.mirror.number in self._owned:
                        self._copies.bases.look(following)
                    if following.mirror.number == self.catalog.layout.first in self._owned:
                        self._forwarder.look()
                except HoldfastError as trouble:
                    troubles.append(trouble)
        if troubles:
            raise troubles[0]

    def make_base_copies(self) -> None:
        """Now, of every partition that is owned here: so that others can begin with them."""
        for number in sorted(self._owned):
            self._copies.bases.make(self._copies.of(number))

    def close(self) -> None:
        """First whoever asks us, then whom we hear, then what we have."""
        if self._closed:
            return
        for number, owned in self._owned.items():
            if number not in self._revoked:
                self._fleet.owners.tell(number, Owner(owned.claim.epoch, "", ""))
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
