"""The targets of an export under one face: where to write, and what is to be read there.

Rows are read back by other means than those that wrote them, as dicts; times as whole microseconds
(`micros`), which is what PostgreSQL and Parquet keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as parquet

from holdfast.engine.port import Engine
from holdfast.runtime.exporting.exporter import Exporter
from holdfast.runtime.exporting.target import Kind

Row = dict[str, Any]
TIMES = ("stamp", "event_time", "issued", "expires_at", "updated")
FLEET = "harbour"


def micros(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        assert isinstance(value, (int, float))
        value = datetime.fromtimestamp(value, UTC)  # rounds as everybody does who has a date
    return (value - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def plain(row: Row) -> Row:
    return {name: micros(each) if name in TIMES else each for name, each in row.items()}


class Sink:
    name: str
    to: str

    def rows(self, kind: Kind) -> list[Row]:
        """Events and actions; by partition, as written, but a table has no order of its own."""
        raise NotImplementedError

    def states(self, fleet: str = FLEET) -> dict[str, Row]:
        """The newest state of each agent that is not gone, by `Agent/key`."""
        raise NotImplementedError


def newest(rows: list[Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in rows:
        name = f"{row['agent']}/{row['key']}"
        if row.pop("gone"):
            found.pop(name, None)
        else:
            found[name] = row
    return found


class NdjsonFile(Sink):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.to = f"ndjson:{folder}/{{kind}}.ndjson"

    def _read(self, kind: Kind) -> list[Row]:
        path = self._folder / f"{kind}.ndjson"
        return [plain(json.loads(line)) for line in path.read_text().splitlines()]

    def rows(self, kind: Kind) -> list[Row]:
        return sorted(self._read(kind), key=lambda row: row["partition"])

    def states(self, fleet: str = FLEET) -> dict[str, Row]:
        return newest([row | row.pop("state") for row in self._read("states")])


class NdjsonFolder(NdjsonFile):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.to = f"ndjson:{folder}/lines/"

    def _read(self, kind: Kind) -> list[Row]:
        paths = sorted((self._folder / "lines" / kind).rglob("*.ndjson"), key=lambda p: p.name)
        return [plain(json.loads(x)) for path in paths for x in path.read_text().splitlines()]


class Parquet(Sink):
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "parquet"
        self.to = f"parquet:{self._folder}"

    def _read(self, kind: Kind) -> list[Row]:
        paths = sorted((self._folder / kind).rglob("*.parquet"), key=lambda p: p.name)
        return [
            plain(row) for path in paths for row in parquet.ParquetFile(path).read().to_pylist()
        ]

    def rows(self, kind: Kind) -> list[Row]:
        found = self._read(kind)
        for row in found:
            row["payload"] = None if row["payload"] is None else json.loads(row["payload"])
        return found

    def states(self, fleet: str = FLEET) -> dict[str, Row]:
        rows = self._read("states")
        for row in rows:
            if "heard" in row and row["heard"] is not None:
                row["heard"] = json.loads(row["heard"])
        return newest(rows)


class Database(Sink):
    def __init__(self, url: str) -> None:
        self.to = url

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.to) as connection:
            return connection.execute(text, values or None).fetchall()

    def change(self, text: str) -> None:
        with psycopg.connect(self.to, autocommit=True) as connection:
            connection.execute(text)

    def _read(self, table: str) -> list[Row]:
        with psycopg.connect(self.to) as connection:
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            names = [each.name for each in cursor.description or ()]
            return [plain(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]

    def tables(self) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return [name for (name,) in self.query(query)]

    def rows(self, kind: Kind) -> list[Row]:
        def order(row: Row) -> tuple[object, ...]:
            if kind == "actions":
                return row["partition"], row["number"]
            return row["partition"], row["position"], row["fired"] is None, row["fired"]

        return sorted(self._read(f"{FLEET}_{kind}"), key=order)

    def states(self, fleet: str = FLEET) -> dict[str, Row]:
        tables = [name for name in self.tables() if name.startswith(f"{fleet}_states_")]
        found = [row for table in tables for row in self._read(table)]
        assert len({(row["agent"], row["key"]) for row in found}) == len(found)
        return {f"{row['agent']}/{row['key']}": row for row in found}


SINKS = ["file", "folder", "parquet", "postgres"]


def sink_named(name: str, folder: Path, database: str) -> Sink:
    makers = {"file": NdjsonFile, "folder": NdjsonFolder, "parquet": Parquet}
    sink = Database(database) if name == "postgres" else makers[name](folder)
    sink.name = name
    return sink


@contextmanager
def exporter(engine: Engine, kind: Kind, sink: Sink, **options: Any) -> Iterator[Exporter]:
    made = Exporter(engine, kind, sink.to.format(kind=kind), **options)
    try:
        yield made
    finally:
        made.close()


def export(engine: Engine, kind: Kind, sink: Sink, **options: Any) -> int:
    with exporter(engine, kind, sink, **options) as made:
        return made.run(retry_seconds=5.0)
