"""The folders of partitions: where they are, laying them out, and what a killed layout left."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from holdfast.engine.sqlite import segment
from holdfast.engine.sqlite.files import damaged, make_durably, publish
from holdfast.engine.sqlite.standing import begin_state, is_unclaimed
from holdfast.errors import UsageError

PARTITIONS_MAX = 256  # that live; retired ones are not counted


def check_count(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise UsageError(f"{partitions} partitions: give 1 to {PARTITIONS_MAX}")


def folder_of(root: Path, number: int) -> Path:
    return root / f"p{number:03d}"


def fresh_incarnation(number: int) -> str:
    return f"{number}-{uuid.uuid4().hex[:12]}"


def lay_out(root: Path, partitions: int) -> None:
    for number in range(partitions):
        folder = make_folder(root, number)
        incarnation = fresh_incarnation(number)
        segment.create_first(folder / "inbox", incarnation)
        path = folder / "state.db"
        publish(begin_state(path, incarnation), path)


def make_folder(root: Path, number: int) -> Path:
    folder = folder_of(root, number)
    if folder.exists():
        _remove_unfinished(folder)
    make_durably(folder / "inbox")
    return folder


def _remove_unfinished(folder: Path) -> None:
    """What an earlier layout left when it was killed. Anything else is not ours to remove."""
    catalog = folder.parent / "fleet.db"
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    for path in files:
        if path.name.endswith((".new", "-wal", "-shm", "-journal")):
            continue
        if path.name == "state.db" and is_unclaimed(path, empty=not catalog.exists()):
            continue
        if path.parent.name == "inbox" and segment.is_new(path):
            continue
        lost = "does not know this partition" if catalog.exists() else "is missing"
        raise damaged(catalog, f"the file {lost}, though {path} is here")
    shutil.rmtree(folder)
