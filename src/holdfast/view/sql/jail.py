"""The jail: `python -P -m holdfast.view.sql.jail FD PARENT MEMORY`, a process that runs SQL.

Started by `jailer`, never by hand. It has no environment, can write no file, and ends with its
parent. Every query gets a fresh database with the tables it names, which lie in memory that is
shared and sealed. What a query leaves behind is gone with its database.

DuckDB's own bound on memory is not enough: of `repeat('x', 1000000000)` it took 2 GB with a bound
of 256 MB, and did not end for seconds when it was told to. So the kernel bounds the process, and
our side kills it when it is late.
"""

from __future__ import annotations

import base64
import json
import math
import os
import resource
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as arrow

from holdfast.runtime.supervised import end_with
from holdfast.view.sql.statements import Refused, tables_of
from holdfast.view.sql.wire import receive, send, send_text

THREADS = 2
SPARE_BYTES = 128 * 1024 * 1024  # of memory beside what a query gets: for what we do ourselves
FILES_MAX = 256
ROWS_AT_ONCE = 1024
WARM_UP = 3  # queries
NESTED_MAX = 250  # deeper expressions could overflow a stack
SETTINGS: dict[str, Any] = {
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "max_temp_directory_size": "0B",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": THREADS,
}


class Jail:
    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._tables: dict[str, tuple[int, Any]] = {}  # by name: serial, content
        self._parser = self._database()

    def _database(self) -> duckdb.DuckDBPyConnection:
        memory = f"{self._memory_bytes // 1024}KiB"
        connection = duckdb.connect(":memory:", config={**SETTINGS, "memory_limit": memory})
        connection.execute("SET TimeZone='UTC'")
        connection.execute(f"SET max_expression_depth={NESTED_MAX}")
        connection.execute("SET lock_configuration=true")
        return connection

    def parse(self, sql: str) -> list[list[str]]:
        row = self._parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        assert row is not None
        return [list(each) for each in tables_of(row[0])]

    def keep(self, tables: Sequence[tuple[str, int]], descriptors: list[int]) -> None:
        """Take the new ones of these, and let go of what they replace."""
        for name, serial in tables:
            if self._tables.get(name, (0, None))[0] == serial:
                continue
            descriptor = descriptors.pop(0)
            source = arrow.memory_map(f"/proc/self/fd/{descriptor}", "r")
            self._tables[name] = serial, arrow.ipc.open_file(source).read_all()
            os.close(descriptor)

    def run(
        self, sql: str, tables: Sequence[str], seconds: float, rows_max: int, bytes_max: int
    ) -> tuple[list[list[str]], list[str], bool]:
        """Columns, rows as JSON, and whether there are more."""
        database = self._database()
        ends = threading.Timer(seconds, database.interrupt)
        ends.daemon = True
        ends.start()
        try:
            for name in tables:
                database.register(name, self._tables[name][1])
            relation = database.sql(sql)
            if relation is None:
                raise Refused("that gives no rows")
            columns = [[n, str(t)] for n, t in zip(relation.columns, relation.types, strict=True)]
            rows, truncated = _taken(_rows(relation), rows_max, bytes_max)
            return columns, rows, truncated
        finally:
            ends.cancel()
            database.close()

    def warm_up(self) -> None:
        """Some queries, so that memory is counted when all that is needed anyway is there."""
        for number in range(WARM_UP):
            descriptor = os.memfd_create("holdfast-table", os.MFD_CLOEXEC)
            with arrow.OSFile(f"/proc/self/fd/{descriptor}", "wb") as file:
                table = arrow.table({"a": list(range(1000))})
                with arrow.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
            sql = "SELECT a % 7, count(*) FROM warm GROUP BY 1 ORDER BY 1"
            self.parse(sql)
            self.keep([("warm", number + 1)], [descriptor])
            self.run(sql, ["warm"], 60.0, 100, 1024)
        self._tables.clear()


