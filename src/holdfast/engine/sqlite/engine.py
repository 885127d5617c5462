"""The SQLite engine: the parts of this folder behind the port."""

from __future__ import annotations

import logging
import os
import select
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.port import (
    APPEND_SECONDS,
    Capabilities,
    Claim,
    Granted,
    Limits,
    Loaded,
    Parcel,
    Revoked,
    Taken,
)
from holdfast.engine.sqlite import segment, state
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.files import damaged, explained, make_durably, sync_path, wal_bytes
from holdfast.engine.sqlite.inbox import SqliteInbox, wake
from holdfast.engine.sqlite.locks import HolderLock, ProcessIdentity, Turnstile
from holdfast.engine.sqlite.state import SqliteState
from holdfast.engine.sqlite.view import SqliteView
from holdfast.engine.stamping import Clock, system_clock
from holdfast.errors import Fenced, HoldfastError, UsageError
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import StoredFrame

WAL_BYTES_BEFORE_CHECKPOINT = 4 * 1024 * 1024
WAL_BYTES_MAX = 64 * 1024 * 1024  # then at once; at twice that it is also cut
CHECKPOINT_SECONDS = 0.9  # at every turn of upkeep: short ones slow the commits beside them less
FORGET_EVERY_SECONDS = 60.0
PARTITIONS_MAX = 256

_log = logging.getLogger("holdfast.engine")


