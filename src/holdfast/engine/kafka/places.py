"""Where mirrors are kept on this machine: a folder per process, held by a lock while it is used.

Beside them are notes of positions at which user code runs, one file per partition: they are read
by whoever folds the partition next on this machine, which may be another process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from itertools import count
from pathlib import Path

from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.sqlite.folders import folder_of
from holdfast.errors import DiskFull, HoldfastError, UsageError

_NOTE_BYTES = 20


def _machine(root: Path) -> str:
    """What tells this place from others, whatever the hosts are called: made once."""
    path = root / "machine"
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        new = root / f"machine.{uuid.uuid4().hex}"
        new.write_text(uuid.uuid4().hex[:12], "ascii")
        try:
            os.link(new, path)  # of two who make it at once, one succeeds
        except FileExistsError:
            pass  # then that one's counts
        new.unlink()
        return path.read_text("ascii")


def _no_place(root: Path, error: OSError) -> HoldfastError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{root}: the disk is full: free some space, then it goes on")
    return UsageError(
        f"{root}: no copies can be kept here ({error.strerror}): name a folder of yours with "
        "HOLDFAST_CACHE, or ?cache= in the engine URL"
    )


class MirrorPlace:
    def __init__(self, root: Path, name: str | None) -> None:
        """With a name, the folder of that name, so that a worker finds its copies again."""
        self._root = root
        self._notes: dict[int, int] = {}
        try:
            root.mkdir(parents=True, exist_ok=True)
            self.machine = _machine(root)
            self.name, self._lock = self._take(name)
        except OSError as error:
            raise _no_place(root, error) from None
        self._folder = root / self.name
        shutil.rmtree(self.scratch, ignore_errors=True)  # of a process that was killed

    def _take(self, name: str | None) -> tuple[str, int]:
        """The first that nobody uses."""
        for number in count():
            wanted = (name or "copy") if not number else f"{name or 'copy'}-{number}"
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            lock = os.open(self._root / f"{wanted}.lock", flags, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return wanted, lock
            except OSError:
                os.close(lock)
        raise AssertionError("numbers do not end")

    def folder_of(self, number: int) -> Path:
        return folder_of(self._folder, number)

    @property
    def scratch(self) -> Path:
        return self._folder / "scratch"

    def member_name(self, session_seconds: float) -> MemberName:
        note = self._root / f"{self.name}.member"
        return MemberName(note, f"{self.machine}.{self.name}", session_seconds)

    # Notes: they have to outlive the process, not the machine.

    def note(self, number: int, position: int | None) -> None:
        text = f"{'' if position is None else position:<{_NOTE_BYTES}}".encode()
        try:
            os.pwrite(self._file(number), text, 0)
        except OSError:
            pass  # on a full disk deaths stay uncounted; folding must not fail for that

    def noted(self, number: int) -> int | None:
        text = os.pread(self._file(number), _NOTE_BYTES, 0).strip()
        return int(text) if text.isdigit() else None

    def _file(self, number: int) -> int:
        if number not in self._notes:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._notes[number] = os.open(self._root / f"folding-{number:03d}", flags, 0o644)
        return self._notes[number]

    def close(self) -> None:
        for descriptor in (*self._notes.values(), self._lock):
            os.close(descriptor)
        self._notes.clear()
