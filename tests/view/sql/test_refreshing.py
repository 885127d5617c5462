"""Goal: a picture that is kept is the same as one that is made anew, whatever happened between two
queries; and every answer is of one commit per partition, also under load and with many askers."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, Context, Fleet, Live, on
from holdfast.engine.port import Change, Engine
from holdfast.errors import Busy, UsageError
from holdfast.runtime.handle import Handle
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.untyped import connect_untyped
from holdfast.view.sql import sheets
from holdfast.view.sql.limits import Limits
from holdfast.view.sql.picture import Picture
from holdfast.view.sql.queries import Queries
from tests.runtime.semantics import until
from tests.view.sql.fleets import Add, Counter, Visitor, counting


def kept(picture: Picture, agent: str) -> list[dict[str, Any]]:
    picture.agents()
    picture.refresh([agent])
    tables = [sheet.table() for sheet in picture.of(agent).sheets.values()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) == len(picture.of(agent))
    return sorted(rows, key=lambda row: str(row["key"]))


def told(live: Live) -> dict[str, tuple[int, int]]:
    """Version and count of every agent, by the other way of reading them."""
    with_values = {}
    for number in live.engine.catalog.layout.numbers:
        for record in live.engine.view(number).records("Counter"):
            state = live.state(Counter, record.key)
            assert state is not None
            with_values[record.key] = (record.version, state.n)
    return with_values


@pytest.mark.parametrize("seed", range(3))
def test_it_stays_true_whatever_changes(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small bounds, so that bases are made anew and engines compact; seed {seed}."""
    monkeypatch.setattr(sheets, "OVER_MAX", 8)
    chance = random.Random(seed)
    with counting.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        picture = Picture(live.engine)
        for _ in range(12):
            for _ in range(chance.choice([0, 1, 40])):
                keys = [f"c-{chance.randrange(60)}" for _ in range(chance.choice([1, 1, 5]))]
                live.send_many([(Counter, key, Add(n=1)) for key in keys])
            live.settle()
            rows = kept(picture, "Counter")
            assert {row["key"]: (row["version"], row["n"]) for row in rows} == told(live)
            assert rows == kept(Picture(live.engine), "Counter")


def test_agents_that_expire_are_gone(tmp_path: Path) -> None:
    with counting.open(f"sqlite:{tmp_path / 'data'}") as live:
        picture = Picture(live.engine)
        live.send(Visitor, "v-1", Add())
        live.settle()
        until(lambda: not kept(picture, "Visitor"), "it expires")
        assert kept(Picture(live.engine), "Visitor") == []


def test_little_is_read_when_little_changed(tmp_path: Path) -> None:
    with counting.open(f"sqlite:{tmp_path / 'data'}") as live:
        live.send_many([(Counter, f"c-{i}", Add()) for i in range(500)])
        live.settle()
        seen: list[int] = []
        picture = Picture(Listening(live.engine, seen))  # type: ignore[arg-type]
        kept(picture, "Counter")
        live.send(Counter, "c-7", Add())
        live.settle()
        kept(picture, "Counter")
        kept(picture, "Counter")
        assert seen == [500, 1, 0]


class Listening:
    """An engine that notes how much is read."""

    def __init__(self, engine: Engine, seen: list[int]) -> None:
        self._engine = engine
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def view(self, number: int) -> Any:
        return ListeningView(self._engine.view(number), self._seen)


class ListeningView:
    def __init__(self, view: Any, seen: list[int]) -> None:
        self._view = view
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def changes(self, since: int) -> Iterator[Change]:
        found = list(self._view.changes(since))
        self._seen.append(len(found) - 1)
        return iter(found)


def test_classes_that_are_read_at_different_times_are_of_one_commit(tmp_path: Path) -> None:
    with counting.open(f"sqlite:{tmp_path / 'data'}") as live, Queries(live) as queries:
        live.send(Counter, "c", Add())
        live.settle()
        assert queries.answer("SELECT sum(n) FROM counter").rows == [[1]]
        live.send(Counter, "c", Add())
        live.send(Visitor, "v", Add())
        live.settle()
        assert queries.answer("SELECT count(*) FROM visitor").rows in ([[1]], [[0]])
        both = "SELECT (SELECT sum(n) FROM counter), (SELECT count(*) >= 0 FROM visitor)"
        assert queries.answer(both).rows == [[2, True]]


# A class that gets another field, and a fleet that gets other partitions.


class Meter(Agent):
    n: int = 0

    @on
    def adds(self, event: Add, ctx: Context) -> None:
        self.n += event.n


def second_release() -> type[Agent]:
    class Meter(Agent):
        n: int = 0
        unit: str = "m"

        @on
        def adds(self, event: Add, ctx: Context) -> None:
            self.n += event.n

    return Meter


