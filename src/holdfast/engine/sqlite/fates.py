"""What became of actions, in a state file: found by id without a look at the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import apsw

from holdfast.engine.sqlite.checks import check_of, verified
from holdfast.engine.sqlite.files import damaged
from holdfast.stepping.commit import Fate

FATES = """
CREATE TABLE fates(
    number INTEGER PRIMARY KEY, id TEXT, key TEXT, now REAL, why TEXT, kind TEXT, who TEXT,
    action TEXT, sum INTEGER
);
CREATE INDEX fates_by_id ON fates(id);
"""
_COLUMNS = "id, key, now, why, kind, who, action, sum"
PUT_FATE = f"INSERT INTO fates({_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_OF = f"SELECT {_COLUMNS} FROM fates WHERE id=? ORDER BY number"
_BESIDE = tuple(
    f"SELECT {_COLUMNS} FROM fates WHERE id {sign} ? ORDER BY id {order} LIMIT 1"
    for sign, order in (("<", "DESC"), (">", "ASC"))
)


def fate_row(one: Fate) -> tuple[object, ...]:
    return *one, check_of(*one)


def all_fates(connection: apsw.Connection, path: Path) -> list[Fate]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM fates ORDER BY number").fetchall()
    return [_fate(path, row) for row in rows]


def all_compensations(connection: apsw.Connection, path: Path) -> list[Fate]:
    """Of a file that an older release has written: it knew no other fate."""
    rows = connection.execute("SELECT id, key, now, why, sum FROM undone ORDER BY number")
    return [_fate(path, row) for row in rows.fetchall()]


def fates_of(connection: apsw.Connection, path: Path, id: str) -> list[Fate]:
    rows = connection.execute(_OF, (id,)).fetchall()
    found = [_fate(path, row) for row in rows]
    if any(one.id != id for one in found):
        raise damaged(path, f"what became of {id} is not where it was")
    if not found:
        _prove_absent(connection, path, id)
    return found


def _prove_absent(connection: apsw.Connection, path: Path, id: str) -> None:
    """A wrong bit in the index leads astray, to the place beside the entry that has it."""
    for query, before in zip(_BESIDE, (True, False), strict=True):
        row = connection.execute(query, (id,)).fetchone()
        if row is not None:
            beside = _fate(path, row).id
            if beside == id or (beside < id) != before:
                raise damaged(path, f"the index of fates is wrong beside {id}")


def _fate(path: Path, row: Sequence[object]) -> Fate:
    values = verified(path, f"what became of {row[0]}", row)
    return Fate(*cast("tuple[str, str, float, str]", values))
