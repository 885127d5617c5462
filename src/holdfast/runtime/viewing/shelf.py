"""The files of one view: which of them serves, which is being built, and who folds them.

views/ZoneLoad/
    000002.db    a file of rows; the one that `serving` names is read, a higher one is built
    serving      the number of the file that is read, replaced as a whole
    rebuild      somebody wants it built anew
    runner.lock  held by whoever folds it
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import explained, make_durably, remove_durably, sync_path
from holdfast.engine.sqlite.locks import HolderLock
from holdfast.errors import InUse, UsageError

FOLDER = "views"


def views_folder(engine: Engine, given: str | None = None) -> Path:
    """Where the views of a fleet are kept on this machine."""
    if given is not None:
        return Path(given)
    if isinstance(engine, SqliteEngine):
        return engine.root / FOLDER
    settings = getattr(engine, "settings", None)  # of Kafka; its module is not loaded for this
    folder = getattr(settings, "folder", None)
    if isinstance(folder, Path):
        return folder / FOLDER
    raise UsageError(
        "this engine has no folder that views could be kept in: name one with --views PATH, or "
        "views= of fleet.open and fleet.connect"
    )


def names_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if each.is_dir())


class Shelf:
    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder / name
        self._lock = HolderLock(self._folder / "runner.lock")

    # For readers.

    def exists(self) -> bool:
        return self._folder.is_dir()

    def serving(self) -> int | None:
        try:
            return int((self._folder / "serving").read_text("ascii"))
        except FileNotFoundError:
            return None

    def building(self) -> int | None:
        """The newest file that does not serve yet."""
        numbers = [n for n in self.numbers() if n > (self.serving() or 0)]
        return max(numbers, default=None)

    def numbers(self) -> list[int]:
        if not self.exists():
            return []
        return sorted(int(each.stem) for each in self._folder.glob("[0-9]*.db"))

    def path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.db"

    def runner(self) -> int | None:
        """The pid that folds it."""
        return self._lock.holder() if self.exists() else None

    def ask_for_rebuild(self) -> None:
        with explained(self._folder):
            (self._folder / "rebuild").touch()
            sync_path(self._folder)

    # For the one who folds.

    def acquire(self) -> None:
        with explained(self._folder):
            make_durably(self._folder)
        try:
            self._lock.acquire()
        except InUse:
            raise InUse(
                f"{self._folder}: process {self._lock.holder() or '?'} folds view {self.name} "
                "already: stop it first, or read the view beside it"
            ) from None

    def release(self) -> None:
        self._lock.release()

    def wants_rebuild(self) -> bool:
        return (self._folder / "rebuild").exists()

    def rebuild_begun(self) -> None:
        with explained(self._folder):
            (self._folder / "rebuild").unlink(missing_ok=True)
            sync_path(self._folder)

    def serve(self, number: int) -> None:
        """From now on, also after a power loss, this file is read."""
        with explained(self._folder):
            new = self._folder / "serving.new"
            new.write_text(str(number), "ascii")
            sync_path(new)
            os.replace(new, self._folder / "serving")
            sync_path(self._folder)

    def discard(self, number: int) -> None:
        """Readers that have it open read on, and find the other at their next look."""
        with explained(self._folder):
            remove_durably(self.path(number))
