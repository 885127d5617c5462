"""Goal: a query can read the tables it is given and nothing else, and can neither hang nor take the
memory of whoever runs it. These try to break out."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.errors import Busy, HoldfastError, TimedOut, UsageError
from holdfast.view.sql.jailer import Jailer
from holdfast.view.sql.limits import SQL_BYTES_MAX, Limits
from holdfast.view.sql.queries import Queries
from tests.view.sql.fleets import Add, Counter, counting

# Time enough for whatever ends by itself, or by its memory, on a machine that has much else to do.
LIMITS = Limits(seconds=30.0, memory_bytes=128 * 1024**2)
HASTE = Limits(seconds=0.3, memory_bytes=LIMITS.memory_bytes)
ENDLESS = "SELECT count(*) FROM range(1000000000000000000)"
SECRET = "a secret that nobody may read"
WELL = "SELECT sum(n) FROM counter"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with counting.open("memory:") as live:
        live.send_many([(Counter, f"c-{i}", Add()) for i in range(100)])
        live.settle()
        yield live


@pytest.fixture(scope="module")
def queries(live: Live) -> Iterator[Queries]:
    with Queries(live, LIMITS) as queries:
        yield queries


@pytest.fixture(scope="module")
def hasty(live: Live) -> Iterator[Queries]:
    with Queries(live, HASTE) as queries:
        yield queries


@pytest.fixture(autouse=True)
def still_well(queries: Queries) -> Iterator[None]:
    """Whatever was asked, the next question is answered, and we have not grown."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert queries.answer(WELL).rows == [[100]]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KiB"


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE counter",
        "INSERT INTO counter VALUES (1)",
        "UPDATE counter SET n = 0",
        "DELETE FROM counter",
        "CREATE TABLE t AS SELECT 1",
        "CREATE MACRO m() AS TABLE SELECT 1",
        "ATTACH '{file}' AS other",
        "COPY (SELECT 1) TO '{file}'",
        "COPY counter FROM '{file}'",
        "EXPORT DATABASE '{file}'",
        "IMPORT DATABASE '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET GLOBAL enable_external_access = true",
        "RESET enable_external_access",
        "SET VARIABLE x = 1",
        "PRAGMA database_list",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "EXPLAIN ANALYZE SELECT 1",
        "CHECKPOINT",
        "VACUUM",
        "USE memory",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "DEALLOCATE p",
        "SHOW TABLES",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY (SELECT 1) TO '{file}'",
        "WITH t AS (DELETE FROM counter RETURNING *) SELECT * FROM t",
        "",
        ";",
        "-- nothing",
    ],
)
def test_only_one_select_is_obeyed(queries: Queries, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "written"
    with pytest.raises(UsageError) as refusal:
        queries.answer(sql.format(file=file))
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_csv_auto('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM read_json('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM parquet_metadata('{file}')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM '{folder}/*.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "FROM '{file}'",
        "SELECT (SELECT count(*) FROM read_text('{file}'))",
        "SELECT * FROM counter WHERE EXISTS (SELECT 1 FROM read_text('{file}'))",
        "WITH t AS (SELECT * FROM read_text('{file}')) SELECT * FROM t",
        "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
        "SELECT * FROM query_table('{file}')",
        "SELECT content FROM counter, LATERAL (SELECT * FROM read_text('{file}'))",
        "SELECT getenv('HOLDFAST_SECRET')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_logs",
        "SELECT * FROM duckdb_settings",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM arrow_scan(1, 2, 3)",
        "SELECT * FROM pandas_scan(140000000000000)",
        "SELECT * FROM python_map_function(1)",
        "SELECT * FROM sqlite_scan('{file}', 't')",
        "SELECT * FROM postgres_scan('host=localhost', 'public', 't')",
        "SELECT * FROM read_csv('https://localhost/x')",
        "SELECT * FROM self",
        "SELECT * FROM relation",
        "SELECT * FROM tables",
        "SELECT * FROM memory.main.counter_",
        "SELECT $1",
        "SELECT nextval('s')",
    ],
)
def test_nothing_but_tables_can_be_read(
    queries: Queries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET", SECRET)
    file = tmp_path / "secret.csv"
    file.write_text(f"a\n{SECRET}\n")
    with pytest.raises(UsageError) as refusal:
        queries.answer(sql.format(file=file, folder=tmp_path))
    assert SECRET not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["current_setting('home_directory')", "getvariable('x')"])
