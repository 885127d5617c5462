"""Asking: `Queries` for whoever asks often, `answer` for whoever asks once.

A query takes four steps: 1 the jail says which tables it names, 2 these are brought up to date,
3 they are handed over, 4 it runs. Only the second is one at a time; what it leaves is not changed
by the next, so that queries run beside each other and beside a refresh.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

from holdfast.errors import Busy, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.exporting.target import Kind
from holdfast.runtime.handle import Handle
from holdfast.view.sql.limits import SQL_BYTES_MAX, TABLES_PER_QUERY_MAX, Answer, Limits
from holdfast.view.sql.names import OWN, TABLES, table_names
from holdfast.view.sql.statements import unknown

try:
    import duckdb as _duckdb  # noqa: F401 (the jail needs it: say so before it is started)

    from holdfast.runtime.exporting.columns import FIXED
    from holdfast.runtime.exporting.payloads import Payloads
    from holdfast.view.sql.jailer import CLOSED, Jailer, Shared
    from holdfast.view.sql.logs import Log
    from holdfast.view.sql.models import Models
    from holdfast.view.sql.picture import ClassSheets, Picture
    from holdfast.view.sql.rows import by_agent
    from holdfast.view.sql.sheets import arrow_type
    from holdfast.view.sql.standing import (
        LETTERS,
        PARTITIONS,
        letters_of,
        letters_table,
        partitions_table,
        past_partitions_table,
    )
except ModuleNotFoundError as error:
    if error.name not in ("duckdb", "pyarrow"):
        raise
    raise UsageError("SQL needs duckdb and pyarrow: pip install 'holdfast[sql]'") from None

Code = Callable[[], FleetModel]
_LOGS: tuple[Kind, ...] = ("events", "actions")


class Seen(NamedTuple):
    """Tables as of some positions, for one query."""

    tables: dict[str, Shared]
    positions: dict[int, int]
    notes: list[str]


class Queries:
    """Keeps what it has read between queries. For any number of threads. Close it."""

    def __init__(self, live: Handle, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._engine = live.engine
        self._models = Models(live)
        self._jailer = Jailer(self.limits)
        self._refreshing = threading.Lock()
        self._closed = False
        self._picture = Picture(self._engine)
        self._payloads = Payloads(self._engine.catalog.schemas)
        self._logs: dict[Kind, Log] = {kind: self._log(kind) for kind in _LOGS}

    def answer(
        self,
        sql: str,
        *,
        since: float | None = None,
        at: float | None = None,
        fleet: Code | None = None,
        snapshots: str | None = None,
    ) -> Answer:
        """The rows of one SELECT over what is committed, or was folded `at` a time.

        With `since` events and actions are read from that time on. With `at`, `fleet` gives the
        code that folds the past again, and `snapshots` is where they are, if not beside the data.
        UsageError for what cannot be asked, TimedOut and Busy for what takes too long.
        """
        if len(sql.encode("utf-8", "surrogatepass")) > SQL_BYTES_MAX:
            raise UsageError(f"a query has at most {SQL_BYTES_MAX:,} bytes")
        with self._jailer.prisoner() as prisoner:
            references = prisoner.parse(sql)
        with self._turn():
            tables = table_names(self._picture.agents())
            models = self._models.names([*tables, *TABLES])
            complaint = unknown(references, [*tables, *models, *TABLES])
            if complaint is not None:
                raise UsageError(complaint)
            named = {reference.name.lower() for reference in references}
            if len(named) > TABLES_PER_QUERY_MAX:
                raise UsageError(f"a query names at most {TABLES_PER_QUERY_MAX} tables")
            if at is None:
                seen = self._present(named, tables, since)
        chosen = {table: models[table] for table in models.keys() & named}
        if at is not None:  # which takes long, and shares nothing with others
            if chosen:
                raise UsageError(f"{', '.join(sorted(chosen))}: views are asked as they are now")
            seen = self._past(named, tables, at, fleet, snapshots)
        for table, name in chosen.items():
            seen.tables[table] = Shared(self._models.table(name))
        with self._jailer.prisoner() as prisoner:
            result = prisoner.run(sql, seen.tables)
        return Answer(*result[:2], seen.positions, result.truncated, seen.notes)

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Every table there is, with names and types of its columns."""
        with self._turn():
            names = table_names(self._picture.agents())
            classes = {table: self._picture.of(agent) for table, agent in names.items()}
        own = list(zip(OWN, ("text", "int", "moment"), strict=True))
        forms: dict[str, list[Any]] = {
            table: [*own, *((column.name, column.form) for column in each.columns)]
            for table, each in sorted(classes.items())
        }
        models = self._models.names([*names, *TABLES])
        forms |= {table: list(self._models.forms(name).items()) for table, name in models.items()}
        forms |= {kind: list(FIXED[kind].items()) for kind in _LOGS}
        forms |= {"dead_letters": list(LETTERS.items()), "partitions": list(PARTITIONS.items())}
        return {
            table: [(name, _type_name(form)) for name, form in columns]
            for table, columns in forms.items()
        }

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One refresh at a time; an owner that does not answer must not gather all who ask."""
        seconds = self.limits.wait_seconds
        if not self._refreshing.acquire(timeout=seconds):
            raise Busy(f"tables are being read for another query for {seconds:g} s: ask again")
        try:
            if self._closed:
                raise UsageError(CLOSED)
            yield
        finally:
            self._refreshing.release()

    # Now.

    def _present(self, named: set[str], tables: Mapping[str, str], since: float | None) -> Seen:
        wanted = {table: agent for table, agent in tables.items() if table in named}
        counts = tables.values() if "partitions" in named else ()
        heads = self._picture.refresh({*wanted.values(), *counts})
        found = {table: self._picture.of(agent).shared() for table, agent in wanted.items()}
        notes = []
        for kind in (each for each in _LOGS if each in named):
            log = self._logs[kind] if since is None else self._log(kind)
            notes.append(log.refresh(heads, since))
            found[kind] = log.shared()
        if "dead_letters" in named:
            letters = letters_of(self._engine, heads)
            table, note = letters_table(letters, self._payloads, self.limits.log_rows_max)
            found["dead_letters"] = Shared(table)
            notes.append(note)
        if "partitions" in named:
            agents = Counter(dict.fromkeys(heads, 0))
            for agent in tables.values():
                sheets = self._picture.of(agent).sheets
                agents.update({number: len(sheet) for number, sheet in sheets.items()})
            found["partitions"] = Shared(partitions_table(self._engine, heads, agents))
        positions = {number: head.position for number, head in heads.items()}
        return Seen(found, positions, [note for note in notes if note])

    def _log(self, kind: Kind) -> Log:
        return Log(kind, self._engine, self._payloads, self.limits.log_rows_max)

    # Then.

    def _past(
        self,
        named: set[str],
        tables: Mapping[str, str],
        at: float,
        fleet: Code | None,
        snapshots: str | None,
    ) -> Seen:
        from holdfast.view.sql.past import moment_of  # it loads what a replay needs

        if named & {*_LOGS}:
            raise UsageError(
                "events and actions are not asked with a time: they are kept, so ask for those "
                "with a stamp before it"
            )
        moment = moment_of(self._engine, fleet, at, snapshots, self.limits.fold_seconds)
        found: dict[str, Shared] = {}
        parts = {number: by_agent(records) for number, records in moment.records.items()}
        for table in tables.keys() & named:
            sheets = ClassSheets(tables[table], moment.schemas)
            sheets.fill(moment.heads, {n: part.get(tables[table], []) for n, part in parts.items()})
            found[table] = sheets.shared()
        if "dead_letters" in named:
            payloads = Payloads(lambda: moment.schemas)
            table, _ = letters_table(moment.letters, payloads, self.limits.log_rows_max)
            found["dead_letters"] = Shared(table)
        if "partitions" in named:
            agents = {number: len(records) for number, records in moment.records.items()}
            found["partitions"] = Shared(past_partitions_table(moment.heads, agents))
        return Seen(found, {n: head.position for n, head in moment.heads.items()}, [])

    def close(self) -> None:
        self._closed = True
        self._jailer.close()
        # After a refresh that is under way. One that takes longer keeps its tables until it ends.
        if self._refreshing.acquire(timeout=self.limits.wait_seconds):
            self._picture = Picture(self._engine)  # tables that were shared go with the old one
            self._logs.clear()
            self._refreshing.release()

    def __enter__(self) -> Queries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def answer(
    live: Handle,
    sql: str,
    *,
    limits: Limits | None = None,
    since: float | None = None,
    at: float | None = None,
    fleet: Code | None = None,
    snapshots: str | None = None,
) -> Answer:
    """One question: `Queries` for whoever has more."""
    with Queries(live, limits) as queries:
        return queries.answer(sql, since=since, at=at, fleet=fleet, snapshots=snapshots)


_TYPE_NAMES = {
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date32[day]": "DATE",
    "decimal128(20, 0)": "DECIMAL(20,0)",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}


def _type_name(form: Any) -> str:
    """As SQL calls it."""
    return _TYPE_NAMES.get(str(arrow_type(form)), "JSON")
