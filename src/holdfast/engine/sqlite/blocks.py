"""The base of compiled agents in a state file: one block for each class and bucket of slots.

Each row proves itself by its sum. That no row is missing, and none goes under another's name, is
proved by a digest of all names, which is kept among the facts of the file (standing.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import apsw

from holdfast.engine.sqlite.checks import check_of, frame_check, verified_frame
from holdfast.engine.sqlite.files import damaged, has_table
from holdfast.engine.sqlite.standing import about, put_about
from holdfast.stepping.blocks import Block

Place = tuple[str, int]  # class and bucket
_FACT = "blocks"


def list_blocks(connection: apsw.Connection, path: Path) -> list[Place]:
    """Which there are, none missing."""
    if not has_table(connection, "blocks"):
        return []  # an older release has written the file, and nobody has claimed it since
    places = _places(connection)
    if about(connection).get(_FACT, _digest([])) != _digest(places):
        raise damaged(path, "a block of states is missing or not where it was")
    return places


def _places(connection: apsw.Connection) -> list[Place]:
    rows = connection.execute("SELECT agent, bucket FROM blocks ORDER BY agent, bucket").fetchall()
    return cast(list[Place], [tuple(row) for row in rows])


def _digest(places: list[Place]) -> int:
    return check_of(places)


def read_block(connection: apsw.Connection, path: Path, place: Place) -> bytes:
    """The block at a place that is listed, encoded."""
    query = "SELECT agent, bucket, frame, sum FROM blocks WHERE agent=? AND bucket=?"
    row = connection.execute(query, place).fetchone()
    if row is None or tuple(row[:2]) != place:
        raise damaged(path, f"the block of {place[0]} in bucket {place[1]} is not where it was")
    verified_frame(path, named(place), row)
    return cast(bytes, row[2])


def named(place: Place) -> str:
    return f"the block of {place[0]} in bucket {place[1]}"


def put_blocks(connection: apsw.Connection, blocks: Iterable[tuple[Place, Block | None]]) -> None:
    """Replace these, in a transaction; None removes one."""
    for place, block in blocks:
        if block is None:
            connection.execute("DELETE FROM blocks WHERE agent=? AND bucket=?", place)
        else:
            row = (*place, block.encoded, frame_check(place, block.encoded))
            connection.execute("REPLACE INTO blocks VALUES(?, ?, ?, ?)", row)
    put_about(connection, {_FACT: _digest(_places(connection))})


def sizes_of_blocks(connection: apsw.Connection) -> dict[str, int]:
    """Bytes by class."""
    query = "SELECT agent, sum(length(frame)) FROM blocks GROUP BY agent"
    return {cast(str, agent): cast(int, size) for agent, size in connection.execute(query)}
