"""Opening SQLite files the one way we use them, and saying plainly what is wrong with one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.errors import Busy, DamagedData, DiskFull, NewerFormat, UsageError

FORMAT = 1
PAGE_BYTES = 8192
BUSY_MILLISECONDS = 5_000  # ten times the longest transaction seen on a slow disk


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: what, where, and what to do."""
    try:
        yield
    except apsw.FullError:
        raise DiskFull(f"{path}: the disk is full: free some space, then it goes on") from None
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise damaged(path, str(error)) from None
    except apsw.BusyError:
        raise Busy(f"{path}: locked by another process for too long: try again") from None
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError, apsw.AuthError) as error:
        raise UsageError(
            f"{path}: cannot be opened or written ({error}): check its owner"
        ) from None
    except apsw.IOError as error:
        if _disk_is_full(path):
            raise DiskFull(f"{path}: the disk is full: free some space") from None
        raise DamagedData(f"{path}: the disk failed ({error}): check it, then open again") from None


def damaged(path: Path, reason: str) -> DamagedData:
    return DamagedData(
        f"{path}: damaged ({reason}): nothing was changed; "
        f"`holdfast doctor --salvage` lists what is intact; restore the rest from a copy"
    )


def _disk_is_full(path: Path) -> bool:
    try:
        status = os.statvfs(path.parent)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < 1024 * 1024


def create(path: Path, script: str) -> apsw.Connection:
    """A new file with our tables. It becomes visible under its name only when it is whole."""
    unfinished = path.with_name(path.name + ".new")
    for leftover in (unfinished, Path(f"{unfinished}-wal"), Path(f"{unfinished}-shm")):
        leftover.unlink(missing_ok=True)
    with explained(path):
        connection = apsw.Connection(str(unfinished))
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(script)
    return connection


def publish(connection: apsw.Connection, path: Path) -> None:
    """Finish what `create` began: durable first, then named."""
    with explained(path):
        connection.execute("COMMIT")
        connection.close()  # the last connection checkpoints and removes the WAL
    unfinished = path.with_name(path.name + ".new")
    sync_path(unfinished)
    unfinished.rename(path)
    sync_path(path.parent)


def open_existing(path: Path, *, read_only: bool = False) -> apsw.Connection:
    if not path.exists():
        raise damaged(path, "the file is missing")
    with explained(path):
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        version = connection.execute("PRAGMA user_version").get
        if version != FORMAT:
            connection.close()
            if isinstance(version, int) and version > FORMAT:
                raise NewerFormat(
                    f"{path}: format {version}, this release reads {FORMAT}: "
                    "install the release of Holdfast that wrote it"
                )
            raise damaged(path, f"format {version}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # Checkpoints belong to upkeep, not to whoever happens to close last.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)
