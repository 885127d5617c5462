"""Row checksums: SQLite does not notice a flipped bit, so every row we rely on carries one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.engine.sqlite.files import damaged

_pack = msgspec.msgpack.Encoder().encode


def check_of(*values: object) -> int:
    return zlib.crc32(_pack(values))


def frame_check(first: int, count: int, stamp: float, frame: bytes) -> int:
    """A frame ends with its own checksum: binding that one to the row's columns is enough."""
    return check_of(first, count, stamp, len(frame), frame[-4:])


def verified(path: Path, what: str, row: Sequence[object]) -> Sequence[object]:
    """The row without its last column, which must be the check of the others."""
    if check_of(*row[:-1]) != row[-1]:
        raise damaged(path, f"{what} does not match its checksum")
    return row[:-1]
