"""The folder of a bridge: who works as it, and how far the actions were published."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from holdfast.engine.urls import parse
from holdfast.errors import DamagedData, DiskFull, UsageError

LOOK_SECONDS = 0.2

_log = logging.getLogger("holdfast.mqtt")


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fleet: str
    cursor: str | None = None  # of the actions; None: nothing was ever published
    filters: tuple[str, ...] = ()  # what the broker has subscriptions for


def usual_folder(url: str, fleet: str) -> Path:
    """In the directory of the data; where that is topics, beside the program."""
    if parse(url).kafka is not None:
        return Path(f"holdfast-mqtt-{fleet}")
    return parse(url).root / "mqtt"


class Keeping:
    """For one name of a bridge. One process works under it, others wait until it has ended."""

    def __init__(self, folder: Path, name: str, fleet: str) -> None:
        self.folder = folder
        self._kept = Kept(fleet)
        self._storing = threading.Lock()
        self._path = folder / f"{name}.json"
        self._lock_path = folder / f"{name}.lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(
                f"{folder}: a bridge cannot keep anything here: {error.strerror}: check its owner, "
                "or name another folder with --keep"
            ) from None

    def acquire(self, stopping: Callable[[], bool]) -> bool:
        """Wait until nobody else is this bridge; False if we are told to stop first."""
        told = False
        while not stopping():
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if not told:
                    told = True
                    _log.warning(
                        "another bridge holds %s: standing by until it ends", self._lock_path
                    )
                time.sleep(LOOK_SECONDS)
        return False

    def load(self) -> None:
        """As the last one of this name has left it; once it is our turn."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return
        except msgspec.MsgspecError as error:
            raise DamagedData(
                f"{self._path} is not what was written ({error}): restore it, or remove it and all "
                "actions that are kept are published again"
            ) from None
        if kept.fleet != self._kept.fleet:
            raise UsageError(
                f"{self._path} is of fleet {kept.fleet!r}, not {self._kept.fleet!r}: name another "
                "folder with --keep"
            )
        self._kept = kept

    @property
    def cursor(self) -> str | None:
        return self._kept.cursor

    @property
    def filters(self) -> tuple[str, ...]:
        return self._kept.filters

    def store_cursor(self, cursor: str) -> None:
        with self._storing:
            self._store(msgspec.structs.replace(self._kept, cursor=cursor))

    def store_filters(self, filters: Sequence[str]) -> None:
        with self._storing:
            if self._kept.filters != tuple(filters):
                self._store(msgspec.structs.replace(self._kept, filters=tuple(filters)))

    def _store(self, kept: Kept) -> None:
        """Durably, whole or not at all."""
        half = self._path.with_suffix(".half")
        try:
            with half.open("wb") as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            half.replace(self._path)
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise DiskFull(
                f"{self._path}: what a bridge keeps cannot be written: {error.strerror}: make room"
            ) from None
        self._kept = kept

    def close(self) -> None:
        os.close(self._lock)
