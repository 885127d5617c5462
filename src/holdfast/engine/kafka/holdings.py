"""What this process owns: partitions that it was given, by name or by the group of workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.claiming import claims
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.founding import Founded
from holdfast.engine.kafka.handover import Handover
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.owning import Ownership
from holdfast.engine.kafka.serving import Owned, ViewServer
from holdfast.engine.kafka.topics import inbox_topic
from holdfast.engine.port import Claim, Granted, Revoked
from holdfast.engine.stamping import Clock
from holdfast.errors import Fenced, TryAgain
from holdfast.stepping.commit import Commit

# How long a standby stays away from its group at most: copies that take longer are made beside it.
PREPARE_SECONDS = 60.0

COPY_SECONDS = 5.0  # to wait for a copy before it is told: nobody folds the partition meanwhile
TELL_SECONDS = 60.0  # between two lines that say the same of a partition

_log = logging.getLogger("holdfast.engine")


class Holdings:
    """Changed by the worker's thread alone, and by those that claim for it; others look."""

    def __init__(
        self,
        fleet: Founded,
        copies: Copies,
        clock: Clock,
        faults: FaultPoints,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called where the group has given or taken partitions."""
        self._fleet = fleet
        self._settings = fleet.settings
        self._catalog = fleet.catalog
        self._copies = copies
        self._clock = clock
        self._faults = faults
        self._changed = changed
        self._owned: dict[int, Ownership] = {}
        self._revoked: set[int] = set()
        self._membership: Membership | None = None
        self._server: ViewServer | None = None
        self._opened = time.monotonic()
        self._left = False
        self._told: dict[int, tuple[str, float]] = {}
        self._not_near: dict[int, float] = {}  # since when
        self.waits_for_copies = False  # then it looks again soon

    # Given and taken.

    def named(self, wanted: Sequence[int], generation: int) -> Iterator[Granted | Revoked]:
        """Those that are named; who was fenced never claims again."""
        for number in sorted(self._revoked & self._owned.keys()):
            del self._owned[number]
            yield Revoked(number)
        for number in wanted:
            if number not in self._owned and number not in self._revoked:
                yield Granted(self._claim(number, generation))

    def assigned(self, generation: int) -> Iterator[Granted | Revoked]:
        """What the group of workers has assigned, once the copy of it is up to date."""
        first = self._catalog.layout.first
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
            self.release(number)
            membership.let_go(number - first)
            yield Revoked(number)
        new = sorted(wanted - self._owned.keys())
        take = partial(self._take, membership, generation)
        not_near = set()
        for number, taken in claims(new, take):
            if isinstance(taken, TryAgain):  # it is looked at again, and others are not held up
                self._tell(number, f"cannot be had yet: {taken}")
            elif taken is None:
                not_near.add(number)
            else:
                yield Granted(taken)
        self._tell_of_copies(not_near)
        self.waits_for_copies = bool(wanted - self._owned.keys())
        if self._settings.standby:
            self._follow_all()

    def _is_prepared(self) -> bool:
        """A standby has all copies before it joins: what others fold pauses once it is here."""
        if not self._settings.standby:
            return True
        copies = self._follow_all()
        complete = len(copies) == len(self._catalog.layout.numbers)
        near = complete and all(each.is_near() for each in copies)
        late = time.monotonic() - self._opened > PREPARE_SECONDS
        self.waits_for_copies = not (near or late)
        return near or late

    def _follow_all(self) -> list[Following]:
        found = []
        for number in self._catalog.layout.numbers:
            try:
                found.append(self._copies.of(number))
            except TryAgain as trouble:
                self._tell(number, f"cannot be copied yet: {trouble}")
        return found

    def _tell(self, number: int, what: str) -> None:
        told, when = self._told.get(number, ("", 0.0))
        now = time.monotonic()
        if what != told or now - when > TELL_SECONDS:
            _log.warning("partition %d %s", number, what)
            self._told[number] = what, now

    def _tell_of_copies(self, waiting: set[int]) -> None:
        now = time.monotonic()
        self._not_near = {number: self._not_near.get(number, now) for number in waiting}
        for number, since in self._not_near.items():
            if now - since > COPY_SECONDS:
                self._tell(number, "waits for its copy here, and nobody folds it meanwhile")

    def _join(self, first: int) -> Membership:
        settings = self._settings
        topic = inbox_topic(settings.prefix or "", first)
        named = settings.instance is not None
        name = self._copies.place.member_name(settings.session_seconds) if named else None
        self._membership = Membership(settings, topic, name, self._changed)
        if (host := settings.serving_host) is not None:
            self._server = ViewServer(self._look_at, host=host)
        return self._membership

    def _take(self, membership: Membership, generation: int, number: int) -> Claim | None:
        """None while the copy lacks much: others may fold on until it has it."""
        if not self._copies.of(number).is_near():
            return None
        index = number - self._catalog.layout.first
        membership.hold(index)
        try:
            return self._claim(number, generation)
        except BaseException:
            membership.let_go(index)  # or whoever is to have it next would wait for us
            raise

    def _claim(self, number: int, generation: int) -> Claim:
        self.check_lives(number)
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
            self._catalog.set_intake(number, closed=False)
            self.check_lives(number)  # a rescaling may have been faster
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

    def check_lives(self, number: int) -> None:
        if number not in self._catalog.layout.numbers:
            raise Fenced(f"partition {number} is retired: the fleet was rescaled")

    # Owned.

    def __contains__(self, number: int) -> bool:
        return number in self._owned

    def get(self, number: int) -> Ownership | None:
        return self._owned.get(number)

    def numbers(self) -> list[int]:
        return sorted(self._owned)

    def of(self, claim: Claim) -> Ownership:
        """Fenced where it is not ours any more."""
        owned = self._owned.get(claim.partition)
        if owned is None or owned.claim.epoch != claim.epoch or claim.partition in self._revoked:
            raise Fenced(f"partition {claim.partition}: not claimed here")
        return owned

    def commit(self, claim: Claim, commit: Commit) -> None:
        owned = self.of(claim)
        try:
            owned.commit(commit)
        except Fenced:
            self._revoked.add(claim.partition)
            owned.release()
            raise

    def release(self, number: int) -> None:
        self._owned.pop(number).release()

    def _look_at(self, number: int) -> Owned | None:
        """For readers elsewhere."""
        owned = self._owned.get(number)
        if owned is None or number in self._revoked or self._left:
            return None
        return Owned(owned.claim.epoch, MirrorView(self._copies.of(number)))

    # The end.

    def leave(self) -> None:
        """Nobody asks us any more, and the group gives us nothing. After that it can be closed."""
        for number, owned in self._owned.items():
            if number not in self._revoked and not owned.take_leave():
                break  # brokers that do not hear us need not be told the rest
        self._left = True
        if self._server is not None:
            self._server.close()
        if self._membership is not None:
            self._membership.close()

    def close(self) -> None:
        for owned in self._owned.values():
            owned.close()
