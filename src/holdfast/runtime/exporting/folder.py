"""A folder of files that grows by whole files, and what it says about how far it goes.

A write is 1 the parts, each under a hidden name, synced; 2 `_position.json`, replaced at once, with
the new places and the names of the parts; 3 the parts get their names. Step 2 is the commit: who
opens the folder after a crash finishes step 3, and removes parts that no position knows.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.engine.faults import FaultPoints
from holdfast.errors import DiskFull, HoldfastError, InUse, NewerFormat, UsageError, WrongFleet
from holdfast.runtime.exporting.target import Kind, Place

FORMAT = 1
POSITION = "_position.json"


class Position(msgspec.Struct):
    """What a target of files says of itself."""

    format: int
    fleet: str
    kind: str
    ending: str = ""  # of the files in a folder
    places: list[Place] = []
    parts: list[str] = []  # that may still have their hidden names
    old: list[str] = []  # that may still have to be removed
    length: int = 0  # of a single file: what is behind was never finished


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one line."""
    try:
        yield
    except (HoldfastError, BrokenPipeError):
        raise
    except OSError as error:
        where = error.filename or path
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFull(
                f"{where}: no room left ({os.strerror(error.errno)}): free some space, then export "
                "again; it goes on where it was"
            ) from None
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"{where}: {why}: check the path, its owner and the disk") from None


def lock(descriptor: int, path: Path) -> None:
    """Held until the process ends: two who write here would write everything twice."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(f"{path}: another export writes here: let it end, or end it") from None


def read_position(path: Path, fleet: str, kind: Kind, ending: str = "") -> Position:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Position)
    except FileNotFoundError:
        return Position(FORMAT, fleet, kind, ending)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is no position of an export ({error}): restore it") from None
    if found.format > FORMAT:
        raise NewerFormat(f"{path}: format {found.format}, this release reads up to {FORMAT}")
    if (found.fleet, found.kind) != (fleet, kind):
        raise WrongFleet(
            f"{path}: belongs to an export of {found.kind} of fleet {found.fleet!r}, not of {kind} "
            f"of {fleet!r}: name another target"
        )
    if found.ending != ending:
        raise UsageError(f"{path}: belongs to an export of {found.ending} files: name another")
    return found


def replace(path: Path, content: bytes) -> None:
    """The whole new content or the whole old one, whatever happens."""
    beside = path.with_name(f".{path.name}.part")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Folder:
    """The folder of one kind of rows, locked while it is open."""

    def __init__(self, path: Path, fleet: str, kind: Kind, ending: str, reach: FaultPoints) -> None:
        self.path = path / kind
        self._ending = ending
        self._reach = reach
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with explained(self.path):
                lock(self._descriptor, self.path)
                self._position = read_position(self.path / POSITION, fleet, kind, ending)
                self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        if not (self.path / POSITION).exists() and self._files():
            raise UsageError(
                f"{self.path}: has files but no {POSITION}, so nobody knows how far they go: name "
                "an empty directory, or restore it"
            )
        self._finish()
        self.discard()

    def _files(self) -> list[str]:
        """Those we wrote, going by their names; whatever else is here is not ours."""
        found = self.path.rglob(f"p[0-9]*-*+*-*+*{self._ending}")
        return sorted(str(each.relative_to(self.path)) for each in found)

    def places(self) -> dict[int, Place]:
        return {place.partition: place for place in self._position.places}

    def clear(self) -> None:
        with explained(self.path):
            self._put(
                msgspec.structs.replace(self._position, places=[], parts=[], old=self._files())
            )
            self._finish()

    def hidden(self, name: str) -> Path:
        """Where a part is written before it has its name."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        return path.with_name(f".{path.name}.part")

    def commit(self, names: list[str], after: Place) -> None:
        """Everything that was written under these names belongs to the folder, up to the place."""
        for folder in {(self.path / name).parent for name in names}:
            sync_folder(folder)
        self._reach("export.before")
        places = {**self.places(), after.partition: after}
        ordered = [places[number] for number in sorted(places)]
        self._put(msgspec.structs.replace(self._position, places=ordered, parts=names, old=[]))
        self._reach("export.inside")
        self._finish()
        self._reach("export.after")

    def _put(self, position: Position) -> None:
        replace(self.path / POSITION, msgspec.json.encode(position))
        self._position = position

    def _finish(self) -> None:
        """What the position says has happened; durably, as the next one says it no more."""
        for name in self._position.parts:
            if (hidden := self.hidden(name)).exists():
                os.replace(hidden, self.path / name)
        for name in self._position.old:
            (self.path / name).unlink(missing_ok=True)
        changed = [*self._position.parts, *self._position.old]
        for folder in {(self.path / name).parent for name in changed}:
            sync_folder(folder)

    def discard(self) -> None:
        """Parts that no position knows: of a write that failed, or of one that was killed."""
        known = {self.hidden(name) for name in self._position.parts}
        for leftover in self.path.rglob(".*.part"):
            if leftover not in known:
                leftover.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._descriptor)


def file_name(before: Place, after: Place, ending: str) -> str:
    """Partition and range, so that names sort as the rows do."""
    first, following = (f"{p.position:012d}+{p.fired:09d}" for p in (before, after))
    return f"p{after.partition:03d}-{first}-{following}{ending}"
