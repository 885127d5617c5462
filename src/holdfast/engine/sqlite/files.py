"""Opening SQLite files the one way we use them, and saying plainly what is wrong with one."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from holdfast.errors import (
    Busy,
    DamagedData,
    DiskFull,
    HoldfastError,
    NewerFormat,
    UsageError,
)

FORMAT = 1
# Of state.db. 2 knows calls: an older release would take a reply for any event; 3 knows blocks:
# an older one would not see the agents in them; 4 knows fates and ground stops: an older one would
# issue actions that are held back; 5 knows the urgent lane: an older one would not fold it.
STATE_FORMAT = 5
# Of segments. 2 counts sources and knows the anonymous ones by age: an older release would not.
SEGMENT_FORMAT = 2
PAGE_BYTES = 8192
BUSY_MILLISECONDS = 5_000  # ten times the longest transaction seen on a slow disk


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: what, where, and what to do."""
    try:
        yield
    except apsw.FullError:
        raise DiskFull(f"{path}: the disk is full: free some space, then it goes on") from None
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.TooBigError) as error:
        raise damaged(path, str(error)) from None
    except UnicodeDecodeError:
        raise damaged(path, "a text in it is no text") from None
    except apsw.BusyError:
        raise Busy(f"{path}: locked by another process for too long: try again") from None
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError, apsw.AuthError) as error:
        raise _out_of_descriptors(path) or UsageError(
            f"{path}: cannot be opened or written ({error}): check its owner"
        ) from None
    except apsw.ConnectionClosedError:
        raise UsageError(f"{path}: this handle is closed: open another") from None
    except apsw.IOError as error:
        if _disk_is_full(path):
            raise DiskFull(f"{path}: the disk is full: free some space") from None
        raise _out_of_descriptors(path) or DamagedData(
            f"{path}: the disk failed ({error}): check it, then open again"
        ) from None
    except HoldfastError:
        raise
    except OSError as error:
        raise _explain(path, error) from None


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """`undo` what was done before if what is done within fails.

    For whatever holds a descriptor: who is told of damage or of a full table looks again and again.
    """
    try:
        yield
    except BaseException:
        undo()
        raise


def _explain(path: Path, error: OSError) -> HoldfastError:
    """What the operating system refused, for files that are not SQLite's."""
    where = error.filename or path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{where}: the disk is full: free some space, then it goes on")
    if error.errno == errno.ENOENT:
        return damaged(Path(where), "it is missing")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return UsageError(f"{where}: {error.strerror}: allow more, `ulimit -n` tells how many")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UsageError(f"{where}: no permission ({error.strerror}): check its owner")
    return UsageError(f"{where}: {error.strerror or error}: check the path and its file system")


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All or nothing: durable at the end, undone if anything is raised on the way."""
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _out_of_descriptors(path: Path) -> HoldfastError | None:
    """SQLite only says that it cannot; so one is asked for, while what it had is still open."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return _explain(path, OSError(error.errno, error.strerror))
    return None


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


def newest_of(path: Path) -> int:
    if path.name == "state.db":
        return STATE_FORMAT
    return SEGMENT_FORMAT if path.suffix == ".seg" else FORMAT


