"""Checks of what is read: SQLite does not notice a flipped bit, so nothing is believed unseen.

A row that is there proves itself by its checksum. That a row is *not* there is proved by its
neighbours (a flipped bit in a key sends the search for it, and for others, astray, and it ends
beside the row with the wrong key) and by the structure of the tree (a page that lost its way).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import apsw
import msgspec

from holdfast.engine.sqlite.files import damaged

_pack = msgspec.msgpack.Encoder().encode


def check_of(*values: object) -> int:
    return zlib.crc32(_pack(values))


def verified(path: Path, what: str, row: Sequence[object]) -> Sequence[object]:
    """The row without its last column, which must be the check of the others."""
    if check_of(*row[:-1]) != row[-1]:
        raise damaged(path, f"{what} does not match its checksum")
    return row[:-1]


def verified_rows(
    connection: apsw.Connection, path: Path, table: str, keys: int
) -> list[tuple[object, ...]]:
    """All rows of a table, each checked, in the order of their first `keys` columns."""
    rows: list[tuple[object, ...]] = connection.execute(f"SELECT * FROM {table}").fetchall()
    for row in rows:
        if zlib.crc32(_pack(row[:-1])) != row[-1]:  # as `verified`, a million times
            raise damaged(path, f"a row of {table} does not match its checksum")
    names = [row[:keys] for row in rows]
    if any(one >= other for one, other in pairwise(names)):
        raise damaged(path, f"the rows of {table} are out of order")
    return rows


def frame_check(columns: Sequence[object], frame: bytes) -> int:
    """A frame ends with its own checksum: binding that one to the row's columns is enough."""
    return check_of(*columns, len(frame), frame[-4:])


def verified_frame(path: Path, what: str, row: Sequence[object]) -> None:
    """For a row that ends in a frame and its check: both are right, and the frame is whole."""
    *columns, frame, check = row
    if (
        not isinstance(frame, bytes)
        or frame_check(columns, frame) != check
        or zlib.crc32(memoryview(frame)[:-4]).to_bytes(4, "little") != frame[-4:]
    ):
        raise damaged(path, f"{what} does not match its checksum")


def prove_absent(
    connection: apsw.Connection, path: Path, table: str, key: dict[str, object]
) -> None:
    """The rows before and after the one that was not found are what they were when written."""
    names, holes = ", ".join(key), ", ".join("?" * len(key))
    for sign, order in (("<", "DESC"), (">", "ASC")):
        ordered = ", ".join(f"{name} {order}" for name in key)
        row = connection.execute(
            f"SELECT * FROM {table} WHERE ({names}) {sign} ({holes}) ORDER BY {ordered} LIMIT 1",
            tuple(key.values()),
        ).fetchone()
        if row is not None:
            verified(path, f"a row of {table}", row)


def check_structure(connection: apsw.Connection, path: Path, table: str | None = None) -> None:
    """No page of the file, or of one table, has lost its way. Reads all of it."""
    what = "1" if table is None else f"'{table}'"
    found = connection.execute(f"PRAGMA quick_check({what})").fetchall()
    if found != [("ok",)]:
        raise damaged(path, " ".join(str(found[0][0]).split()))


def check_index(connection: apsw.Connection, path: Path, table: str) -> None:
    """Rows are read without their index; who looks one of them up reads it."""
    (found,), *_ = connection.execute(f"PRAGMA integrity_check({table})").fetchall()
    if found != "ok":
        raise damaged(path, f"the index of {table}: {found}")
