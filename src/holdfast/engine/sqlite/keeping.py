"""The mark of the archive: from where on retention by age has to leave events alone."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.engine.sqlite.files import explained


class KeepMark:
    """A file, for the process that does the upkeep. Unsynced: after a power loss it keeps more."""

    def __init__(self, folder: Path) -> None:
        """Of a partition."""
        self._path = folder / "archived"

    def set(self, position: int | None) -> None:
        """None: nobody archives, nothing is kept for anybody."""
        with explained(self._path):
            if position is None:
                self._path.unlink(missing_ok=True)
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(descriptor, f"{position:<20}".encode(), 0)
            finally:
                os.close(descriptor)

    def seen(self) -> int | None:
        try:
            text = self._path.read_text("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else 0

    def keeps(self, following: int) -> bool:
        """Whether a segment that ends before `following` has to wait."""
        mark = self.seen()
        return mark is not None and following > mark
