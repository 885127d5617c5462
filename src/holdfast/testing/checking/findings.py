"""Findings of reading the code: one line each, where it is, whose, what is wrong, what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_SILENCED = re.compile(r"#\s*holdfast:\s*ok\b")


class Finding(NamedTuple):
    """Compared from left to right, so that a sorted list reads like the files."""

    file: str
    line: int
    column: int
    subject: str  # as in Drone.moved
    what: str
    fix: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: {self.subject}: {self.what}; {self.fix}"


def silenced(line: str) -> bool:
    """Whether its author knows: `# holdfast: ok`."""
    return _SILENCED.search(line) is not None


def shown(file: str) -> str:
    """A path as the person in this directory would write it."""
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else str(Path(relative))
