"""Goal: one event sent over HTTP with a traceparent is one trace at an OTLP receiver, over two
partitions, a message, a call, the kill of a worker and the reply, up to the action."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from holdfast.model.keys import Layout
from holdfast.runtime.metering.board import bulletins
from tests.cli.commands import Running, eventually, json_lines
from tests.gateway.served import Client
from tests.run.speed import patient
from tests.tracing.receiver import Received, receiving

PROGRAM = Path(__file__).with_name("couriers.py")
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{SPAN}-01"
CHAIN = ["send Order", "Shop.Order", "Depot.Order", "route", "Depot.Routed"]


def keys_of_two_partitions() -> list[str]:
    """One that lives in the first of two, and one that lives in the second."""
    layout = Layout.even(2)
    names = [f"k-{n}" for n in range(100)]
    return [next(n for n in names if layout.partition_of(n) == number) for number in (0, 1)]


@pytest.mark.kill
def test_one_trace_from_the_event_to_the_action(tmp_path: Path) -> None:
    shop, depot = keys_of_two_partitions()
    words = [PROGRAM, "--workers", 2, "--data", "data", "--snapshots", "none", "--port", 0]
    words += ["--log-format", "json"]
    with receiving() as receiver, Running(*words, "--otlp", receiver.url, cwd=tmp_path) as process:
        assert process.process.stdout is not None
        client = Client(_port(process.process.stdout.readline()))
        data = {"depot": depot, "seconds": min(20.0, patient(3.0))}
        order = {"agent": "Shop", "key": shop, "type": "Order", "data": data}
        assert client.events(order, traceparent=CONTEXT).status == 200
        eventually("the call is under way", (tmp_path / f"{depot}.runs").exists)
        # What is committed is exported a moment later; what the receiver has is not lost.
        eventually("Depot.Order", lambda: "Depot.Order" in {s.name for s in receiver.spans})
        board = tmp_path / "data" / "metrics"
        pids = {each.process: each.pid for each in bulletins(board)}
        os.kill(pids["worker-1"], signal.SIGKILL)
        eventually("the action", lambda: bool(client.get("/actions").json()["actions"]))
        eventually("its span", lambda: "Depot.Routed" in {s.name for s in receiver.spans})
        [action] = client.get("/actions").json()["actions"]
        process.stop()
        spans = {each.name: each for each in receiver.spans}
        assert len(spans) == len(receiver.spans), "a span came twice"

    lines = json_lines(process.errors.read_text())
    assert "worker 1 ended (-9): starting it again" in {line["message"] for line in lines}
    [said] = [line for line in lines if line["message"] == f"Shop/{shop}: ordered"]
    assert (said["trace_id"], said["span_id"]) == (TRACE, spans["Shop.Order"].id)
    assert sorted(spans) == sorted(CHAIN)
    parent = SPAN
    for name in CHAIN:
        assert (spans[name].trace, spans[name].parent) == (TRACE, parent), name
        parent = spans[name].id
    assert action["traceparent"] == f"00-{TRACE}-{parent}-01"
    kinds = [spans[name].kind for name in CHAIN]
    assert kinds == ["producer", "consumer", "consumer", "client", "consumer"]
    _check_attributes(spans, shop, depot, action["id"])


def _check_attributes(spans: dict[str, Received], shop: str, depot: str, action: str) -> None:
    assert {each.service for each in spans.values()} == {"couriers"}
    processes = ["gateway", "worker-0", "worker-1", "caller", "worker-1"]
    assert [spans[name].process for name in CHAIN] == processes
    taken, routed = (spans[name].attributes for name in ("Depot.Order", "Depot.Routed"))
    assert spans["Shop.Order"].attributes == {
        "holdfast.fleet": "couriers",
        "holdfast.partition": 0,
        "holdfast.position": 0,
        "holdfast.commit": 1,
        "holdfast.agent": "Shop",
        "holdfast.key": shop,
        "holdfast.state.version": 1,
        "holdfast.event": "Order",
        "holdfast.origin": "external",
    }
    assert (taken["holdfast.partition"], taken["holdfast.origin"]) == (1, "message")
    assert (taken["holdfast.state.version"], routed["holdfast.state.version"]) == (1, 2)
    assert (routed["holdfast.key"], routed["holdfast.origin"]) == (depot, "reply")
    assert routed["holdfast.actions"] == [action]
    assert spans["route"].seconds > 3.0
    assert all(each.error is None for each in spans.values())


def _port(line: str) -> int:
    found = re.search(r"gateway at http://127\.0\.0\.1:(\d+)", line)
    assert found is not None, line
    return int(found[1])
