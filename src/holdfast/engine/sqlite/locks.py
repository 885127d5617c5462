"""Locks between processes: a fair one for appenders, a plain one for holders."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.sqlite.files import explained, undone
from holdfast.engine.stamping import system_clock
from holdfast.errors import Busy, InUse

_LOOK_SECONDS = 0.1  # whoever looks who holds a lock takes it for less than this
_LEFTOVER_SECONDS = 5.0  # from fork to exec takes a millisecond, on a crowded machine far more
_TRY_SECONDS = 0.01  # between two tries of a holder
_POLL_SECONDS = (0.00005, 0.00005, 0.0001, 0.0002, 0.0005, 0.001)


class ProcessIdentity(NamedTuple):
    """A pid alone may be reused; with its start time and the boot it names one process."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        fields = _process_fields(pid)
        if not fields or fields[0] == "Z":
            return None
        return cls(pid, int(fields[19]), system_clock().boot)

    @classmethod
    def own(cls) -> ProcessIdentity:
        return cls.of(os.getpid()) or cls(os.getpid(), 0, "")

    @property
    def alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    @property
    def stopped(self) -> bool:
        """By SIGSTOP or Ctrl-Z: what it holds, it holds until somebody acts."""
        return self.alive and _process_fields(self.pid)[:1] == ["T"]

    def end(self, seconds: float = 1.0) -> None:
        """SIGKILL exactly this process and wait until it is gone."""
        if not self.alive:
            return
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.005)


def _process_fields(pid: int) -> list[str]:
    """What the kernel says of a process from its state on; nothing if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _holder_of(path: Path) -> int | None:
    """Who holds the lock of a file, by the pid written into it; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(descriptor):
            return None
        text = os.pread(descriptor, 12, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Who holds it, for the message to those who wait. On a full disk it stays unsaid."""
    try:
        os.pwrite(descriptor, f"{os.getpid():<12}".encode(), 0)
    except OSError:
        pass


def _who_has_open(descriptor: int) -> list[int]:
    """Processes that have the same file open, as far as we may look."""
    wanted = os.fstat(descriptor)
    found = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it has ended a moment ago, or is not ours to look at
            for link in folder.iterdir():
                with suppress(OSError):  # closed a moment ago
                    if os.path.samestat(link.stat(), wanted):
                        found.add(int(folder.parts[2]))
    return sorted(found)


class Witness:
    """How far something has come, noted beside it after each durable step, without a sync.

    It outlives the process, and at a power failure lags at most. So what it has seen must be
    there; if it is not, a WAL was lost, cut or damaged, which SQLite takes for a torn last write.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)

    def note(self, reached: int) -> None:
        try:
            os.pwrite(self._descriptor, f"{reached:<20}".encode(), 0)
        except OSError:
            pass  # a witness that saw nothing says nothing

    def seen(self) -> int:
        text = os.pread(self._descriptor, 20, 0).strip()
        return int(text) if text.isdigit() else 0

    def close(self) -> None:
        os.close(self._descriptor)


class Turnstile:
    """A lock that appenders of several processes get in turn.

    Two kernel locks: whoever waits for the main lock holds the queue lock, so a process that has
    just had its turn cannot take the main lock again before the one that waits. The kernel frees
    both when a process dies.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._name = folder / name
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._queue = os.open(folder / f"{name}.queue", flags, 0o644)
        with undone(partial(os.close, self._queue)):
            self._main = os.open(folder / f"{name}.lock", flags, 0o644)

    def acquire(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._poll(self._queue, deadline)
        try:
            self._poll(self._main, deadline)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def release(self) -> None:
        fcntl.flock(self._main, fcntl.LOCK_UN)

    def _poll(self, descriptor: int, deadline: float) -> None:
        attempt = 0
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 12, 0).decode(errors="replace").strip()
                raise Busy(
                    f"{self._name}: process {holder or '?'} has held the append lock too long: "
                    "if it is stopped, continue or end it"
                )
            time.sleep(_POLL_SECONDS[min(attempt, len(_POLL_SECONDS) - 1)])
            attempt += 1
        _sign(descriptor)

    def close(self) -> None:
        os.close(self._queue)
        os.close(self._main)

    @staticmethod
    def holders(folder: Path, name: str) -> set[int]:
        """The processes that hold it now or stand first in its queue."""
        pids = (_holder_of(folder / f"{name}.{part}") for part in ("queue", "lock"))
        return {pid for pid in pids if pid is not None}


class HolderLock:
    """Whoever folds in a directory holds this; a second one is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """A holder killed while it started a process leaves the lock to that one, until its exec.

        So where the holder is dead, we wait longer.
        """
        with explained(self._path):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        start = time.monotonic()
        while not _try_lock(descriptor):
            text = os.pread(descriptor, 12, 0).decode(errors="replace").strip()
            holder = int(text) if text.isdigit() else 0
            alive = ProcessIdentity.of(holder) is not None
            if time.monotonic() - start > (_LOOK_SECONDS if alive else _LEFTOVER_SECONDS):
                others = [pid for pid in _who_has_open(descriptor) if pid != os.getpid()]
                os.close(descriptor)
                raise self._refusal(holder, alive, others)
            time.sleep(_TRY_SECONDS)
        _sign(descriptor)
        self._descriptor = descriptor

    def _refusal(self, holder: int, alive: bool, others: list[int]) -> InUse:
        place = self._path.parent
        if alive:
            return InUse(
                f"{place}: process {holder} runs this fleet already: "
                "stop it first, or send and read beside it with `holdfast send` or fleet.connect(…)"
            )
        by = (
            f"process {' and '.join(map(str, others))}, which it had started: end that one"
            if others
            else "somebody who cannot be seen from here: look as root, or in other containers"
        )
        return InUse(
            f"{place}: process {holder or '?'} ran this fleet and is gone, but its lock is still "
            f"held by {by}"
        )

    def holder(self) -> int | None:
        """The pid that holds the lock, if anybody does."""
        return os.getpid() if self._descriptor is not None else _holder_of(self._path)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