class SqliteEngine:
    capabilities = Capabilities(
        several_processes=True,
        survives_exit=True,
        refuses_at_append=True,
        delivers_messages=False,
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
        self._fifos: dict[int, int] = {}
        self._forgot = time.monotonic()
        self._closed = False
        self._checkpointed: dict[int, float] = {}

    @staticmethod
    def create(root: Path, fleet: str, partitions: int) -> None:
        """Lay out an empty directory. The catalog comes last: without it nothing is there."""
        check_root(root)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise UsageError(f"{partitions} partitions: give 1 to {PARTITIONS_MAX}")
        with explained(root):
            make_durably(root)
            lock = HolderLock(root / "create.lock")
            lock.acquire()
            try:
                if not SqliteCatalog.exists(root):
                    _lay_out(root, fleet, partitions)
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
            folder = _folder(self.root, partition) / "inbox"
            raise damaged(folder, f"events {position} to {frames[0].first} are missing")
        return frames

    def assignments(self, wanted: Sequence[int], generation: int) -> Iterator[Granted | Revoked]:
        """Whoever is told to want a partition claims it; who was fenced never claims again."""
        for number in sorted(self._revoked & self._claims.keys()):
            del self._claims[number]
            yield Revoked(number)
        for number in wanted:
            if number not in self._claims and number not in self._revoked:
                owned = SqliteState(_folder(self.root, number), self._faults)
                try:
                    claim = owned.claim(number, generation)
                except BaseException:
                    owned.close()
                    raise
                self._states[number] = owned
                self._claims[number] = claim
                self._listen(number)
                self._free_inboxes(owned.predecessor)
                yield Granted(claim)

    def _free_inboxes(self, predecessor: ProcessIdentity | None) -> None:
        """A worker stopped while it appends holds an inbox that all others need: end it."""
        if predecessor is None or not predecessor.stopped:
            return
        folders = [_folder(self.root, n) for n in range(len(self.catalog.layout.partitions))]
        if any(predecessor.pid in Turnstile.holders(folder, "append") for folder in folders):
            predecessor.end()

    def load(self, claim: Claim) -> Loaded:
        view = self.view(claim.partition)
        view.check()
        inbox = self._inbox(claim.partition).head()
        head = view.head()
        path = _folder(self.root, claim.partition)
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
        return Loaded(head, view.sent_next(), view.outbox(), view.records())

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            owned = self._states[claim.partition]
            try:
                owned.commit(claim, commit)
                self._compact(owned, claim)
            except Fenced:
                self._revoked.add(claim.partition)
                raise

    def _compact(self, owned: SqliteState, claim: Claim) -> None:
        """The commit stands, so whoever made it must not hear of a compaction that cannot be."""
        if owned.wants_compaction:
            try:
                owned.compact(claim, self.view(claim.partition).delta_records)
            except Fenced:
                raise
            except HoldfastError as trouble:
                _log.warning("compaction waits for the next commit: %s", trouble)

    def folding(self, claim: Claim, position: int | None) -> None:
        self._states[claim.partition].folding(position)

    def wait(self, seconds: float) -> None:
        if not self._fifos:
            time.sleep(seconds)
            return
        poll = select.poll()  # unlike select it takes descriptors past 1,024
        for descriptor in self._fifos.values():
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            os.read(descriptor, 65_536)

    def wake(self) -> None:
        """End a `wait` of this process, from another thread."""
        for number in list(self._fifos):
            wake(_folder(self.root, number) / "wake")

    def _listen(self, number: int) -> None:
        """A FIFO of our own: an earlier owner that still lives must not eat our wake-ups."""
        path = _folder(self.root, number) / "wake"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        self._fifos[number] = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _stop_listening(self, number: int) -> None:
        """Leave no FIFO behind, so that a directory at rest is plain files; not a successor's."""
        path = _folder(self.root, number) / "wake"
        descriptor = self._fifos[number]
        if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
            path.unlink()
        os.close(descriptor)

    # Readers.

    def view(self, partition: int) -> SqliteView:
        with self._lock:
            view = self._views.get(partition)
            if view is None:  # a closed engine has none
                inbox = self._inbox_unlocked(partition)
                view = self._views[partition] = SqliteView(_folder(self.root, partition), inbox)
            return view

    def _inbox(self, partition: int) -> SqliteInbox:
        with self._lock:
            return self._inbox_unlocked(partition)

    def _inbox_unlocked(self, partition: int) -> SqliteInbox:
        if self._closed:
            raise UsageError(f"{self.root}: this handle is closed: open another")
        inbox = self._inboxes.get(partition)
        if inbox is None:
            folder = _folder(self.root, partition)
            with explained(folder):
                inbox = self._inboxes[partition] = SqliteInbox(
                    folder,
                    self.limits,
                    self._clock,
                    self._faults,
                    folded=lambda: self.view(partition).head().position,
                )
        return inbox

    # Upkeep.

    def maintain(self) -> None:
        """Every partition, also if another one has trouble; then the first trouble is raised."""
        troubles: list[HoldfastError] = []
        forget = time.monotonic() - self._forgot > FORGET_EVERY_SECONDS
        for number, claim in list(self._claims.items()):
            try:
                self._maintain(number, claim, forget)
            except HoldfastError as trouble:
                troubles.append(trouble)
        if forget:
            self._forgot = time.monotonic()
        if troubles:
            raise troubles[0]

    def _maintain(self, number: int, claim: Claim, forget: bool) -> None:
        """Unlinking first: on a full disk it is what makes room for the rest."""
        self._inbox(number).maintain(self.view(number).head().position)
        path = _folder(self.root, number) / "state.db"
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
        for view in self._views.values():
            view.close()
        for inbox in self._inboxes.values():
            inbox.close()
        for owned in self._states.values():
            owned.close()
        for number in self._fifos:
            self._stop_listening(number)
        for closed in (self._views, self._inboxes, self._states, self._fifos, self._claims):
            closed.clear()
        self.catalog.close()
        self.holder.release()


def _lay_out(root: Path, fleet: str, partitions: int) -> None:
    for number in range(partitions):
        folder = _folder(root, number)
        if folder.exists():
            _remove_unfinished(folder)
        make_durably(folder / "inbox")
        incarnation = f"{number}-{uuid.uuid4().hex[:12]}"
        segment.create_first(folder / "inbox", incarnation)
        state.create_state(folder / "state.db", incarnation)
    SqliteCatalog.create(root, fleet, partitions)


def _remove_unfinished(folder: Path) -> None:
    """What an earlier layout left when it was killed. Anything else is not ours to remove."""
    catalog = folder.parent / "fleet.db"
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    for path in files:
        if path.name.endswith((".new", "-wal", "-shm", "-journal")):
            continue
        if path.name == "state.db" and state.is_new(path):
            continue
        if path.parent.name == "inbox" and segment.is_new(path):
            continue
        raise damaged(catalog, f"the file is missing, though {path} is here")
    shutil.rmtree(folder)


def _folder(root: Path, number: int) -> Path:
    return root / f"p{number:03d}"
