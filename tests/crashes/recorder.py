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

import apsw
import pytest

from tests.crashes.disk import Cut, Make, Operation, Rename, Sync, Unlink, Write

_OpenFolder = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))


class Recorder:
    """Operations on files under `base`; paths in them are relative to it."""

    def __init__(self, base: Path) -> None:
        self.base = str(base.absolute())
        self.operations: list[Operation] = []

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


class _RecordedCalls:
    """The functions of `os` that the engine uses, also through pathlib and shutil."""

    def __init__(self, recorder: Recorder) -> None:
        self._note = recorder.note
        self._inside = recorder.inside
        self._paths: dict[int, str] = {}  # of descriptors

    def _place(self, path: Any, dir_fd: int | None) -> str:
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.join(above, os.fsdecode(path))

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self._place(path, dir_fd)
        new = not os.path.exists(place)
        descriptor: int = _REAL["open"](path, flags, mode, dir_fd=dir_fd)
        self._paths[descriptor] = place
        if new:
            self._note(Make, place, False)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._paths.pop(descriptor, None)
        _REAL["close"](descriptor)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._note(Write, self._paths[descriptor], offset, bytes(data))
        return int(_REAL["pwrite"](descriptor, data, offset))

    def fsync(self, descriptor: int) -> None:
        self._note(Sync, self._paths[descriptor])
        _REAL["fsync"](descriptor)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        _REAL["mkdir"](path, mode, dir_fd=dir_fd)
        self._note(Make, self._place(path, dir_fd), True)

    def rename(self, path: Any, to: Any) -> None:
        _REAL["rename"](path, to)
        self._note(Rename, path, self._inside(to))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        plain = os.path.exists(place) and not stat.S_ISFIFO(os.stat(place).st_mode)
        _REAL["unlink"](path, dir_fd=dir_fd)
        if plain:
            self._note(Unlink, place)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        _REAL["rmdir"](path, dir_fd=dir_fd)
        self._note(Unlink, place)


_RECORDED = ("open", "close", "pwrite", "fsync", "mkdir", "rename", "unlink", "rmdir")
_REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in _RECORDED}


@contextmanager
def _recorded_system(recorder: Recorder) -> Iterator[None]:
    calls = _RecordedCalls(recorder)
    with pytest.MonkeyPatch.context() as patched:
        for name in _RECORDED:
            patched.setattr(os, name, getattr(calls, name))
        yield
