"""`postgres://…`: rows and the place behind them in one transaction, so each row is there once.

Table `holdfast_export` has the places. One export of a kind of a fleet runs at a time: an advisory
lock refuses the second, and if it is lost (a proxy that pools sessions) the place does, which moves
only from where this export left it. Needs psycopg.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit

from holdfast.engine.faults import FaultPoints
from holdfast.errors import DiskFull, GiveUp, HoldfastError, InUse, UsageError
from holdfast.runtime.exporting.columns import FIXED, Form, columns_of, fitting, values_as
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.exporting.target import Batch, Kind, Lost, Place

try:
    import psycopg
    from psycopg import errors

    from holdfast.runtime.exporting.tables import SYSTEM_COLUMNS, Table, column_name, table_name
except ModuleNotFoundError as error:
    if error.name != "psycopg":
        raise
    raise UsageError("PostgreSQL needs psycopg: pip install 'holdfast[postgres]'") from None

CONNECT_SECONDS = 10
LOCK_SECONDS = 3.0  # the server may notice a moment later that a killed export is gone
_PLACES = """
    CREATE TABLE IF NOT EXISTS holdfast_export(
        fleet text, kind text, partition bigint, incarnation text NOT NULL,
        position bigint NOT NULL, fired bigint NOT NULL, stamp double precision NOT NULL,
        PRIMARY KEY (fleet, kind, partition)
    )