def _rows(relation: duckdb.DuckDBPyRelation) -> Iterator[list[object]]:
    for batch in relation.to_arrow_reader(ROWS_AT_ONCE):
        columns = [[_plain(each) for each in column.to_pylist()] for column in batch.columns]
        yield from (list(row) for row in zip(*columns, strict=True))


def _taken(found: Iterator[list[object]], rows_max: int, bytes_max: int) -> tuple[list[str], bool]:
    rows: list[str] = []
    size = 0
    for row in found:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        size += len(text) + 1
        if size > bytes_max and not rows:
            raise Refused(f"one row of the answer exceeds the bound of {bytes_max:,} bytes")
        if len(rows) >= rows_max or size > bytes_max:
            return rows, True
        rows.append(text)
    return rows, False


def _plain(value: object) -> object:
    """As JSON has it; what it has no word for as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        if value.is_finite() and value.as_tuple().exponent == 0:
            return int(value)  # a sum of integers is a wide one
        number = float(value)
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value)


# ---------------------------------------------------------------- the process


def serve(line: socket.socket, jail: Jail, tired_bytes: int) -> None:
    """Past `tired_bytes` it has kept what it should not have: it says so, and is replaced."""
    while True:
        message, descriptors = receive(line)
        try:
            text = _obey(jail, message, descriptors)
        except Exception as error:  # of DuckDB, Arrow or Python: whoever asked is told
            text = json.dumps(["refused", _kind(error), _text(error)])
        tired = json.dumps(_data_bytes() > tired_bytes)
        send_text(line, f"[{tired},{text}]")


def _obey(jail: Jail, message: list[Any], descriptors: list[int]) -> str:
    if message[0] == "parse":
        return json.dumps(["done", jail.parse(message[1])])
    _, sql, tables, seconds, rows_max, bytes_max = message
    jail.keep([(name, serial) for name, serial in tables], descriptors)
    names = [name for name, _ in tables]
    columns, rows, truncated = jail.run(sql, names, seconds, rows_max, bytes_max)
    return f'["done",{json.dumps(columns)},[{",".join(rows)}],{json.dumps(truncated)}]'


def _kind(error: Exception) -> str:
    if isinstance(error, (MemoryError, arrow.ArrowMemoryError, duckdb.OutOfMemoryException)):
        return "memory"
    if isinstance(error, duckdb.InterruptException):
        return "late"
    return "memory" if "alloc" in str(error).lower() else "wrong"  # as the parser says it


def _text(error: Exception) -> str:
    """What DuckDB says, without the picture of the line, and without advice on settings."""
    text = str(error).split("\n\nLINE ")[0].split("\nPossible solutions")[0].split(' Use "SET ')[0]
    return " ".join(text.split())[:500] or type(error).__name__


def _data_bytes() -> int:
    """What the kernel counts towards RLIMIT_DATA."""
    with open("/proc/self/status", encoding="ascii") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmData:"))


def _confine(bytes_max: int) -> None:
    for bound, most in {
        resource.RLIMIT_DATA: bytes_max,
        resource.RLIMIT_FSIZE: 0,  # no file is written
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: FILES_MAX,
    }.items():
        resource.setrlimit(bound, (most, most))


def main(descriptor: str, parent: str, memory: str) -> None:
    end_with(int(parent))
    os.chdir("/")
    jail = Jail(int(memory))
    arrow.set_cpu_count(1)  # DuckDB has threads of its own
    arrow.set_io_thread_count(1)
    jail.warm_up()
    begun = _data_bytes()
    _confine(begun + int(memory) + SPARE_BYTES)
    line = socket.socket(fileno=int(descriptor))
    send(line, [False, ["ready"]])
    try:
        serve(line, jail, begun + int(memory) // 2)
    except (EOFError, OSError):
        sys.exit(0)  # nobody asks any more


if __name__ == "__main__":
    main(*sys.argv[1:4])
