"""One file of a view: its rows, and how far they have come, which are committed together.

A file is of one version of the view's code. That a view is rebuilt is another file (`shelf.py`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import apsw

from holdfast.engine.sqlite.checks import check_of, verified
from holdfast.engine.sqlite.files import (
    create,
    explained,
    open_existing,
    publish,
    transaction,
    undone,
    wal_bytes,
)
from holdfast.errors import DamagedData
from holdfast.model.schema import Schema
from holdfast.runtime.exporting.target import Place

WAL_BYTES_MAX = 8 * 1024 * 1024  # a file's WAL is moved into it when it is larger
_log = logging.getLogger("holdfast.views")

_TABLES = """
    CREATE TABLE rows (
        key TEXT PRIMARY KEY, row BLOB NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE places (
        kind TEXT NOT NULL, partition INTEGER NOT NULL, incarnation TEXT NOT NULL,
        position INTEGER NOT NULL, fired INTEGER NOT NULL, stamp REAL NOT NULL,
        checksum INTEGER NOT NULL, PRIMARY KEY (kind, partition)
    ) WITHOUT ROWID;
    CREATE TABLE facts (
        name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
"""


class Facts(NamedTuple):
    """What a file says of itself."""

    fleet: str
    view: str
    fingerprint: str
    kinds: tuple[str, ...]
    schema: Schema

    def texts(self) -> dict[str, str]:
        return {
            "fleet": self.fleet,
            "view": self.view,
            "fingerprint": self.fingerprint,
            "kinds": " ".join(self.kinds),
            "schema": json.dumps(self.schema.to_json()),
        }


class Progress(NamedTuple):
    """What changes with the rows."""

    rows: int = 0  # how many there are
    folded: int = 0  # events and actions that were looked at
    missing: int = 0  # that were past retention when it began


def make_file(path: Path, facts: Facts) -> None:
    connection = create(path, _TABLES)
    with explained(path):
        for name, value in {**facts.texts(), **_progress_texts(Progress())}.items():
            _put_fact(connection, name, value)
    publish(connection, path)


class RowFile:
    """Any thread, one at a time."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = open_existing(path, read_only=read_only)
        with undone(self._connection.close):
            self.facts = self._facts()

    # Reading.

    @contextmanager
    def moment(self) -> Iterator[None]:
        """What is read within is of one commit."""
        with self._lock, explained(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def row(self, key: str) -> bytes | None:
        found = self._one("SELECT * FROM rows WHERE key=?", (key,))
        return None if found is None else cast(bytes, found[1])

    def rows(self, first: str, most: int) -> list[tuple[str, bytes]]:
        """From a key on, in the order of keys."""
        query = "SELECT * FROM rows WHERE key>=? ORDER BY key LIMIT ?"
        found = self._connection.execute(query, (first, most)).fetchall()
        checked = [verified(self.path, "a row", row) for row in found]
        return [(cast(str, key), cast(bytes, row)) for key, row in checked]

    def places(self) -> dict[tuple[str, int], Place]:
        found = self._connection.execute("SELECT * FROM places").fetchall()
        checked = [verified(self.path, "a place", row) for row in found]
        return {
            (cast(str, kind), cast(int, number)): Place(
                cast(int, number),
                cast(str, incarnation),
                cast(int, position),
                cast(int, fired),
                cast(float, stamp),
            )
            for kind, number, incarnation, position, fired, stamp in checked
        }

    def progress(self) -> Progress:
        return Progress(*(int(self.fact(name) or 0) for name in Progress._fields))

    def fact(self, name: str) -> str:
        found = self._one("SELECT * FROM facts WHERE name=?", (name,))
        return "" if found is None else cast(str, found[1])

    def _one(self, query: str, values: tuple[str, ...]) -> tuple[object, ...] | None:
        found = self._connection.execute(query, values).fetchone()
        return None if found is None else tuple(verified(self.path, "a row", found))

    def _facts(self) -> Facts:
        with explained(self.path):
            try:
                texts = {name: self.fact(name) for name in ("fleet", "view", "fingerprint")}
                schema = Schema.from_json(json.loads(self.fact("schema")))
                kinds = tuple(self.fact("kinds").split())
            except BaseException as error:
                self._connection.close()
                if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
                    raise DamagedData(f"{self.path}: damaged: rebuild the view") from error
                raise
        return Facts(texts["fleet"], texts["view"], texts["fingerprint"], kinds, schema)

    # Writing.

    def commit(
        self,
        rows: Mapping[str, bytes | None],
        places: Mapping[str, Place],
        progress: Progress,
    ) -> None:
        """Rows and the places behind what made them, by kind, or neither."""
        made = [(key, row, check_of(key, row)) for key, row in rows.items() if row is not None]
        gone = [(key,) for key, row in rows.items() if row is None]
        with self._lock, explained(self.path), transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO rows VALUES (?,?,?)", made)
            self._connection.executemany("DELETE FROM rows WHERE key=?", gone)
            for kind, place in places.items():
                values = (kind, *place)
                self._connection.execute(
                    "INSERT OR REPLACE INTO places VALUES (?,?,?,?,?,?,?)",
                    (*values, check_of(*values)),
                )
            for name, value in _progress_texts(progress).items():
                _put_fact(self._connection, name, value)
        self._tidy()

    def note(self, name: str, value: str) -> None:
        with self._lock, explained(self.path), transaction(self._connection):
            _put_fact(self._connection, name, value)

    def _tidy(self) -> None:
        """What was committed stands, so nothing fails here: the next time does it.

        Readers are in the middle of a moment, or the disk is full.
        """
        if wal_bytes(self.path) > WAL_BYTES_MAX:
            with self._lock:
                try:
                    self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                except apsw.BusyError:
                    pass
                except apsw.Error as trouble:
                    _log.warning("%s: not tidied yet: %s", self.path, trouble)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _progress_texts(progress: Progress) -> dict[str, str]:
    return {name: str(value) for name, value in progress._asdict().items()}


def _put_fact(connection: apsw.Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO facts VALUES (?,?,?)", (name, value, check_of(name, value))
    )