"""
_GONE = (errors.OperationalError, errors.InterfaceError)


class Postgres:
    def __init__(
        self, url: str, fleet: str, kind: Kind, payloads: Payloads, reach: FaultPoints
    ) -> None:
        self._url = url
        self._fleet = fleet
        self._kind = kind
        self._payloads = payloads
        self._reach = reach
        self._tables: dict[str, Table] = {}
        self._connection = connect(url, kind)
        self._begin()

    def _begin(self) -> None:
        try:
            with _explained(self._url):
                self._lock()
            with self._transaction():
                # Two kinds may begin at once, and IF NOT EXISTS is not safe against that.
                self._execute("SELECT pg_advisory_xact_lock(%s)", _number("holdfast"))
                if self._execute("SELECT to_regclass('holdfast_export')").fetchone() == (None,):
                    self._execute(_PLACES)
                if self._kind != "states":
                    self._table().prepare(FIXED[self._kind])
        except BaseException:
            self._connection.close()
            raise

    def _execute(self, query: LiteralString, *values: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(query, values)

    def _lock(self) -> None:
        number = _number(f"holdfast {self._fleet} {self._kind}")
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            found = self._execute("SELECT pg_try_advisory_lock(%s)", number).fetchone()
            self._connection.commit()
            if found == (True,):
                return
            if time.monotonic() > deadline:
                raise InUse(
                    f"another export of {self._kind} of fleet {self._fleet!r} writes to "
                    f"{shown(self._url)}: let it end, or end it"
                )
            time.sleep(0.05)

    def places(self) -> dict[int, Place]:
        query = """
            SELECT partition, incarnation, position, fired, stamp FROM holdfast_export
            WHERE fleet = %s AND kind = %s
        """
        with self._transaction():
            rows = self._execute(query, self._fleet, self._kind).fetchall()
        return {row[0]: Place(*row) for row in rows}

    def clear(self) -> None:
        with self._transaction():
            for agent in self._payloads.agents() if self._kind == "states" else [""]:
                self._table(agent).empty()
            query: LiteralString = "DELETE FROM holdfast_export WHERE fleet = %s AND kind = %s"
            self._execute(query, self._fleet, self._kind)

    def write(self, batches: Iterable[Batch], before: Place | None, after: Place) -> int:
        rows = 0
        with self._transaction():
            self._move(before, after)
            for batch in batches:
                if self._kind == "states":
                    self._put_states(batch)
                else:
                    self._put_rows(batch)
                rows += len(batch)
            self._reach("export.before")
        self._reach("export.after")
        return rows

    def _move(self, before: Place | None, after: Place) -> None:
        name = (self._fleet, self._kind, after.partition)
        if before is None:
            query: LiteralString = """
                INSERT INTO holdfast_export VALUES (%s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT DO NOTHING
            """
            moved = self._execute(query, *name, *after[1:])
        else:
            query = """
                UPDATE holdfast_export SET position = %s, fired = %s, stamp = %s
                WHERE fleet = %s AND kind = %s AND partition = %s
                AND incarnation = %s AND position = %s AND fired = %s
            """
            moved = self._execute(query, *after[2:], *name, *before[1:4])
        if moved.rowcount != 1:
            raise InUse(
                f"another export of {self._kind} of fleet {self._fleet!r} has moved on in "
                f"{shown(self._url)}: let one of them end"
            )

    def _put_rows(self, batch: Batch) -> None:
        table = self._table()
        forms = table.prepare(FIXED[self._kind])
        columns = {n: values_as(form, batch.columns[n]) for n, form in forms.items()}
        if "sender" in columns:  # the name of a timer may be any text, even with a zero byte
            columns["sender"] = [_without_zero(each) for each in columns["sender"]]
        table.copy(columns)

    def _put_states(self, batch: Batch) -> None:
        table = self._table(batch.table)
        keys = batch.columns["key"]
        own = {name: form for name, form in FIXED["states"].items() if name != "gone"}
        fields = columns_of(self._payloads.of_state(batch.table), {*own, *SYSTEM_COLUMNS})
        values: dict[str, list[object]] = {name: batch.columns[name] for name in own}
        wanted: dict[str, Form] = dict(own)
        for name, field, form in fields:
            short = column_name(name)
            values[short] = [
                cast("dict[str, object]", s).get(field) for s in batch.columns["state"]
            ]
            wanted[short] = fitting(form, values[short])
        forms = table.prepare(wanted, key=("key",))
        table.remove(keys)
        if batch.columns["gone"][0]:  # a batch has only such agents, or none
            return
        table.copy({name: values_as(form, values[name]) for name, form in forms.items()})

    def _table(self, agent: str = "") -> Table:
        name = table_name(self._fleet, self._kind, agent)
        if name not in self._tables:
            whose = f"holdfast export: {self._kind} of fleet {self._fleet} {agent}".rstrip()
            self._tables[name] = Table(self._connection, name, whose)
        return self._tables[name]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with _explained(self._url), self._connection.transaction():
                yield
        except BaseException:
            self._tables = {}  # what was made or widened is undone
            raise

    def reopen(self) -> None:
        self._connection.close()
        self._connection = connect(self._url, self._kind)
        self._begin()

    def close(self) -> None:
        self._connection.close()


def _without_zero(text: object) -> object:
    return text.replace("\0", "\u2400") if isinstance(text, str) else text


def connect(url: str, kind: Kind) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(
            url, connect_timeout=CONNECT_SECONDS, application_name=f"holdfast export {kind}"
        )
    except psycopg.OperationalError as error:
        lines = str(error).strip().splitlines()
        failed = [line for line in lines if "failed: " in line] or lines[:1]
        reason = failed[-1].rpartition("failed: ")[2]
        raise Lost(
            f"{shown(url)}: cannot connect ({reason}): check the address, the user and that the "
            "server runs"
        ) from None
    except psycopg.Error as error:
        raise UsageError(
            f"{shown(url)}: is no address of a database ({error}): write "
            "postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None


def shown(url: str) -> str:
    """An address without its password, which may also stand among the settings."""
    try:
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
    except ValueError:
        return "postgres://…"


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], signed=True)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _explain(url, error) from None


def _explain(url: str, error: psycopg.Error) -> HoldfastError:
    """What the server refused, in one line; Lost where it may be asked again."""
    state = error.sqlstate or ""
    reason = " ".join((error.diag.message_primary or str(error)).split())
    if state.startswith(("08", "57P", "40")) or (not state and isinstance(error, _GONE)):
        return Lost(f"{shown(url)}: the connection was lost ({reason}): export again")
    if isinstance(error, errors.DiskFull):
        return DiskFull(
            f"{shown(url)}: the server's disk is full ({reason}): free some space there, then "
            "export again; it goes on where it was"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return UsageError(
            f"{shown(url)}: no permission ({reason}): the user needs CREATE on the schema, or "
            "tables made by somebody else with INSERT, SELECT, UPDATE and DELETE granted"
        )
    return GiveUp(f"{shown(url)}: PostgreSQL refused the rows: {reason}")