def test_a_new_field_is_a_new_column(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with Fleet("meters", agents=[Meter]).open(url) as live:
        live.send(Meter, "old", Add())
        live.send(Meter, "both", Add())
        live.settle()
    with connect_untyped(url) as reader, Queries(reader) as queries:
        assert queries.answer("SELECT * FROM meter").columns[3:] == [("n", "BIGINT")]
        later = second_release()
        with Fleet("meters", agents=[later]).open(url) as live:
            live.send(later, "both", Add())
            live.settle()
            rows = queries.answer("SELECT key, n, unit FROM meter ORDER BY key").rows
            assert rows == [["both", 2, "m"], ["old", 1, None]]


def test_after_a_rescaling(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with counting.open(url, partitions=2) as live:
        live.send_many([(Counter, f"c-{i}", Add(n=2)) for i in range(50)])
        live.settle()
    with connect_untyped(url) as reader, Queries(reader) as queries:
        assert queries.answer("SELECT sum(n) FROM counter").rows == [[100]]
        rescale(counting, url, 3)
        with counting.open(url) as live:
            live.send(Counter, "c-1", Add(n=1))
            live.settle()
            found = queries.answer("SELECT sum(n), count(*) FROM counter")
            assert found.rows == [[101, 50]]
            assert sorted(found.positions) == [2, 3, 4]
            logs = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM actions)"
            assert queries.answer(logs).rows == [[51, 50]], "of retired partitions too"


def test_logs_after_a_rescaling_in_a_quiet_hour(tmp_path: Path) -> None:
    """Nothing was folded in the old partitions since they were asked for."""
    url = f"sqlite:{tmp_path / 'data'}"
    with counting.open(url, partitions=2) as live:
        live.send(Counter, "c-1", Add(n=2))
        live.settle()
    logs = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM actions)"
    with connect_untyped(url) as reader, Queries(reader) as queries:
        assert queries.answer(logs).rows == [[1, 1]]
        rescale(counting, url, 3)
        with counting.open(url) as live:
            live.send(Counter, "c-1", Add(n=1))
            live.settle()
            assert queries.answer(logs).rows == [[2, 1]]


def test_who_waits_for_another_refresh_is_told(tmp_path: Path) -> None:
    with counting.open("memory:") as live, Queries(live, Limits(wait_seconds=0.1)) as queries:
        with queries._refreshing, pytest.raises(Busy, match="being read for another query"):
            queries.answer("SELECT count(*) FROM counter")
        assert queries.answer("SELECT count(*) FROM counter").rows == [[0]]


def test_who_asks_what_was_closed_is_told(tmp_path: Path) -> None:
    with counting.open("memory:") as live:
        queries = Queries(live)
        assert queries.answer("SELECT count(*) FROM events").rows == [[0]]
        queries.close()
        queries.close()
        for ask in (lambda: queries.answer("SELECT count(*) FROM events"), queries.tables):
            with pytest.raises(UsageError, match="these queries are closed"):
                ask()


def test_who_asks_while_they_are_closed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh that is under way ends as it began; then there is nothing left to ask."""
    with counting.open("memory:") as live, ThreadPoolExecutor(1) as pool:
        queries = Queries(live)
        refresh = Picture.refresh
        closing = []

        def late(picture: Picture, *words: Any) -> Any:
            closing.append(pool.submit(queries.close))
            until(lambda: queries._jailer._closed, "it is being closed")
            return refresh(picture, *words)

        monkeypatch.setattr(Picture, "refresh", late)
        with pytest.raises(UsageError, match="these queries are closed"):
            queries.answer("SELECT count(*) FROM events")
        closing[0].result(20)
        assert queries._logs == {}


# Under load.


def test_every_answer_is_of_one_commit_per_partition(tmp_path: Path) -> None:
    """Each event adds one, so what the agents have together is what the positions say."""
    url = f"sqlite:{tmp_path / 'data'}"
    stop = threading.Event()

    def send(name: str) -> None:
        with counting.connect(url) as producer:
            number = 0
            while not stop.is_set():
                keys = [f"{name}-{(number + i) % 300}" for i in range(20)]
                producer.send_many([(Counter, key, Add()) for key in keys])
                number += 20
                stop.wait(0.01)

    def ask(reader: Handle, queries: Queries) -> list[int]:
        seen: list[int] = []
        while not stop.is_set() and (len(seen) < 12 or len(set(seen)) <= 5):
            found = queries.answer(
                "SELECT sum(n), (SELECT count(*) FROM events), "
                "(SELECT sum(position) FROM partitions) FROM counter"
            )
            total = sum(found.positions.values())
            assert found.rows == [[total, total, total]]
            seen.append(total)
        assert seen == sorted(seen)
        return seen

    with counting.open(url, partitions=2) as live:
        live.send_many([(Counter, "first", Add())])
        live.settle()
        with (
            connect_untyped(url) as reader,
            Queries(reader) as queries,
            ThreadPoolExecutor(4) as pool,
        ):
            senders = [pool.submit(send, name) for name in "ab"]
            askers = [pool.submit(ask, reader, queries) for _ in range(2)]
            try:
                seen = [asker.result(120) for asker in askers]
            finally:
                stop.set()
            for sender in senders:
                sender.result(30)
    assert all(len(set(each)) > 5 for each in seen), "nothing happened meanwhile"
