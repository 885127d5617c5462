"""Objects as files of a folder: `file:PATH`, for a second disk or a mounted share.

Put: 1 write under `.partial`, 2 sync, 3 link under its name, which fails if the name is taken,
4 sync the folder of the name. A writer that is killed leaves a file in `.partial`, which the next
one who opens the folder for writing removes once it is old.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.blob.port import check_folder, check_name, check_size
from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.sqlite.files import make_durably, sync_path
from holdfast.errors import AccessDenied, DiskFull, HoldfastError, Missing, Unreachable, UsageError

PARTIAL_SECONDS = 3600.0  # a put takes seconds: what is so old belongs to nobody any more
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


class FileBlob:
    def __init__(self, root: Path, faults: FaultPoints = no_faults) -> None:
        self._root = root
        self._partial = root / ".partial"
        self._faults = faults
        self._swept = False

    @property
    def url(self) -> str:
        return f"file:{self._root}"

    def put_if_absent(self, name: str, data: bytes) -> bool:
        check_name(name)
        check_size(name, data)
        path = self._root / name
        with _explained(path):
            make_durably(path.parent)
            self._sweep()
            new = not path.exists() and self._write(path, data)
            # Also if another has put it: that one may be dead, and its name not on the disk yet.
            sync_path(path.parent)
        self._faults("blob.after")
        return new

    def _write(self, path: Path, data: bytes) -> bool:
        partial = self._partial / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            with partial.open("xb") as file:
                half = len(data) // 2
                file.write(data[:half])
                self._faults("blob.inside")
                file.write(data[half:])
                file.flush()
                os.fsync(file.fileno())
            self._faults("blob.before")
            return self._name(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def _name(self, partial: Path, path: Path) -> bool:
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise UsageError(
                    f"{self._root}: its file system has no hard links ({error.strerror}), which "
                    "are needed to name a file without replacing another: use another file system"
                ) from None
            raise
        return True

    def _sweep(self) -> None:
        """Once per handle, before its first put: what writers left that were killed long ago."""
        if self._swept:
            return
        make_durably(self._partial)
        oldest_kept = time.time() - PARTIAL_SECONDS
        for partial in self._partial.iterdir():
            try:
                if partial.stat().st_mtime < oldest_kept:
                    partial.unlink()
            except FileNotFoundError:
                pass  # its writer has finished, or another sweeps too
        self._swept = True

    def get(self, name: str) -> bytes:
        check_name(name)
        path = self._root / name
        with _explained(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise Missing(f"{self.url}: there is no {name}") from None

    def list(self, folder: str = "") -> Iterator[str]:
        top = self._root / check_folder(folder)
        with _explained(top):
            if self._root.exists() and not self._root.is_dir():
                raise UsageError(f"{self._root}: is a file, a folder is needed: correct the URL")
            names = [
                (Path(place) / file).relative_to(self._root).as_posix()
                for place, _, files in os.walk(top, onerror=_unless_gone)
                for file in files
                if Path(place) != self._partial and not file.startswith(".")
            ]
        return iter(sorted(names))

    def delete(self, name: str) -> None:
        check_name(name)
        path = self._root / name
        with _explained(path):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            sync_path(path.parent)

    def close(self) -> None:
        pass


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into ours: what, where, and what to do."""
    try:
        yield
    except HoldfastError:
        raise
    except OSError as error:
        where = error.filename or path
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{where}: the disk is full: free some space, then it goes on") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise AccessDenied(
                f"{where}: no permission ({error.strerror}): check its owner"
            ) from None
        if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            raise UsageError(f"{where}: {error.strerror}: a folder is needed there") from None
        raise Unreachable(f"{where}: {error.strerror or error}: check the disk or share") from None
