"""The SQLite engine: the parts of this folder behind the port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.engine.contents import Contents
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.local import OneMachine
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
)
from holdfast.engine.sqlite import capturing, planting, rescaling, state
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.files import damaged, explained, make_durably, sync_path, wal_bytes
from holdfast.engine.sqlite.folders import check_count, folder_of, lay_out
from holdfast.engine.sqlite.inbox import SqliteInbox
from holdfast.engine.sqlite.locks import HolderLock, ProcessIdentity, Turnstile
from holdfast.engine.sqlite.state import SqliteState
from holdfast.engine.sqlite.view import SqliteView
from holdfast.engine.sqlite.waking import Waiting
from holdfast.engine.stamping import Clock, system_clock
from holdfast.errors import Fenced, HoldfastError, UsageError
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame
from holdfast.stepping.lane import LANE

WAL_BYTES_BEFORE_CHECKPOINT = 4 * 1024 * 1024
WAL_BYTES_MAX = 64 * 1024 * 1024  # then at once; at twice that it is also cut
CHECKPOINT_SECONDS = 0.9  # at every turn of upkeep: short ones slow the commits beside them less
FORGET_EVERY_SECONDS = 60.0


class SqliteEngine(OneMachine):
    capabilities = Capabilities(
        several_processes=True,
        survives_exit=True,
        refuses_at_append=True,
        delivers_messages=False,
        rescales=True,
        captures=True,
    )

    def __init__(
        self,
        root: Path,
        limits: Limits | None = None,
        clock: Clock = system_clock,
        faults: FaultPoints = no_faults,
    ) -> None:
        self.root = root
        self.limits = limits or Limits()
        self.catalog = SqliteCatalog(root)
        self.holder = HolderLock(root / "holder.lock")
        self._clock = clock
        self._faults = faults
        self._lock = threading.Lock()
        self._views: dict[int, SqliteView] = {}
        self._inboxes: dict[int, SqliteInbox] = {}
        self._states: dict[int, SqliteState] = {}
        self._claims: dict[int, Claim] = {}
        self._revoked: set[int] = set()
        self._waiting = Waiting()
        self._tidying = threading.Lock()
        self._forgot = time.monotonic()
        self._closed = False
        self._checkpointed: dict[int, float] = {}

    @staticmethod
    def create(root: Path, fleet: str, partitions: int) -> None:
        """Lay out an empty directory. The catalog comes last: without it nothing is there."""
        check_root(root)
        check_count(partitions)
        with explained(root):
            make_durably(root)
            lock = HolderLock(root / "create.lock")
            lock.acquire()
            try:
                if not SqliteCatalog.exists(root):
                    lay_out(root, partitions)
                    SqliteCatalog.create(root, fleet, partitions)
                else:
                    sync_path(root)  # who made it may have been killed before that
            finally:
                lock.release()

    # Producers.

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        return self._inbox(partition).append(parcels, wait_seconds)

    # Owners.

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        frames = self._inbox(partition).read(position, events_max)
        if frames and frames[0].first > position:
            folder = folder_of(self.root, partition) / "inbox"
            raise damaged(folder, f"events {position} to {frames[0].first} are missing")
        return frames

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        """Whoever is told to want a partition claims it; who was fenced never claims again."""
        self._check_open()
        for number in sorted(self._revoked & self._claims.keys()):
            del self._claims[number]
            yield Revoked(number)
        for number in wanted or ():
            if number not in self._claims and number not in self._revoked:
                owned = SqliteState(folder_of(self.root, number), self._faults)
                try:
                    claim = owned.claim(number, generation, partial(self._prepare, number))
                except BaseException:
                    owned.close()
                    raise
                self._states[number] = owned
                self._claims[number] = claim
                self._free_inboxes(owned.predecessor)
                yield Granted(claim)

    def _prepare(self, number: int) -> None:
        """Before a claim: it lives, and a rescaling that was cut short keeps no intake closed."""
        if self._inbox(number).head().closed:
            self.catalog.settle()
        self._check_lives(number)
        if self.view(number).is_retired():
            raise damaged(self.root / "fleet.db", "a rescaling is missing in it")
        self._inbox(number).set_intake(closed=False)
        self._waiting.listen(folder_of(self.root, number))

    def _check_lives(self, number: int) -> None:
        if number not in self.catalog.layout.numbers:
            raise Fenced(f"{folder_of(self.root, number)}: retired, the fleet was rescaled")

    def _free_inboxes(self, predecessor: ProcessIdentity | None) -> None:
        """A worker stopped while it appends holds an inbox that all others need: end it."""
        if predecessor is None or not predecessor.stopped:
            return
        folders = [folder_of(self.root, n) for n in self.catalog.layout.numbers]
        if any(predecessor.pid in Turnstile.holders(folder, "append") for folder in folders):
            predecessor.end()

    def load(self, claim: Claim) -> Loaded:
        view = self.view(claim.partition)
        view.check()
        inbox = self._inbox(claim.partition).head()
        head = view.head()
        path = folder_of(self.root, claim.partition)
        if inbox.incarnation != claim.incarnation:
            raise damaged(path, "inbox and state come from different partitions")
        if inbox.next < head.position:
            raise damaged(
                path, f"the inbox ends at {inbox.next}, the state has folded up to {head.position}"
            )
        if view.inbox_first() > head.position:
            raise damaged(
                path / "inbox", f"events {head.position} to {view.inbox_first()} are missing"
            )
        lane = self.read(claim.partition, LANE + head.urgent, 1)
        if inbox.urgent != head.urgent and (not lane or lane[0].first != LANE + head.urgent):
            raise damaged(path / "inbox", f"urgent events from {head.urgent} on are missing")
        return Loaded(head, view.sent_next(), view.outbox(), view.everything(), inbox.stamp)

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            owned = self._owned(claim)
            try:
                owned.commit(claim, commit)
            except Fenced:
                self._revoked.add(claim.partition)
                raise

    def compact(self, claim: Claim, images: Images) -> None:
        self._check_open()
        owned = self._states.get(claim.partition)
        if owned is not None and owned.wants_compaction:
            owned.try_to_compact(claim, images)

    # Rescaling.

    def close_intake(self, claim: Claim) -> None:
        self._set_intake(claim, closed=True)

    def open_intake(self, claim: Claim) -> None:
        self._set_intake(claim, closed=False)

    def _set_intake(self, claim: Claim, *, closed: bool) -> None:
        with self._owned(claim).held(claim):
            if not closed:
                self.catalog.settle()
            self._check_lives(claim.partition)
            self._inbox(claim.partition).set_intake(closed=closed)

    def _owned(self, claim: Claim) -> SqliteState:
        self._check_open()
        owned = self._states.get(claim.partition)
        if owned is None:
            raise Fenced(f"{folder_of(self.root, claim.partition)}: not claimed here")
        return owned

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        check_count(partitions)
        parents = [
            rescaling.Parent(
                claim,
                self._owned(claim),
                self.view(claim.partition),
                self._inbox(claim.partition),
            )
            for claim in sorted(claims, key=lambda claim: claim.partition)
        ]
        rescaling.rescale(self.root, self.catalog, parents, partitions, self.limits, self._faults)
        with self._tidying:  # upkeep has them in its hands
            for parent in parents:
                number = parent.claim.partition
                self._claims.pop(number, None)
                self._states.pop(number).close()
                self._waiting.stop_listening(folder_of(self.root, number))

    # Capturing.

    def capture(self) -> Contents:
        numbers = [*self.catalog.retired, *self.catalog.layout.numbers]
        return capturing.capture(self.root, self.catalog, {n: self._inbox(n) for n in numbers})

    @staticmethod
    def plant(root: Path, contents: Contents, faults: FaultPoints = no_faults) -> None:
        planting.plant(root, contents, faults)

    def folding(self, claim: Claim, position: int | None) -> None:
        self._owned(claim).folding(position)

    def wait(self, seconds: float) -> None:
        self._check_open()
        self._waiting.wait(seconds)

    def wake(self) -> None:
        self._waiting.bell.ring()

    # Readers.

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> SqliteView:
        with self._lock:
            view = self._views.get(partition)
            if view is None:  # a closed engine has none
                inbox = self._inbox_unlocked(partition)
                view = self._views[partition] = SqliteView(folder_of(self.root, partition), inbox)
            return view

    def _inbox(self, partition: int) -> SqliteInbox:
        with self._lock:
            return self._inbox_unlocked(partition)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.root}: this handle is closed: open another")

    def _inbox_unlocked(self, partition: int) -> SqliteInbox:
        self._check_open()
        inbox = self._inboxes.get(partition)
        if inbox is None:
            inbox = self._inboxes[partition] = self._new_inbox(partition)
        return inbox

    def _new_inbox(self, partition: int) -> SqliteInbox:
        folder = folder_of(self.root, partition)
        with explained(folder):
            return SqliteInbox(
                folder,
                self.limits,
                self._clock,
                self._faults,
                standing=lambda: self.view(partition).head(),
            )

    # Upkeep.

    def keep_from(self, partition: int, position: int | None) -> None:
        """Retention by age leaves events from there on; past `retain_bytes` they go all the same.

        In every process, until it is said again; None ends it.
        """
        self._inbox(partition).kept.set(position)

    def maintain(self) -> None:
        """Every partition, also if another one has trouble; then the first trouble is raised."""
        with self._tidying:  # two at once would find files gone under their hands
            self._maintain_all()

    def _maintain_all(self) -> None:
        troubles: list[HoldfastError] = []
        forget = time.monotonic() - self._forgot > FORGET_EVERY_SECONDS
        for number, claim in list(self._claims.items()):
            try:
                self._maintain(number, claim, forget)
            except HoldfastError as trouble:
                troubles.append(trouble)
        if forget:
            self._forgot = time.monotonic()
            troubles += self._maintain_retired()
        if troubles:
            raise troubles[0]

    def _maintain_retired(self) -> list[HoldfastError]:
        """Their events go with age like others, by the hand of one of those who fold."""
        troubles: list[HoldfastError] = []
        if self.catalog.layout.first in self._claims:
            for number in self.catalog.retired:
                try:
                    self._maintain_one_retired(number)
                except HoldfastError as trouble:
                    troubles.append(trouble)
        return troubles

    def _maintain_one_retired(self, number: int) -> None:
        """Opened for this alone: the files of many rescalings, kept, would use up all there are."""
        inbox = self._new_inbox(number)
        view = SqliteView(folder_of(self.root, number), inbox)
        try:
            inbox.maintain(view.head())
        finally:
            view.close()
            inbox.close()

    def _maintain(self, number: int, claim: Claim, forget: bool) -> None:
        """Unlinking first: on a full disk it is what makes room for the rest."""
        self._inbox(number).maintain(self.view(number).head())
        path = folder_of(self.root, number) / "state.db"
        if forget:
            oldest = self._clock().wall - self.limits.retain_seconds
            self._states[number].forget_before(claim, oldest)
        size = wal_bytes(path)
        waited = time.monotonic() - self._checkpointed.get(number, 0.0) > CHECKPOINT_SECONDS
        if size > WAL_BYTES_MAX or (size > WAL_BYTES_BEFORE_CHECKPOINT and waited):
            self._checkpointed[number] = time.monotonic()
            state.checkpoint(path)  # most of it, beside the commits
            self._states[number].finish_checkpoint(cut=size > 2 * WAL_BYTES_MAX)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for number, claim in self._claims.items():
            if number not in self._revoked:
                self._states[number].release(claim)
                # Inside the claim, as it began. A successor's is told apart outside of it too.
                with suppress(HoldfastError), self._states[number].held(claim):
                    self._waiting.stop_listening(folder_of(self.root, number))
        for view in self._views.values():
            view.close()
        for inbox in self._inboxes.values():
            inbox.close()
        for owned in self._states.values():
            owned.close()
        self._waiting.close()
        for closed in (self._views, self._inboxes, self._states, self._claims):
            closed.clear()
        self.catalog.close()
        self.holder.release()
