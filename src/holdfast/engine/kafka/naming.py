"""The name of a worker in its group, the same after a restart, but for one case.

Who has to give partitions away does so first, then joins again, and only then others get them. If a
static member dies in between and comes back under its name, the brokers give it what was left to it
and see no reason to ask anybody again: the rest would be nobody's. So a member notes what it has;
one that finds itself with less than the note says takes another name, and once the session of the
old one is over the group assigns everything. A note older than a session is of no use: the group
has missed us, and assigned anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Set
from pathlib import Path


class MemberName:
    """Its note outlives the process, not the machine. Kept by one thread."""

    def __init__(self, note: Path, name: str, session_seconds: float) -> None:
        self._note = note
        self._name = name
        self._number = 0
        self._had: frozenset[int] = frozenset()
        try:
            number, *had = map(int, note.read_text("ascii").split())
            self._number = number
            if time.time() - note.stat().st_mtime < session_seconds:
                self._had = frozenset(had)
        except (FileNotFoundError, ValueError):
            pass  # the first of its name, or one that was killed while it wrote this

    def __str__(self) -> str:
        return f"{self._name}.{self._number}" if self._number else self._name

    def lacks(self, assigned: Set[int]) -> bool:
        """Whether a first assignment has less than the member of this name had."""
        return not self._had <= assigned

    def change(self) -> None:
        self._number += 1
        self.keep(())

    def keep(self, assigned: Set[int] | tuple[()]) -> None:
        text = " ".join(map(str, [self._number, *sorted(assigned)]))
        new = self._note.with_name(f"{self._note.name}.new")
        try:
            new.write_text(text, "ascii")
            os.replace(new, self._note)
        except OSError:
            pass  # on a full disk the next of this name does not know what we had

    def alive(self) -> None:
        """Called now and then: by its age a note tells whether the group has missed us."""
        try:
            os.utime(self._note)
        except OSError:
            pass  # there is none yet
