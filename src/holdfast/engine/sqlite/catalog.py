"""The catalog of a directory: which fleet, which format, how keys are laid out, which schemas."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import apsw

from holdfast.engine.faults import FaultPoints
from holdfast.engine.registering import to_write
from holdfast.engine.sqlite.checks import check_of, check_structure, verified
from holdfast.engine.sqlite.files import (
    create,
    damaged,
    explained,
    open_existing,
    publish,
    transaction,
    undone,
)
from holdfast.errors import UsageError, WrongFleet
from holdfast.model.keys import SLOTS, Layout
from holdfast.model.schema import Schema

_TABLES = """
CREATE TABLE about(name TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER) WITHOUT ROWID;
CREATE TABLE slots(
    partition INTEGER PRIMARY KEY, first INTEGER NOT NULL, stop INTEGER NOT NULL, sum INTEGER
);
CREATE TABLE schemas(
    id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    name TEXT NOT NULL, body TEXT NOT NULL, sum INTEGER
);
"""
RESCALED_FORMAT = 2  # has retired partitions: an older release would take them for live ones


class SqliteCatalog:
    def __init__(self, root: Path) -> None:
        self._path = root / "fleet.db"
        self._lock = threading.Lock()
        self._closed = False
        self._connection = open_existing(self._path, newest=RESCALED_FORMAT)
        with undone(self._connection.close), explained(self._path):
            check_structure(self._connection, self._path)
            about = {row[0]: row[1] for row in self._rows("about")}
            if "fleet" not in about:
                raise damaged(self._path, "the catalog is incomplete")
            self.fleet = cast(str, about["fleet"])
            self._version = self._data_version()
            self._layout, self._retired = self._read_layout()

    # Where keys live. A rescaling adds rows: each run of partitions that covers all slots took the
    # place of the run before it, so the last one lives and the others are retired.

    @property
    def layout(self) -> Layout:
        return self._current()[0]

    @property
    def retired(self) -> dict[int, range]:
        return self._current()[1]

    def _current(self) -> tuple[Layout, dict[int, range]]:
        with self._lock:
            if not self._closed:  # then what was seen last has to do
                with explained(self._path):
                    version = self._data_version()
                    if version != self._version:
                        self._layout, self._retired = self._read_layout()
                        self._version = version
            return self._layout, self._retired

    def _data_version(self) -> int:
        """Changes when another connection has written."""
        return cast(int, self._connection.execute("PRAGMA data_version").get)

    def _read_layout(self) -> tuple[Layout, dict[int, range]]:
        rows = cast("list[tuple[int, int, int]]", self._rows("slots"))
        slots = {number: range(first, stop) for number, first, stop in rows}
        starts = [number for number, own in slots.items() if own.start == 0]
        if list(slots) != list(range(len(rows))) or not starts or rows[-1][2] != SLOTS:
            raise damaged(self._path, "the catalog is incomplete")
        live = starts[-1]
        retired = {number: own for number, own in slots.items() if number < live}
        return Layout(tuple(own for n, own in slots.items() if n >= live), live), retired

    def _rows(self, table: str) -> list[Sequence[object]]:
        """All rows of a table in the order of their keys, each checked."""
        rows = self._connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        return [verified(self._path, f"a row of {table}", row) for row in rows]

    def switch(self, layout: Layout, faults: FaultPoints) -> None:
        """From now on these partitions live, and those of the layout before are retired."""
        with self._lock, explained(self._path):
            with transaction(self._connection):
                _insert_slots(self._connection, layout.slots_by_number)
                self._connection.execute(f"PRAGMA user_version={RESCALED_FORMAT}")
                faults("rescale.inside")
            self._layout, self._retired = self._read_layout()
            self._checkpoint()

    def settle(self) -> None:
        """Find out for good which partitions live, after a switch that nobody saw the end of.

        One that was killed, or failed, in its sync may stand complete behind the end of the WAL:
        invisible as long as anybody has the file open, and there again when the last one has gone.
        Only a write takes its place.
        """
        with self._lock, explained(self._path):
            with transaction(self._connection):
                fact = ("settled", os.urandom(8).hex())
                row = (*fact, check_of(*fact))
                self._connection.execute("REPLACE INTO about VALUES(?, ?, ?)", row)
            self._layout, self._retired = self._read_layout()
            self._checkpoint()

    @staticmethod
    def exists(root: Path) -> bool:
        return (root / "fleet.db").exists()

    @staticmethod
    def create(root: Path, fleet: str, partitions: int) -> None:
        path = root / "fleet.db"
        connection = create(path, _TABLES)
        with explained(path):
            about = ("fleet", fleet)
            connection.execute("INSERT INTO about VALUES(?, ?, ?)", (*about, check_of(*about)))
            _insert_slots(connection, Layout.even(partitions).slots_by_number)
        publish(connection, path)

    @staticmethod
    def plant(
        root: Path,
        fleet: str,
        layout: Layout,
        retired: Mapping[int, range],
        schemas: Mapping[int, Schema],
    ) -> None:
        """A catalog that says what another one said; ids of schemas are kept."""
        path = root / "fleet.db"
        connection = create(path, _TABLES)
        with explained(path):
            about = ("fleet", fleet)
            connection.execute("INSERT INTO about VALUES(?, ?, ?)", (*about, check_of(*about)))
            _insert_slots(connection, retired)
            _insert_slots(connection, layout.slots_by_number)
            for number, schema in schemas.items():
                _put_schema(connection, number, schema)
            if retired:
                connection.execute(f"PRAGMA user_version={RESCALED_FORMAT}")
        publish(connection, path)

    def check_fleet(self, fleet: str) -> None:
        if fleet != self.fleet:
            raise WrongFleet(
                f"{self._path.parent}: holds fleet {self.fleet!r}, not {fleet!r}: "
                "name another directory with --engine sqlite:PATH"
            )

    def schemas(self) -> dict[int, Schema]:
        with self._lock, explained(self._path):
            return self._schemas()

    def _schemas(self) -> dict[int, Schema]:
        rows = self._rows("schemas")
        return {cast(int, r[0]): Schema.from_json(json.loads(cast(str, r[4]))) for r in rows}

    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        """Ids by fingerprint. Registering what is known writes nothing."""
        with self._lock, explained(self._path):
            stored = self._schemas()
            if to_write(schemas, stored, renew):
                with transaction(self._connection):
                    stored = self._schemas()
                    for schema in to_write(schemas, stored, renew):
                        self._put(schema, stored)
                self._checkpoint()
            return {schema.fingerprint: number for number, schema in stored.items()}

    def _checkpoint(self) -> None:
        """A lost WAL would give an id out twice: what is registered goes into the file at once."""
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            pass  # somebody reads; the next registration moves it

    def _put(self, schema: Schema, stored: dict[int, Schema]) -> None:
        known = {each.fingerprint: number for number, each in stored.items()}
        number = known.get(schema.fingerprint, max(stored, default=0) + 1)
        _put_schema(self._connection, number, schema)
        stored[number] = schema

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._connection.close()


def _insert_slots(connection: apsw.Connection, partitions: Mapping[int, range]) -> None:
    for number, slots in partitions.items():
        row = (number, slots.start, slots.stop)
        connection.execute("INSERT INTO slots VALUES(?, ?, ?, ?)", (*row, check_of(*row)))


def _put_schema(connection: apsw.Connection, number: int, schema: Schema) -> None:
    row = (number, schema.fingerprint, schema.kind, schema.name, json.dumps(schema.to_json()))
    connection.execute(
        "INSERT INTO schemas VALUES(?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(id) DO UPDATE SET body = excluded.body, sum = excluded.sum",
        (*row, check_of(*row)),
    )


def check_root(root: Path) -> None:
    """Say plainly why a directory cannot be one of ours."""
    with explained(root):
        if root.exists() and not root.is_dir():
            raise UsageError(f"{root}: is a file; name a directory with --engine sqlite:PATH")
        place = root if root.exists() else next(p for p in root.absolute().parents if p.exists())
        if not os.access(place, os.W_OK | os.X_OK):
            raise UsageError(f"{place}: no permission to write here: check its owner")
