"""Goal: what SQL says of a fleet is what the fleet says of itself, by every kind of table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.errors import UsageError
from holdfast.runtime.untyped import UntypedLive, connect_untyped
from holdfast.view.sql.limits import Limits
from holdfast.view.sql.queries import Queries, answer
from tests.runtime.semantics import ENGINES, engine_url, until
from tests.view.sql.fleets import (
    EVENTS,
    Add,
    Arm,
    Counter,
    Events,
    Everything,
    Fail,
    Fill,
    Mode,
    Tell,
    clashing,
    counting,
    everything,
)

BUSY = [
    (Counter, "a", Add(n=1)),
    (Counter, "b", Add(n=3)),
    (Counter, "c", Arm(seconds=0.01)),
    (Counter, "a", Tell(to="d")),
    (Counter, "b", Fail()),
    (Counter, "e", Add(n=5)),
]


@pytest.fixture(params=["sqlite", "memory"], scope="module")
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    """A fleet with something of everything, which the tests leave as it is."""
    with busy(engine_url(request.param, tmp_path_factory.mktemp("tables"))) as live:
        yield live


@contextmanager
def busy(url: str) -> Iterator[Live]:
    with counting.open(url, partitions=3) as live:
        live.send_many(BUSY, source="test", first_seq=1)
        until(lambda: has_rung(live, "c"), "the timer")
        live.settle()
        yield live


def has_rung(live: Live, key: str) -> bool:
    state = live.state(Counter, key)
    return state is not None and state.mode is Mode.RUNG


@pytest.fixture(scope="module")
def queries(live: Live) -> Iterator[Queries]:
    with Queries(live) as queries:
        yield queries


def test_agents_are_a_table(live: Live, queries: Queries) -> None:
    found = queries.answer("SELECT key, version, mode, n FROM counter ORDER BY key")
    assert found.columns == [
        ("key", "VARCHAR"),
        ("version", "BIGINT"),
        ("mode", "VARCHAR"),
        ("n", "BIGINT"),
    ]
    expected = []
    for key in "abcde":
        state = live.state(Counter, key)
        assert state is not None
        version = len([e for e in live.history(Counter, key) if "Fail" not in str(e.event)])
        expected.append([key, version, state.mode.value, state.n])
    assert found.rows == expected
    assert found.positions == {n: each.folded for n, each in live.positions().items()}
    assert not found.truncated


def test_updated_is_when_its_last_change_was_committed(live: Live, queries: Queries) -> None:
    rows = queries.answer("SELECT key, epoch(updated) FROM counter ORDER BY key").rows
    for key, updated in rows:
        history = [e for e in live.history(Counter, str(key)) if "Fail" not in str(e.event)]
        # It is the time of the commit: of the newest event in it, perhaps of another agent.
        assert history[-1].now - 1e-5 <= float(str(updated)) <= time.time()


def test_events_are_all_inputs(live: Live, queries: Queries) -> None:
    sql = "SELECT key, position, origin, type FROM events ORDER BY key, position, fired"
    found = sorted(map(tuple, queries.answer(sql).rows))
    told = sorted(
        (key, entry.position, entry.origin, type(entry.event).__name__)
        for key in "abcde"
        for entry in live.history(Counter, key)
    )
    assert found == told
    assert {row[2] for row in found} == {"external", "message", "timer"}


def test_payloads_can_be_asked(queries: Queries) -> None:
    sql = "SELECT sum((payload->>'n')::INT) FROM events WHERE type = 'Add' AND origin = 'external'"
    assert queries.answer(sql).rows == [[9]]


def test_actions(live: Live, queries: Queries) -> None:
    sql = "SELECT id, key, type, priority, payload->>'n', epoch(expires_at - issued) FROM actions"
    found = sorted(map(tuple, queries.answer(sql).rows))
    told = sorted(
        (each.id, each.key, "Beep", "urgent", str(each.action.n), 5.0)  # type: ignore[attr-defined]
        for each in live.actions()
    )
    assert found == told
    assert len(found) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_dead_letters(engine: str, tmp_path: Path) -> None:
    with busy(engine_url(engine, tmp_path)) as live, Queries(live) as queries:
        sql = "SELECT id, agent, key, type, error, redriven FROM dead_letters"
        (letter,) = live.dead_letters()
        expected = [letter.id, "Counter", "b", "Fail", letter.error, False]
        assert queries.answer(sql).rows == [expected]
        live.redrive(letter.id)
        live.settle()
        rows = queries.answer("SELECT redriven FROM dead_letters ORDER BY stamp").rows
        assert rows == [[True], [False]], "it failed again"


def test_partitions(live: Live, queries: Queries) -> None:
    found = queries.answer("SELECT number, position, inbox, lag, agents, owner FROM partitions")
    progress = live.positions()
    assert [row[:4] for row in found.rows] == [
        [number, each.folded, each.inbox, each.lag] for number, each in sorted(progress.items())
    ]
    assert sum(int(str(row[4])) for row in found.rows) == 5
    assert all(row[5] for row in found.rows)


def test_tables_are_listed(queries: Queries) -> None:
    tables = queries.tables()
    assert list(tables) == [
        "counter",
        "visitor",
        "events",
        "actions",
        "dead_letters",
        "partitions",
    ]
    for table, columns in tables.items():
        assert queries.answer(f"SELECT * FROM {table}").columns == columns


def test_a_table_that_is_not_there(queries: Queries) -> None:
    with pytest.raises(UsageError, match="no table 'drone': there is actions, counter, dead"):
        queries.answer("SELECT * FROM drone")


def test_names_of_tables_are_of_any_case(queries: Queries) -> None:
    assert queries.answer("SELECT sum(N) FROM Counter").rows == [[12]]


def test_one_question(live: Live) -> None:
    found = answer(live, "SELECT count(*) AS c FROM counter")
    assert (found.columns, found.rows) == ([("c", "BIGINT")], [[5]])


def test_no_agents_are_no_rows(queries: Queries) -> None:
    assert queries.answer("SELECT count(*), sum(n) FROM visitor").rows == [[0, None]]


def test_names_that_are_taken_get_a_line_behind(tmp_path: Path) -> None:
    with clashing.open(f"sqlite:{tmp_path / 'data'}") as live, Queries(live) as queries:
        live.send(EVENTS, "one", Add(n=4))
        live.send(Events, "two", Add(n=1))
        live.settle()
        assert queries.answer("SELECT key, n FROM events_").rows == [["one", 4]]
        sql = 'SELECT key, key_, version, version_, updated_, lat, "LAT_" FROM events__'
        assert queries.answer(sql).rows == [["two", "a field", 1, "seven", True, 2.0, 2.0]]
        assert queries.answer("SELECT count(*) FROM events").rows == [[2]]


def test_every_type(tmp_path: Path) -> None:
    with everything.open(f"sqlite:{tmp_path / 'data'}") as live, Queries(live) as queries:
        live.send(Everything, "e", Fill(number=7))
        live.settle()
        found = queries.answer("SELECT * EXCLUDE (key, version, updated) FROM everything")
        assert dict(found.columns) == {
            "yes": "BOOLEAN",
            "whole": "BIGINT",
            "real": "DOUBLE",
            "text": "VARCHAR",
            "raw": "BLOB",
            "moment": "TIMESTAMP WITH TIME ZONE",
            "day": "DATE",
            "name": "VARCHAR",
            "price": "VARCHAR",
            "mode": "VARCHAR",
            "perhaps": "BIGINT",
            "items": "JSON",
            "spot": "JSON",
        }
        assert found.rows == [
            [
                *(True, 7, 2.5, "né\n", "AP8=", "2026-01-02T03:04:05.000Z", "2026-01-02"),
                *(str(Everything().name), "1.50", "rung", None),
                *("[1.0,2.0]", '{"x":1.0,"name":"home"}'),
            ]
        ]
        sql = "SELECT (items->>1)::DOUBLE, spot->>'name' FROM everything"
        assert queries.answer(sql).rows == [[2.0, "home"]]


def test_a_column_becomes_wider_when_a_value_needs_it(tmp_path: Path) -> None:
    """Also when most agents are known already, of other partitions too."""
    with everything.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        live.send_many([(Everything, f"e-{i}", Fill(number=i)) for i in range(40)])
        live.settle()
        with Queries(live) as queries:
            assert queries.answer("SELECT sum(whole) FROM everything").rows == [[780]]
            live.send(Everything, "e-0", Fill(number=2**63 + 1))
            live.settle()
            assert queries.answer("SELECT sum(whole) FROM everything").rows == [[780 + 2**63 + 1]]


# Bounds.


def test_rows_past_the_bound_are_left_out(live: Live) -> None:
    with Queries(live, Limits(rows_max=5)) as queries:
        whole = queries.answer("SELECT key FROM counter")
        assert (len(whole.rows), whole.truncated) == (5, False)
    with Queries(live, Limits(rows_max=4)) as queries:
        cut = queries.answer("SELECT key FROM counter")
        assert (len(cut.rows), cut.truncated) == (4, True)


def test_bytes_past_the_bound_are_left_out(live: Live) -> None:
    with Queries(live, Limits(result_bytes_max=1000)) as queries:
        cut = queries.answer("SELECT repeat('x', 300) FROM range(10)")
        assert (len(cut.rows), cut.truncated) == (3, True)
        with pytest.raises(UsageError, match="one row of the answer exceeds the bound of 1,000"):
            queries.answer("SELECT repeat('x', 1000)")


def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with counting.open(url) as live, Queries(live, Limits(log_rows_max=100)) as queries:
        live.send_many([(Counter, "a", Add(n=2)) for _ in range(100)])
        live.settle()
        middle = time.time()
        asked = "SELECT count(*), min(position), max(position) FROM events"
        assert queries.answer(asked).rows == [[100, 0, 99]]
        assert queries.answer(asked).notes == []
        live.send_many([(Counter, "a", Add(n=2)) for _ in range(50)])
        live.settle()
        found = queries.answer(asked)
        assert found.rows == [[100, 50, 149]]
        assert found.notes == ["of events the newest 100 were read, 50 older ones were not"]
        found = queries.answer("SELECT count(*), min(number) FROM actions")
        assert found.rows == [[100, 50]]
        assert found.notes == ["of actions the newest 100 were read, 50 older ones were not"]
        for kind in ("events", "actions"):
            recent = queries.answer(f"SELECT count(*) FROM {kind}", since=middle)
            assert (recent.rows, recent.notes) == ([[50]], [])
        early = queries.answer(asked, since=0.0)
        assert early.rows == [[100, 50, 149]]
        assert early.notes == ["of events the newest 100 were read, 50 older ones were not"]


def test_timers_stand_where_they_fired_though_the_log_is_cut(tmp_path: Path) -> None:
    with counting.open(f"sqlite:{tmp_path / 'data'}") as live:
        for i in range(6):
            live.send(Counter, f"k-{i}", Arm(seconds=0.0))
            live.send_many([(Counter, "a", Add()) for _ in range(10)])
            live.settle()
            until(partial(has_rung, live, f"k-{i}"), "the timer")
        sql = "SELECT position, fired, key, type, origin FROM events ORDER BY position, fired"
        with Queries(live) as queries:
            everything = queries.answer(sql).rows
        with Queries(live, Limits(log_rows_max=20)) as queries:
            assert queries.answer(sql).rows == everything[-20:]
        assert sum(row[4] == "timer" for row in everything[-20:]) > 0


# Other processes.


def test_beside_the_process_that_folds(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with counting.open(url, partitions=2) as live, connect_untyped(url) as beside:
        assert isinstance(beside, UntypedLive)
        live.send(Counter, "v", Add(n=2))
        live.settle()
        assert answer(beside, "SELECT count(*) FROM events").rows == [[1]]
