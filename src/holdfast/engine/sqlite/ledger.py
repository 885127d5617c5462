"""Dedupe rows in the open segment of an inbox, read and written in the appending transaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import apsw

from holdfast.engine.admission import SourceRow
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sqlite.checks import (
    check_of,
    check_structure,
    prove_absent,
    verified,
    verified_rows,
)
from holdfast.engine.sqlite.files import damaged

TABLES = """
CREATE TABLE sources(name TEXT PRIMARY KEY, top INTEGER NOT NULL, stamp REAL NOT NULL,
    sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE windows(
    source TEXT NOT NULL, chunk INTEGER NOT NULL, bits BLOB NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY(source, chunk)
) WITHOUT ROWID;
CREATE TABLE marks(source TEXT PRIMARY KEY, last INTEGER NOT NULL, sum INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE ordered(
    source TEXT NOT NULL, key TEXT NOT NULL, last INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY(source, key)
) WITHOUT ROWID;
"""
KEYS = {"sources": 1, "windows": 2, "marks": 1, "ordered": 2}  # columns of the primary key


class SqliteLedger:
    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def check(self) -> None:
        """Everything is in its place: for whoever is going to write here.

        A write into a tree with one wrong key may move rows away from where they are looked for.
        """
        for table, keys in KEYS.items():
            check_structure(self._connection, self._path, table)
            verified_rows(self._connection, self._path, table, keys)

    def _row(self, table: str, **key: object) -> Sequence[object] | None:
        wanted = " AND ".join(f"{name}=?" for name in key)
        row = self._connection.execute(
            f"SELECT * FROM {table} WHERE {wanted}", tuple(key.values())
        ).fetchone()
        if row is None:
            prove_absent(self._connection, self._path, table, key)
            return None
        what = f"dedupe of {' '.join(map(str, key.values()))}"
        if row[: len(key)] != tuple(key.values()):  # a search in a damaged tree may end anywhere
            raise damaged(self._path, f"{what} is not where it was")
        return verified(self._path, what, row)

    def _put(self, table: str, *values: object) -> None:
        holes = ", ".join("?" * (len(values) + 1))
        row = (*values, check_of(*values))
        self._connection.execute(f"REPLACE INTO {table} VALUES({holes})", row)

    def source(self, name: str) -> SourceRow | None:
        row = self._row("sources", name=name)
        return None if row is None else SourceRow(cast(int, row[1]), cast(float, row[2]))

    def put_source(self, name: str, row: SourceRow) -> None:
        self._put("sources", name, *row)

    def source_count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM sources").get)

    def forget_idle_anonymous(self, before: float) -> int:
        # The second bound keeps names that start with a letter past "~", such as "é", out of it.
        idle = "FROM sources WHERE name >= '~' AND name < char(127) AND stamp < ?"
        windows = f"DELETE FROM windows WHERE source IN (SELECT name {idle})"
        self._connection.execute(windows, (before,))
        self._connection.execute(f"DELETE {idle}", (before,))
        return self._connection.changes()

    def chunk(self, name: str, number: int) -> int:
        row = self._row("windows", source=name, chunk=number)
        return 0 if row is None else int.from_bytes(cast(bytes, row[2]), "little")

    def put_chunk(self, name: str, number: int, bits: int) -> None:
        packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        self._put("windows", name, number, packed)

    def drop_chunks_below(self, name: str, number: int) -> None:
        self._connection.execute("DELETE FROM windows WHERE source=? AND chunk<?", (name, number))

    def mark(self, source: str) -> int:
        row = self._row("marks", source=source)
        return 0 if row is None else cast(int, row[1])

    def marks(self) -> dict[str, int]:
        rows = self._connection.execute("SELECT * FROM marks").fetchall()
        pairs = [verified(self._path, "a mark", row) for row in rows]
        return {cast(str, source): cast(int, last) for source, last in pairs}

    def put_mark(self, source: str, last: int) -> None:
        self._put("marks", source, last)

    def last_of_key(self, name: str, key: str) -> int:
        row = self._row("ordered", source=name, key=key)
        return 0 if row is None else cast(int, row[2])

    def put_last_of_key(self, name: str, key: str, seq: int) -> None:
        self._put("ordered", name, key, seq)

    # All rows at once, for a rescaling.

    def dedupe(self) -> Dedupe:
        sources = cast("list[tuple[str, int, float, int]]", self._all("sources"))
        windows = cast("list[tuple[str, int, bytes, int]]", self._all("windows"))
        ordered = cast("list[tuple[str, str, int, int]]", self._all("ordered"))
        return Dedupe(
            {name: SourceRow(top, stamp) for name, top, stamp, _ in sources},
            {(name, n): int.from_bytes(bits, "little") for name, n, bits, _ in windows},
            {(name, key): last for name, key, last, _ in ordered},
        )

    def _all(self, table: str) -> list[tuple[object, ...]]:
        return verified_rows(self._connection, self._path, table, KEYS[table])

    def inherit(self, dedupe: Dedupe) -> None:
        for name, row in dedupe.sources.items():
            self.put_source(name, row)
        for (name, number), bits in dedupe.chunks.items():
            self.put_chunk(name, number, bits)
        for (name, key), last in dedupe.last_by_key.items():
            self.put_last_of_key(name, key, last)
