"""Goal: views under `holdfast run`, by the command line and over HTTP, without the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast import Fleet
from holdfast.runtime.viewing.running import Runner
from tests.cli.commands import (
    PATIENCE_SECONDS,
    SCRIPT,
    Running,
    environment,
    eventually,
    holdfast,
    holdfast_here,
)
from tests.gateway.served import Client, gateway_on, refused
from tests.view.zones import Battery, Drone, ZoneLoad, fleet

ZONES = Path(__file__).parent / "zones.py"


def test_show_list_and_rebuild(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    at = ("--engine", url)
    with fleet.open(url) as live:
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=9))
        live.view(ZoneLoad).get("north", after=receipt)
        shown = holdfast_here("view", "show", "ZoneLoad", "north", "--json", *at, cwd=tmp_path)
        found = json.loads(shown.stdout)
        assert found["key"] == "north"
        assert found["row"]["low"] == 1
        listed = json.loads(holdfast_here("view", "list", "--json", *at, cwd=tmp_path).stdout)
        assert (listed["view"], listed["rows"], listed["waiting"]) == ("ZoneLoad", 1, 0)
        asked = holdfast_here("view", "rebuild", "ZoneLoad", *at, cwd=tmp_path)
        assert asked.stdout.startswith("view ZoneLoad is being rebuilt")
    missing = holdfast_here("view", "show", "ZoneLoad", "south", *at, cwd=tmp_path, code=1)
    assert missing.stderr == "view ZoneLoad has no row south\n"
    unknown = holdfast_here("view", "show", "Nope", *at, cwd=tmp_path, code=3)
    assert "no view 'Nope' is kept in" in unknown.stderr
    assert "there is ZoneLoad" in unknown.stderr
    wrong = holdfast("view", "run", f"{ZONES}:Nope", *at, cwd=tmp_path, code=2)
    assert "names no View: there is ZoneLoad" in wrong.stderr


def test_over_http(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live, gateway_on(url) as port:
        client = Client(port)
        live.view(ZoneLoad).catch_up()  # until then there is no such view
        for zone in ("a", "b", "c"):
            live.send(Drone, "d-1", Battery(zone=zone, percent=9))
        sent = client.events(
            {"agent": "Drone", "key": "d-1", "type": "Battery", "data": {"zone": "a", "percent": 1}}
        )
        receipt = sent.json()["receipt"]
        heard = client.get(f"/views/ZoneLoad/a?after={receipt}")
        assert heard.status == 200, heard
        row = heard.json()
        assert (row["key"], row["row"]["events"]) == ("a", 2)
        page = client.get("/views/ZoneLoad?most=2").json()
        assert ([each["key"] for each in page["rows"]], page["next"]) == (["a", "b"], "c")
        rest = client.get("/views/ZoneLoad?from=c").json()
        assert ([each["key"] for each in rest["rows"]], rest["next"]) == (["c"], None)
        assert [each["view"] for each in client.get("/views").json()["views"]] == ["ZoneLoad"]
        refused(client.get("/views/ZoneLoad/zz"), 404, "view ZoneLoad has no row 'zz'")
        refused(client.get("/views/Nope"), 404, "no view 'Nope': there is ZoneLoad")
        refused(client.get("/views/ZoneLoad?after=x"), 422, "receipt")
        refused(client.get("/views/ZoneLoad?after=99:1"), 422, "partition 99")


@pytest.mark.kill
def test_under_holdfast_run(tmp_path: Path) -> None:
    """The process that folds views is killed, and comes back by itself; the fleet goes on."""
    url = f"sqlite:{tmp_path / 'data'}"
    words = (ZONES, "--engine", url, "--snapshots", "none")
    with Running(*words, cwd=tmp_path), fleet.connect(url) as live:
        view = live.view(ZoneLoad)
        for number in range(1, 4):
            receipt = live.send(Drone, "d-1", Battery(zone="north", percent=9))
            row = view.get("north", after=receipt, timeout=PATIENCE_SECONDS)
            assert row is not None
            assert (row.events, row.landed) == (number, number)
            # On a busy machine it may just have been ended for its silence.
            eventually("it is seen who folds", lambda: view.standing().runner is not None)
            runner = view.standing().runner
            assert runner is not None
            os.kill(runner, signal.SIGKILL)


@pytest.mark.kill
def test_a_gateway_finds_views_in_another_folder(tmp_path: Path) -> None:
    """That of `holdfast run`, which folds them there, and one alone; by name and in SQL."""
    url, views = f"sqlite:{tmp_path / 'data'}", str(tmp_path / "elsewhere")
    words = (ZONES, "--engine", url, "--snapshots", "none", "--views", views, "--port", "0")
    alone = [str(SCRIPT), "gateway", "--engine", url, "--views", views, "--port", "0"]
    with Running(*words, cwd=tmp_path) as run, fleet.connect(url, views=views) as live:
        receipt = live.send(Drone, "d-1", Battery(zone="north", percent=9))
        assert live.view(ZoneLoad).get("north", after=receipt, timeout=PATIENCE_SECONDS)
        assert run.process.stdout is not None
        looks_there(run.process.stdout.readline())
        with subprocess.Popen(
            alone, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
        ) as gateway:
            assert gateway.stdout is not None
            try:
                looks_there(gateway.stdout.readline())
            finally:
                gateway.terminate()
    assert not (tmp_path / "data" / "views").exists()


def looks_there(line: str) -> None:
    """The gateway that has said where it is."""
    assert "gateway at http://" in line, line
    client = Client(int(line.strip().rpartition(":")[2]))
    eventually("it answers", lambda: is_ready(client))
    assert [each["view"] for each in client.get("/views").json()["views"]] == ["ZoneLoad"]
    assert client.get("/views/ZoneLoad/north").json()["row"]["low"] == 1
    found = client.post("/query", {"sql": "SELECT key, low FROM zoneload"})
    assert found.json()["rows"] == [["north", 1]], found


def is_ready(client: Client) -> bool:
    try:
        return client.get("/readyz").status == 200
    except OSError:
        return False


def test_a_folder_that_is_given_counts_without_views_of_the_fleet(tmp_path: Path) -> None:
    """A view that is run apart is read where `fleet.open(views=)` says."""
    url, views = f"sqlite:{tmp_path / 'data'}", tmp_path / "elsewhere"
    with Fleet("zones", agents=[Drone]).open(url, views=str(views)) as live:
        live.send(Drone, "d-1", Battery(zone="north", percent=9))
        live.settle()
        runner = Runner(live.engine, ZoneLoad, views)
        while runner.tick():
            pass
        assert live.view(ZoneLoad).rows()["north"].low == 1
        runner.close()
