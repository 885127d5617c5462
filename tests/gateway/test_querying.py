"""Goal: SQL over HTTP answers from what is committed, and what cannot be asked harms nobody."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import pytest

from holdfast.gateway import past
from holdfast.gateway.settings import Settings
from holdfast.view.sql import queries
from holdfast.view.sql.limits import Limits
from tests.gateway.hanging import HANGS, Clocks
from tests.gateway.served import Served, refused, served
from tests.gateway.yard import Cart, Moved
from tests.run.speed import patient

YARD = str(Path(__file__).with_name("yard.py"))


def test_a_query_counts_what_is_committed(yard: Served) -> None:
    yard.live.send_many([(Cart, f"q-{n}", Moved(x=float(n), y=1.0)) for n in range(20)])
    yard.live.settle()
    sql = "SELECT mode, count(*) AS carts, max(x) FROM cart WHERE key LIKE 'q-%' GROUP BY mode"
    found = yard.client.post("/query", {"sql": sql}).json()
    assert found["rows"] == [["moving", 20, 19.0]]
    assert [column["name"] for column in found["columns"]] == ["mode", "carts", "max(x)"]
    positions = {str(n): p.folded for n, p in yard.live.positions().items()}
    assert found["positions"] == positions
    yard.live.send(Cart, "q-20", Moved(x=99.0, y=1.0))
    yard.live.settle()
    assert yard.client.post("/query", {"sql": sql}).json()["rows"] == [["moving", 21, 99.0]]


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"sql": "DROP TABLE cart"}, 422, "SELECT"),
        ({"sql": "SELECT * FROM boat"}, 422, "boat"),
        ({"sql": "SELECT * FROM read_csv('/etc/passwd')"}, 422, ""),
        ({"sql": "SELEC 1"}, 422, ""),
        ({"sql": 7}, 400, "Expected `str`"),
        ({"query": "SELECT 1"}, 400, "unknown field `query`"),
        ({"sql": "SELECT 1", "at": "yesterday"}, 422, "yesterday"),
    ],
)
def test_what_cannot_be_asked_is_told(yard: Served, body: object, status: int, part: str) -> None:
    refused(yard.client.post("/query", body), status, part)


def test_a_query_that_never_ends_is_ended_and_the_fleet_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    monkeypatch.setattr(queries, "Limits", partial(Limits, seconds=patient(2.0)))
    with served(tmp_path) as yard:
        heard = yard.client.post("/query", {"sql": endless})
        assert heard.status in (422, 504), heard
        sent = {"agent": "Cart", "key": "after", "type": "Moved", "data": {"x": 1.0, "y": 1.0}}
        assert yard.client.events(sent).status == 200
        assert yard.client.post("/query", {"sql": "SELECT 1"}).json()["rows"] == [[1]]


def test_the_past_can_be_asked_where_the_gateway_has_the_code(tmp_path: Path) -> None:
    with served(tmp_path, Settings(fleet=f"{YARD}:fleet")) as yard:
        yard.live.send(Cart, "p-1", Moved(x=1.0, y=1.0))
        yard.live.settle()
        then = time.time()
        time.sleep(0.05)
        yard.live.send(Cart, "p-1", Moved(x=2.0, y=1.0))
        yard.live.settle()
        ask = {"sql": "SELECT x FROM cart"}
        assert yard.client.post("/query", ask).json()["rows"] == [[2.0]]
        past = yard.client.post("/query", {**ask, "at": str(then)})
        assert past.status == 200, json.dumps(past.json())
        assert past.json()["rows"] == [[1.0]]


def test_a_past_without_code_is_told(yard: Served) -> None:
    ask = {"sql": "SELECT x FROM cart", "at": str(time.time())}
    refused(yard.client.post("/query", ask), 422, "start it with --fleet")


def test_code_that_hangs_or_dies_in_the_past_does_not_harm_the_gateway(
    monkeypatch: pytest.MonkeyPatch, clocks: Clocks
) -> None:
    """It runs in a process of its own, as that of `GET /agents/…?at=` does."""
    client = clocks.client
    ask = {"sql": "SELECT ticks FROM clock", "at": repr(clocks.then)}
    found = client.post("/query", ask)
    assert found.json()["rows"] == [[1]], found  # though it prints
    assert found.json()["positions"] == {"0": 1}
    refused(client.post("/query", {**ask, "sql": "SELECT * FROM boat"}), 422, "boat")
    long = f"SELECT '{'x' * 200_000}'"
    refused(client.post("/query", {**ask, "sql": long}), 422, "a query has at most 65,536 bytes")
    monkeypatch.setitem(os.environ, HANGS, "exit")
    refused(client.post("/query", ask), 422, "ended while it folded the past of the fleet")
    monkeypatch.setitem(os.environ, HANGS, "memory")
    refused(client.post("/query", ask), 422, "MemoryError")
    monkeypatch.setitem(os.environ, HANGS, "hang")
    monkeypatch.setattr(past, "PAST_SECONDS", 1.0)
    refused(client.post("/query", ask), 504, "use `holdfast query --at`")
    assert client.post("/query", {"sql": "SELECT 1"}).json()["rows"] == [[1]]
    assert client.get("/agents/Clock/c").status == 200