def test_what_is_set_there_says_nothing_of_us(queries: Queries, name: str) -> None:
    assert queries.answer(f"SELECT {name}").rows in ([[""]], [[None]])


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "SELECT count(*) FROM counter a, counter b, counter c, counter d, counter e, counter f",
        "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
    ],
)
def test_what_does_not_end_is_ended(hasty: Queries, sql: str) -> None:
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"did not end within 0\.3 s"):
        hasty.answer(sql)
    assert time.monotonic() - begun < 30.0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 1000000000)",
        "SELECT md5(repeat('x', 4000000000))",
        "SELECT range(1000000000)",
        "SELECT list(range) FROM range(1000000000)",
        "SELECT string_agg(repeat('x', 1000000)) FROM range(100000)",
        "SELECT * FROM range(100000000) ORDER BY random()",
        "SELECT list_distinct(range(50000000))",
        "SELECT printf('%2000000000d', 3)",
        "SELECT list_transform(range(1000), lambda x: range(100000))",
        "WITH RECURSIVE t AS (SELECT 'x' x UNION ALL SELECT x || x FROM t) SELECT count(*) FROM t",
    ],
)
def test_what_takes_too_much_memory_is_refused(queries: Queries, sql: str) -> None:
    with pytest.raises(UsageError, match="needs more memory than 128 MiB"):
        queries.answer(sql)


def test_what_cannot_be_told_to_end_is_killed(hasty: Queries) -> None:
    """It is busy within one function, which looks at no clock; or memory ends before."""
    with pytest.raises((TimedOut, UsageError), match=r"did not end|needs more memory"):
        hasty.answer("SELECT lpad('x', 2000000000, 'y')")


@pytest.mark.parametrize("opens", ["(", "SELECT ", "[", "NOT ", "abs(", "CASE WHEN 1 THEN "])
def test_deep_nesting_is_refused(queries: Queries, opens: str) -> None:
    with pytest.raises(HoldfastError):
        queries.answer("SELECT " + opens * 5000 + "1")


def test_a_long_query_is_refused(queries: Queries) -> None:
    with pytest.raises(UsageError, match="at most 65,536 bytes"):
        queries.answer("SELECT '" + "x" * SQL_BYTES_MAX + "'")


def test_a_large_answer_is_cut(queries: Queries) -> None:
    found = queries.answer("SELECT * FROM range(100000000)")
    assert (len(found.rows), found.truncated) == (10_000, True)


def test_odd_texts_are_answered_or_refused(queries: Queries) -> None:
    assert queries.answer("SELECT 'é😀', chr(0)").rows == [["é😀", "\0"]]
    for sql in ("SELECT '\ud800'", "SELECT \0", "\0", "SELECT 'a"):
        with pytest.raises(UsageError):
            queries.answer(sql)


def test_what_one_query_leaves_behind_another_does_not_find(queries: Queries) -> None:
    queries.answer("SELECT setseed(0.5)")
    first = queries.answer("SELECT random()").rows
    queries.answer("SELECT setseed(0.5)")
    assert queries.answer("SELECT random()").rows != first


# Processes.


def test_the_process_has_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET", SECRET)
    jail = Jailer(LIMITS)
    with jail.prisoner() as prisoner:
        there = Path(f"/proc/{prisoner._process.pid}")
        assert SECRET.encode() not in (there / "environ").read_bytes()
        opened = [os.readlink(each) for each in (there / "fd").iterdir()]
        assert not [each for each in opened if ".db" in each or ".seg" in each]
        bounds = (there / "limits").read_text()
        assert [x.split()[3] for x in bounds.splitlines() if "Max file size" in x] == ["0"]
    jail.close()


def test_they_outlive_the_thread_that_asked() -> None:
    jail = Jailer(LIMITS)
    seen: list[int] = []

    def ask() -> None:
        with jail.prisoner() as prisoner:
            prisoner.parse("SELECT 1")
            seen.append(prisoner._process.pid)

    for _ in range(3):
        asker = threading.Thread(target=ask)
        asker.start()
        asker.join()
        time.sleep(0.1)  # the kernel would have ended it by now
    jail.close()
    assert len(set(seen)) == 1


def test_one_that_was_killed_is_replaced(queries: Queries) -> None:
    (prisoner,) = queries._jailer._free
    os.kill(prisoner._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, prisoner._process.pid, os.WEXITED | os.WNOWAIT)
    assert queries.answer(WELL).rows == [[100]]


def test_one_that_is_killed_in_a_query_is_told(queries: Queries) -> None:
    pid = queries._jailer._free[-1]._process.pid
    begun = busy_ticks(pid)

    def kill() -> None:
        while busy_ticks(pid) < begun + 10:  # a tenth of a second: nothing but the query takes it
            time.sleep(0.01)
        os.kill(pid, signal.SIGSEGV)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(UsageError, match=r"ended the process that ran it \(SIGSEGV\)"):
        queries.answer(ENDLESS)
    killer.join()


def busy_ticks(pid: int) -> int:
    """Its processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def test_they_end_with_their_jailer() -> None:
    jail = Jailer(LIMITS)
    with jail.prisoner() as prisoner:
        assert prisoner.parse("SELECT 1") == []
    jail.close()
    assert prisoner.has_ended


def test_more_queries_than_may_run_wait_and_then_are_refused() -> None:
    limits = Limits(seconds=0.5, at_once_max=1, wait_seconds=0.1)
    with counting.open("memory:") as live, Queries(live, limits) as queries:
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(queries.answer, ENDLESS) for _ in range(3)]
            errors = [type(each.exception()) for each in asked]
        assert set(errors) == {TimedOut, Busy}
