"""Goal: into PostgreSQL each row comes exactly once, through cut connections, restarts and a second
export at the same time; and whatever the server refuses is one line."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from holdfast import Agent, Context, DiskFull, Event, Fleet, GiveUp, InUse, TryAgain, UsageError, on
from holdfast.errors import HoldfastError
from holdfast.runtime.exporting import exporter as exporting
from holdfast.runtime.exporting import reading
from holdfast.runtime.exporting.exporter import Exporter
from holdfast.runtime.exporting.postgres import shown
from tests.runtime.exporting.fleets import Drone, Tick, fleet
from tests.runtime.exporting.sinks import Database, export, exporter
from tests.runtime.semantics import World, opened
from tests.servers.postgres import own_server


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with opened(fleet, "memory", tmp_path / "world") as world:
        world.live.send_many([(Drone, f"d-{i % 4}", Tick(n=i)) for i in range(20)])
        world.run()
        yield world


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_PER_BATCH", 1)  # so many as a frame has


def positions(database: Database) -> list[int]:
    return [row["position"] for row in database.rows("events")]


def more(world: World, frames: int) -> None:
    for i in range(frames):
        world.live.send(Drone, f"d-{i % 3}", Tick(n=i))
    world.run()


# ---------------------------------------------------------------- connections that end


def test_connections_cut_at_every_point_double_and_lose_nothing(
    world: World, database: Database
) -> None:
    more(world, 12)
    passes = 0

    def cut(point: str) -> None:
        """Before or after each commit, the server ends the session."""
        nonlocal passes
        passes += 1
        if passes % 2:
            database.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'holdfast export events' AND datname = current_database()"
            )

    notes: list[str] = []
    assert export(world.engine, "events", database, reach=cut, note=notes.append) >= 12
    assert positions(database) == list(range(32))
    assert passes > 20
    assert "the connection was lost" in notes[0]
    assert export(world.engine, "events", database) == 0


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_the_server_restarts_in_the_middle(world: World, how: signal.Signals) -> None:
    more(world, 12)
    with own_server() as server:
        database = Database(server.url)
        waiting: list[threading.Thread] = []
        passes = 0

        def restart(point: str) -> None:
            nonlocal passes
            passes += 1
            if passes == 7:  # inside a transaction with rows
                server.stop(how)
                waiting.append(threading.Thread(target=server.start))
                waiting[0].start()

        with exporter(world.engine, "events", database, reach=restart) as made:
            made.run()
        waiting[0].join()
        assert positions(database) == list(range(32))
        assert export(world.engine, "events", database) == 0


def test_a_server_that_stays_away_is_one_line(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exporter(world.engine, "events", database) as made:
        monkeypatch.setattr(exporting, "PAUSE_SECONDS", 0.01)
        assert made.run() == 20
        made._target._url = _with(database.to, port=1)  # type: ignore[attr-defined]
        made._target._connection.close()  # type: ignore[attr-defined]
        with pytest.raises(TryAgain, match="cannot connect"):
            made.run(retry_seconds=0.1)


# ---------------------------------------------------------------- two at once


def test_the_second_export_at_once_is_refused(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exporter(world.engine, "events", database):
        with (
            monkeypatch.context() as patch,
            pytest.raises(InUse, match="another export of events of fleet 'harbour' writes to"),
        ):
            patch.setattr("holdfast.runtime.exporting.postgres.LOCK_SECONDS", 0.2)
            export(world.engine, "events", database)
        assert export(world.engine, "actions", database) == 10  # another kind is no second one
    assert export(world.engine, "events", database) == 20


def test_without_its_lock_a_second_export_still_doubles_nothing(
    world: World, database: Database
) -> None:
    """A proxy that pools sessions loses the lock. The place is compared when it is moved."""

    def unlock(made: Exporter) -> None:
        connection = made._target._connection  # type: ignore[attr-defined]
        connection.execute("SELECT pg_advisory_unlock_all()")
        connection.commit()

    with exporter(world.engine, "events", database) as one:
        unlock(one)
        with exporter(world.engine, "events", database) as other:
            assert one.run() == 20
            before = one._target.places()[0]
            more(world, 3)
            unlock(other)
            assert other.run() == 3
            with pytest.raises(InUse, match="has moved on"):
                one._target.write([], before, before._replace(position=23))
    assert positions(database) == list(range(23))


# ---------------------------------------------------------------- tables that are there


def test_tables_made_by_somebody_else_are_used(world: World, database: Database) -> None:
    """With a default of their own, jsonb, and an index nobody asked us for."""
    database.change(
        "CREATE TABLE harbour_events(partition bigint, position bigint, fired bigint, "
        "stamp timestamptz, event_time timestamptz, origin varchar(20), agent text, key text, "
        "type text, source text, seq bigint, sender text, payload jsonb, "
        "taken timestamptz NOT NULL DEFAULT now(), UNIQUE (partition, position))"
    )
    assert export(world.engine, "events", database) == 20
    query = "SELECT count(*), count(taken), count(DISTINCT payload->>'n') FROM harbour_events"
    assert database.query(query) == [(20, 20, 20)]


def test_a_column_that_is_missing_is_added(world: World, database: Database) -> None:
    database.change("CREATE TABLE harbour_actions(id text PRIMARY KEY, number bigint)")
    assert export(world.engine, "actions", database) == 10
    assert len(database.rows("actions")) == 10


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("harbour_events(position text)", "column position of table harbour_events is text, an "),
        ("harbour_events(id int NOT NULL)", 'null value in column "id"'),
    ],
)
def test_a_table_that_does_not_fit_is_named(
    world: World, database: Database, table: str, text: str
) -> None:
    database.change(f"CREATE TABLE {table}")
    with pytest.raises(HoldfastError, match=re.escape(text)):
        export(world.engine, "events", database)
    assert database.query("SELECT count(*) FROM harbour_events") == [(0,)]
    if "holdfast_export" in database.tables():
        assert database.query("SELECT count(*) FROM holdfast_export") == [(0,)]


def test_a_view_in_the_place_of_a_table_is_named(world: World, database: Database) -> None:
    database.change("CREATE VIEW harbour_events AS SELECT 1 AS position")
    with pytest.raises(HoldfastError, match=r"cannot be performed on relation .harbour_events"):
        export(world.engine, "events", database)


class Set(Event):
    a: int


class Order(Agent):
    """Named like reserved words, and longer than PostgreSQL has names."""

    user: int = 0
    group: str = "x"
    täßle: float = 1.5  # noqa: PLC2401
    a_name_that_is_so_long_that_postgresql_would_cut_it_in_silence_one: int = 1
    a_name_that_is_so_long_that_postgresql_would_cut_it_in_silence_two: int = 2

    @on
    def set(self, event: Set, ctx: Context) -> None:
        self.user = event.a


def test_reserved_words_odd_letters_and_long_names(database: Database, tmp_path: Path) -> None:
    odd = Fleet("select.from:where-1", agents=[Order])
    with opened(odd, "memory", tmp_path) as world:
        for a in (3, 4):
            world.live.send(Order, "k", Set(a=a))
            world.run()
            export(world.engine, "events", database)
            export(world.engine, "states", database)
    assert database.tables() == [
        "holdfast_export",
        "select.from:where-1_events",
        "select.from:where-1_states_Order",
    ]
    (row,) = database.states("select.from:where-1").values()
    assert (row["user"], row["group"], row["täßle"]) == (4, "x", 1.5)
    assert sorted(v for name, v in row.items() if name.startswith("a_name")) == [1, 2]


def test_a_table_of_another_export_is_refused(database: Database, tmp_path: Path) -> None:
    """Fleet `a` with states of an agent `Order`, and fleet `a_states`, whose kind is `Order`."""
    with opened(Fleet("a", agents=[Order]), "memory", tmp_path) as world:
        world.live.send(Order, "k", Set(a=3))
        world.run()
        export(world.engine, "states", database)
        database.change('ALTER TABLE "a_states_Order" RENAME TO a_events')
        with pytest.raises(UsageError, match='table "a_events" belongs to another export'):
            export(world.engine, "events", database)


# ---------------------------------------------------------------- what a server refuses


def _with(url: str, **parts: object) -> str:
    found = urlsplit(url)
    user = parts.get("user", found.username)
    password = parts.get("password", found.password)
    port = parts.get("port", found.port)
    return urlunsplit(found._replace(netloc=f"{user}:{password}@{found.hostname}:{port}"))


def test_an_address_is_shown_without_its_password() -> None:
    url = "postgres://me:s%2Fcret@db:5433/fleets?password=other&sslmode=require"
    assert shown(url) == "postgres://me@db:5433/fleets"
    assert shown("postgres:///fleets") == "postgres:///fleets"
    assert shown("postgres://me:secret@db:port/x") == "postgres://…"


def test_wrong_addresses_are_one_line(world: World, database: Database) -> None:
    wrong = {
        _with(database.to, password="guess"): "password authentication failed",
        _with(database.to, user="stranger"): "stranger",
        _with(database.to, port=1): "refused",
        database.to + "_not": "does not exist",
        "postgres://nowhere.invalid/x": "cannot connect",
    }
    for url, text in wrong.items():
        with pytest.raises(TryAgain, match=text) as caught:
            Exporter(world.engine, "events", url)
        assert "guess" not in str(caught.value)
        assert "check the address, the user and that the server runs" in str(caught.value)
    with pytest.raises(UsageError, match="is no address of a database"):
        Exporter(world.engine, "events", "postgres://a/b?unknown_setting=1")


def test_without_permission(world: World, database: Database) -> None:
    user = "clerk_" + database.to[-6:]
    database.change(f"CREATE USER {user} PASSWORD 'quill'")
    try:
        clerk = Database(_with(database.to, user=user, password="quill"))
        with pytest.raises(UsageError, match=r"no permission .*the user needs CREATE"):
            export(world.engine, "events", clerk)
        # Tables made by somebody else are enough.
        export(world.engine, "events", database)
        database.change(
            f"GRANT INSERT, SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user}"
        )
        more(world, 2)
        assert export(world.engine, "events", clerk) == 2
    finally:
        database.change(f"DROP OWNED BY {user}; DROP USER {user}")


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ("53100", DiskFull, "the server's disk is full"),
        ("P0001", GiveUp, "PostgreSQL refused the rows: as asked"),
    ],
)
def test_errors_in_the_middle_leave_nothing(
    world: World, database: Database, state: str, error: type[Exception], text: str
) -> None:
    export(world.engine, "events", database)
    database.change(
        "CREATE FUNCTION fail() RETURNS trigger AS $$ BEGIN "
        f"RAISE EXCEPTION 'as asked' USING ERRCODE = '{state}'; END $$ LANGUAGE plpgsql"
    )
    database.change(
        "CREATE TRIGGER fail BEFORE INSERT ON harbour_events FOR EACH ROW "
        "WHEN (NEW.position = 22) EXECUTE FUNCTION fail()"
    )
    more(world, 5)
    with pytest.raises(error, match=re.escape(text)):
        export(world.engine, "events", database)
    assert positions(database) == list(range(22))
    database.change("DROP TRIGGER fail ON harbour_events")
    assert export(world.engine, "events", database) == 3
    assert positions(database) == list(range(25))


def test_two_kinds_may_begin_at_once(world: World, database: Database) -> None:
    ready = threading.Barrier(3)
    failed: list[Exception] = []

    def begin(kind: str) -> None:
        ready.wait()
        try:
            export(world.engine, kind, database)  # type: ignore[arg-type]
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=[k]) for k in ("events", "states", "actions")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(database.query("SELECT DISTINCT kind FROM holdfast_export")) == 3


def test_the_name_of_a_timer_may_have_a_zero_byte(database: Database, tmp_path: Path) -> None:
    class Bell(Agent):
        n: int = 0

        @on
        def set(self, event: Set, ctx: Context) -> None:
            self.n += event.a
            if event.a:
                ctx.after(1.0, Set(a=0), name="ding\0dong")

    with opened(Fleet("bells", agents=[Bell]), "memory", tmp_path) as world:
        world.live.send(Bell, "b", Set(a=1))
        world.run()
        world.pass_time(2.0)
        export(world.engine, "events", database)
    assert database.query("SELECT sender FROM bells_events WHERE fired = 0") == [("ding␀dong",)]
