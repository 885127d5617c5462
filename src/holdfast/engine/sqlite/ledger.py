"""Dedupe rows in the open segment of an inbox, read and written in the appending transaction.

Two tables follow from the sources: how many there are of each kind, and the anonymous ones by age.
With them neither the bound of a kind nor finding what is idle costs more where there are more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import apsw

from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sources import SourceCount, SourceRow, is_anonymous
from holdfast.engine.sqlite.checks import (
    check_of,
    check_structure,
    prove_absent,
    verified,
    verified_rows,
)
from holdfast.engine.sqlite.files import damaged, has_table

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
# Since format 2 of segments.
DERIVED_TABLES = """
CREATE TABLE tally(anonymous INTEGER PRIMARY KEY, count INTEGER NOT NULL, sum INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE by_age(
    stamp REAL NOT NULL, name TEXT NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY(stamp, name)
) WITHOUT ROWID;
"""
DERIVED = {"tally": 1, "by_age": 2}
KEYS = {"sources": 1, "windows": 2, "marks": 1, "ordered": 2}  # columns of the primary key


class SqliteLedger:
    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def check(self) -> None:
        """Everything is in its place: for whoever is going to write here.

        A write into a tree with one wrong key may move rows away from where they are looked for.
        """
        for table in KEYS:
            check_structure(self._connection, self._path, table)
            self._all(table)
        if has_table(self._connection, "tally"):
            self._check_derived()

    def _check_derived(self) -> None:
        for table in DERIVED:
            check_structure(self._connection, self._path, table)
        names = [row[0] for row in self._connection.execute("SELECT name FROM sources")]
        counted = [self.source_count(anonymous=kind) for kind in (False, True)]
        lost = self._connection.execute(
            "SELECT count(*) FROM by_age LEFT JOIN sources USING (name, stamp) WHERE top IS NULL"
        ).get
        aged = len(self._all("by_age"))
        if [*SourceCount.of(names)] != counted or aged != counted[True] or lost:
            raise damaged(self._path, "the count of its sources is not theirs")

    def derive(self) -> None:
        """For the file of an older release, in the transaction that gives it the tables."""
        sources = cast("list[tuple[str, int, float, int]]", self._all("sources"))
        self._put_derived({name: SourceRow(top, stamp) for name, top, stamp, _ in sources})

    def _put_derived(self, sources: Mapping[str, SourceRow]) -> None:
        for kind, count in enumerate(SourceCount.of(sources)):
            self._put("tally", kind, count)
        aged = [(row.stamp, name) for name, row in sources.items() if is_anonymous(name)]
        rows = [(*each, check_of(*each)) for each in sorted(aged)]
        self._connection.executemany("INSERT INTO by_age VALUES(?, ?, ?)", rows)

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

    def put_source(self, name: str, row: SourceRow, before: SourceRow | None) -> None:
        self._put("sources", name, *row)
        if before is None:
            self._count(name, 1)
        if is_anonymous(name) and (before is None or before.stamp != row.stamp):
            if before is not None:
                self._drop("by_age", stamp=before.stamp, name=name)
            self._put("by_age", row.stamp, name)

    def source_count(self, *, anonymous: bool) -> int:
        row = self._row("tally", anonymous=int(anonymous))
        return 0 if row is None else cast(int, row[1])

    def _count(self, name: str, more: int) -> None:
        kind = is_anonymous(name)
        self._put("tally", int(kind), self.source_count(anonymous=kind) + more)

    def oldest_anonymous(self, most: int) -> list[tuple[float, str]]:
        query = "SELECT * FROM by_age ORDER BY stamp, name LIMIT ?"
        found = self._connection.execute(query, (most,)).fetchall()
        rows = [verified(self._path, "an age", row) for row in found]
        return cast("list[tuple[float, str]]", rows)

    def forget_source(self, name: str, stamp: float) -> None:
        for table in ("windows", "ordered"):
            self._connection.execute(f"DELETE FROM {table} WHERE source=?", (name,))
        self._drop("sources", name=name, stamp=stamp)
        self._drop("by_age", stamp=stamp, name=name)
        self._count(name, -1)

    def _drop(self, table: str, **values: object) -> None:
        wanted = " AND ".join(f"{column}=?" for column in values)
        self._connection.execute(f"DELETE FROM {table} WHERE {wanted}", tuple(values.values()))
        if self._connection.changes() != 1:
            raise damaged(self._path, f"a row of {table} is not where it was")

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
        keys = KEYS.get(table) or DERIVED[table]
        return verified_rows(self._connection, self._path, table, keys)

    def inherit(self, dedupe: Dedupe) -> None:
        for name, row in dedupe.sources.items():
            self._put("sources", name, *row)
        self._put_derived(dedupe.sources)
        for (name, number), bits in dedupe.chunks.items():
            self.put_chunk(name, number, bits)
        for (name, key), last in dedupe.last_by_key.items():
            self.put_last_of_key(name, key, last)
