"""What a caller tells of itself: a small file beside the data, for whoever looks.

It is written anew now and then and never synced: it says how things are, not what must be kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.engine.port import Engine
from holdfast.runtime.calling.lane import FunctionStatus
from holdfast.stepping.commit import Call

NAME = "calls.json"
CALLS_PER_PAGE = 64  # they may have 1 MiB of arguments each


class CallerStatus(msgspec.Struct):
    pid: int
    functions: list[FunctionStatus]


def publish(root: Path, functions: Sequence[FunctionStatus]) -> None:
    """All or nothing for whoever reads. A full disk keeps the old one."""
    path = root / NAME
    new = root / f"{NAME}.new"
    try:
        new.write_bytes(msgspec.json.encode(CallerStatus(os.getpid(), list(functions))))
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)


def withdraw(root: Path) -> None:
    """A directory at rest tells of no caller."""
    (root / NAME).unlink(missing_ok=True)


def read_status(root: Path) -> CallerStatus | None:
    """The newest, or None where nobody runs calls."""
    try:
        found = msgspec.json.decode((root / NAME).read_bytes(), type=CallerStatus)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if Path(f"/proc/{found.pid}").exists() else None


def open_calls(engine: Engine) -> Iterator[Call]:
    for number in engine.catalog.layout.numbers:
        after = 0
        while page := engine.view(number).calls(after, CALLS_PER_PAGE):
            yield from page
            after = page[-1].number