def create(path: Path, script: str, page_bytes: int = PAGE_BYTES) -> apsw.Connection:
    """A new file with our tables. It becomes visible under its name only when it is whole."""
    unfinished = _unfinished(path)
    with explained(path):
        remove(unfinished)
        connection = apsw.Connection(str(unfinished))
    with undone(connection.close), explained(path):
        connection.execute("PRAGMA synchronous=OFF")  # `publish` syncs it, once
        connection.execute(f"PRAGMA page_size={page_bytes}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        extend(connection, script, newest_of(path))
    return connection


def extend(connection: apsw.Connection, script: str, format: int) -> None:
    """Change the tables of a file, inside a transaction."""
    connection.execute(script)
    connection.execute(f"PRAGMA user_version={format}")
    connection.execute(f"PRAGMA application_id={_schema_check(connection)}")


def has_table(connection: apsw.Connection, name: str) -> bool:
    query = "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name=?"
    return bool(connection.execute(query, (name,)).get)


def _schema_check(connection: apsw.Connection) -> int:
    """A bit flipped in a table's definition changes what its rows mean: it has a checksum too."""
    rows = connection.execute("SELECT * FROM sqlite_schema ORDER BY rowid").fetchall()
    return zlib.crc32(repr(rows).encode()) & 0x7FFF_FFFF


def publish(connection: apsw.Connection, path: Path) -> None:
    """Finish what `create` began: durable first, then named."""
    with explained(path):
        connection.execute("COMMIT")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()  # would checkpoint too, but not say when that fails
        unfinished = _unfinished(path)
        sync_path(unfinished)
        unfinished.rename(path)
        sync_path(path.parent)


def discard(connection: apsw.Connection, path: Path) -> None:
    """Give up what `create` began, so that it takes no space from whoever runs short of it."""
    connection.close(True)
    remove(_unfinished(path))


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def open_existing(
    path: Path, *, read_only: bool = False, newest: int | None = None
) -> apsw.Connection:
    """DamagedData if it is not there, or not there any more once it is open."""
    try:
        connection = _open(path, read_only, newest or newest_of(path))
    except HoldfastError:
        _check_there(path)
        raise
    with undone(connection.close):
        _check_there(path)
    return connection


def _check_there(path: Path) -> None:
    """Who removes a file removes its WAL after it. So where the file is, its WAL was opened too."""
    with explained(path):
        if not path.exists():
            raise damaged(path, "the file is missing")


def _open(path: Path, read_only: bool, newest: int) -> apsw.Connection:
    with explained(path):
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(path), flags=flags)
    with undone(connection.close), explained(path):
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        check_format(connection, path, newest)
        _make_certain(path)
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # Checkpoints belong to upkeep, not to whoever happens to close last.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def _make_certain(path: Path) -> None:
    """What is read here must outlive a power loss, for others will be built on it.

    A process that was killed in a sync leaves what it wrote in the page cache. Whoever opens the
    file next sees it, complete, and nothing tells that it is not on the disk yet.
    """
    if wal_bytes(path):
        sync_path(Path(f"{path}-wal"))
    sync_path(path.parent)


def check_format(connection: apsw.Connection, path: Path, newest: int) -> None:
    with _one_moment(connection):  # a claim may bring the tables up to date meanwhile
        _check_format(connection, path, newest)


@contextmanager
def _one_moment(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # an error of the disk has ended it
            connection.execute("ROLLBACK")


def _check_format(connection: apsw.Connection, path: Path, newest: int) -> None:
    version = connection.execute("PRAGMA user_version").get
    if isinstance(version, int) and version > newest:
        raise NewerFormat(
            f"{path}: format {version}, this release reads {newest}: "
            "install the release of Holdfast that wrote it"
        )
    if not isinstance(version, int) or version < FORMAT:
        raise damaged(path, f"format {version}")
    try:
        intact = connection.execute("PRAGMA application_id").get == _schema_check(connection)
    except apsw.SQLError as error:  # such as "unsupported file format"
        raise damaged(path, str(error)) from None
    if not intact:
        raise damaged(path, "its table definitions do not match their checksum")


def make_durably(folder: Path) -> None:
    """Make a directory and those above it: each is entered durably in the one above.

    So is the last one that is there already: who made it may have been killed before the sync.
    """
    places = (folder.absolute(), *folder.absolute().parents)
    missing = [place for place in places if not place.exists()]
    with suppress(PermissionError):  # then it was not us who made it
        sync_path(places[len(missing)].parent)
    for place in reversed(missing):
        place.mkdir(exist_ok=True)
        sync_path(place.parent)


def sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def status_of(path: Path | str) -> os.stat_result | None:
    """None where there is no such file, or none any more."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def bytes_of(path: Path | str) -> int:
    status = status_of(path)
    return status.st_size if status is not None else 0


def wal_bytes(path: Path) -> int:
    return bytes_of(f"{path}-wal")


def last_written(path: Path) -> float:
    """The time of the last write to the file or, which may be much later, to its WAL.

    Of one that is gone, long ago.
    """
    found = (status_of(path), status_of(f"{path}-wal"))
    return max((status.st_mtime for status in found if status is not None), default=0.0)


def remove(path: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)


def remove_durably(path: Path) -> None:
    """The file first: a power loss must not bring it back without its WAL."""
    path.unlink(missing_ok=True)
    sync_path(path.parent)
    remove(path)
