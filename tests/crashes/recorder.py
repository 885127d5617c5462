"""Everything the engine does to the disk, in order, seen where SQLite and Python call the system.

SQLite's calls pass through a VFS of our own. The one it hides is the sync of a folder, which it
does after the first sync of a new WAL: the system call that opens the folder for it is replaced.
The engine's own calls are those of the module `os`. Files named -shm and FIFOs are of no interest:
neither is read after a power loss.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from tests.crashes.disk import Cut, Make, Operation, Rename, Sync, Unlink, Write

_OpenFolder = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))


class Recorder:
    """Operations on files under `base`; paths in them are relative to it."""

    def __init__(self, base: Path) -> None:
        self.base = str(base.absolute())
        self.operations: list[Operation] = []
        self._descriptors: dict[int, str] = {}

    def inside(self, path: object) -> str | None:
        """The path relative to the base; None if it is not our business."""
        text = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        if text == self.base:
            return "."
        if not text.startswith(self.base + "/") or text.endswith("-shm"):
            return None
        return text[len(self.base) + 1 :]

    def note(self, kind: Callable[..., Operation], path: object, *more: object) -> None:
        name = self.inside(path)
        if name is not None:
            self.operations.append(kind(name, *more))

    @contextmanager
    def recording(self) -> Iterator[None]:
        with _recorded_sqlite(self), _recorded_system(self):
            yield


class _RecordedFile(apsw.VFSFile):
    def __init__(self, recorder: Recorder, path: str, name: Any, flags: list[int]) -> None:
        new = not os.path.exists(path)
        super().__init__("unix", name, flags)
        self._recorder = recorder
        self._path = path
        if new:
            recorder.note(Make, path, False)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._recorder.note(Write, self._path, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._recorder.note(Cut, self._path, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._recorder.note(Sync, self._path)
        super().xSync(flags)


class _RecordedSystem(apsw.VFS):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__("recorded", "unix", makedefault=True)
        self._recorder = recorder

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:  # a temporary file without a name
            return apsw.VFSFile("unix", name, flags)
        return _RecordedFile(self._recorder, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if os.path.exists(filename):
            self._recorder.note(Unlink, filename)
        super().xDelete(filename, syncdir)


@contextmanager
def _recorded_sqlite(recorder: Recorder) -> Iterator[None]:
    system = _RecordedSystem(recorder)
    original = system.xGetSystemCall("openDirectory")
    assert original is not None
    really_open = _OpenFolder(original)

    def open_folder(path: bytes, result: Any) -> int:
        recorder.note(Sync, os.path.dirname(path))
        return really_open(path, result)

    replacement = _OpenFolder(open_folder)
    address = ctypes.cast(replacement, ctypes.c_void_p).value
    assert address is not None
    system.xSetSystemCall("openDirectory", address)
    try:
        yield
    finally:
        system.xSetSystemCall("openDirectory", original)
        system.unregister()


@contextmanager
def _recorded_system(recorder: Recorder) -> Iterator[None]:
    """The functions of `os` that the engine uses, pathlib and shutil included."""
    descriptors: dict[int, str] = {}
    real = {name: getattr(os, name) for name in _RECORDED}

    def place(path: object, dir_fd: int | None) -> str:
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.join(above, os.fsdecode(path))  # type: ignore[arg-type]

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        full = place(path, dir_fd)
        new = not os.path.exists(full)
        descriptor: int = real["open"](path, flags, mode, dir_fd=dir_fd)
        descriptors[descriptor] = full
        if new:
            recorder.note(Make, full, False)
        return descriptor

    def closed(descriptor: int) -> None:
        descriptors.pop(descriptor, None)
        real["close"](descriptor)

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        recorder.note(Write, descriptors[descriptor], offset, bytes(data))
        return int(real["pwrite"](descriptor, data, offset))

    def fsync(descriptor: int) -> None:
        recorder.note(Sync, descriptors[descriptor])
        real["fsync"](descriptor)

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real["mkdir"](path, mode, dir_fd=dir_fd)
        recorder.note(Make, place(path, dir_fd), True)

    def rename(path: Any, to: Any) -> None:
        real["rename"](path, to)
        recorder.note(Rename, path, recorder.inside(to))

    def unlink(path: Any, *, dir_fd: int | None = None) -> None:
        full = place(path, dir_fd)
        plain = os.path.exists(full) and not stat.S_ISFIFO(os.stat(full).st_mode)
        real["unlink"](path, dir_fd=dir_fd)
        if plain:
            recorder.note(Unlink, full)

    def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
        full = place(path, dir_fd)
        real["rmdir"](path, dir_fd=dir_fd)
        recorder.note(Unlink, full)

    replaced = dict(
        open=opened,
        close=closed,
        pwrite=pwrite,
        fsync=fsync,
        mkdir=mkdir,
        rename=rename,
        unlink=unlink,
        rmdir=rmdir,
    )
    with patch.multiple(os, **replaced):
        yield


_RECORDED = ("open", "close", "pwrite", "fsync", "mkdir", "rename", "unlink", "rmdir")
