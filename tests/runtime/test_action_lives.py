"""Goal: what became of actions goes wherever the fleet goes: through rescaling, snapshot, restore
and fork; and kill -9 at any moment loses no acknowledgement and tells nobody twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast import Live, UsageError
from holdfast.engine.urls import open_engine
from holdfast.runtime.forking.fork import Options, fork_engine
from holdfast.runtime.forking.starting import from_snapshot
from holdfast.runtime.replaying.running import compare, partitions
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.backing import Request, restore_to, ship_once
from holdfast.runtime.snapshots.forwarding import Point
from holdfast.testing.rerunning import Rerun
from tests.runtime.couriers import Buoy, Courier, Drop, Order, fleet
from tests.runtime.forking.recordings import differences
from tests.runtime.snapshots.convoy import create, store_at

DROP, FLY = "harbour/Courier/c-1/1/0", "harbour/Courier/c-1/1/1"


def begin(live: Live) -> None:
    live.send(Courier, "c-1", Order())
    live.send(Buoy, "b-1", Order())
    live.settle()
    live.delivered([DROP, FLY], by="gateway")
    live.acknowledge(DROP, by="c-1")


def go_on(live: Live) -> None:
    live.fail(FLY, "no wind", by="c-1")
    live.ground_stop("thunder", by="tower")
    live.send(Buoy, "b-1", Order())
    live.settle()
    live.override(Courier, "c-1", Drop(item="sack"), why="fire", by="tower")
    live.lift_ground_stop("blue sky", by="tower")


def fates(data: Path) -> list[tuple[object, ...]]:
    engine = open_engine(f"sqlite:{data}", fleet.name)
    numbers = engine.catalog.layout.numbers
    found = sorted(tuple(one) for number in numbers for one in engine.view(number).fates())
    engine.close()
    return found


def test_a_rescaling_keeps_them(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1) as live:
        begin(live)
    before = fates(tmp_path / "data")
    rescale(fleet, url, 3)
    assert fates(tmp_path / "data") == before
    with fleet.open(url) as live:
        with pytest.raises(UsageError, match="was acknowledged by c-1 before"):
            live.fail(DROP, "no")
        assert [each.id for each in live.actions(pending=True)] == [FLY, "harbour/Buoy/b-1/1/0"]
        go_on(live)
        assert live.state(Courier, "c-1").heard[:2] == ["Drop by c-1", "Fly failed: no wind"]
        for number in partitions(live._engine):
            assert compare(live._engine, fleet, number).difference is None


def test_a_snapshot_a_restore_and_a_fork_know_them(tmp_path: Path) -> None:
    data, store = tmp_path / "data", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}", partitions=1) as live:
        begin(live)
        create(data, store, "between")
        go_on(live)
        told = live.state(Courier, "c-1").heard
    engine = open_engine(f"sqlite:{data}", fleet.name)
    ship_once(engine, store.blob)
    restore_to(store, Request(tmp_path / "there", name="between", point=Point(), fleet=fleet))
    assert fates(tmp_path / "there") == fates(data)
    try:
        assert differences(fork_engine(fleet, engine, Options())) == {}
        start = from_snapshot(engine, store, "between")
        assert differences(fork_engine(fleet, engine, Options(start=start))) == {}
    finally:
        engine.close()
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        assert live.state(Courier, "c-1").heard == told
        with pytest.raises(UsageError, match="was failed by c-1 before"):
            live.acknowledge(FLY)


def test_a_snapshot_during_a_ground_stop_is_of_a_stopped_fleet(tmp_path: Path) -> None:
    data, store = tmp_path / "data", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}", partitions=2) as live:
        live.send(Buoy, "b-1", Order())
        live.settle()  # a ground stop overtakes what waits
        live.ground_stop("thunder", by="tower")
        create(data, store, "stopped")
    restore_to(store, Request(tmp_path / "there", name="stopped"))
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        assert {ground.by for ground in live.grounded().values()} == {"tower"}
        live.send(Buoy, "b-1", Order())
        live.settle()
        assert [one.id for one in live.withheld()] == ["harbour/Buoy/b-1/2/0"]


WORKER = """
import sys, threading
from tests.runtime.couriers import fleet
with fleet.open(sys.argv[1]) as live:
    print("ready", flush=True)
    threading.Event().wait()
"""
COUNT = 300


@pytest.mark.kill
def test_kill_9_loses_no_acknowledgement_and_tells_nobody_twice(tmp_path: Path) -> None:
    """Workers are killed while acknowledgements come, each of them twice."""
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        live.send_many([(Courier, f"c-{n % 7}", Order()) for n in range(COUNT)])
        live.settle()
        ids = [issued.id for issued in live.actions()]
    told: list[str] = []
    with fleet.connect(url) as live:

        def acknowledge(share: list[str]) -> None:
            for n in range(0, len(share), 20):
                assert live.acknowledge(share[n : n + 20], by="gateway", timeout=60.0) == {}
                told.extend(share[n : n + 20])

        shares = [ids, ids[::-1]]
        devices = [threading.Thread(target=acknowledge, args=(share,)) for share in shares]
        for device in devices:
            device.start()
        for _ in range(4):
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True
            )
            assert worker.stdout is not None
            worker.stdout.readline()
            seen = len(told)
            while len(told) < seen + 60 and any(device.is_alive() for device in devices):
                devices[0].join(0.002)
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
            worker.stdout.close()
        with fleet.open(url) as again:
            for device in devices:
                device.join()
            again.settle()
            heard = [word for _, courier in again.states(Courier) for word in courier.heard]
            done = [word for word in heard if not word.endswith("expired")]
            assert len(done) == len(ids), "each was told once"
            assert sorted(told) == sorted([*ids, *ids])
            assert again.actions(pending=True) == []


def test_one_agent_alone_is_folded_again_to_what_is_committed(tmp_path: Path) -> None:
    """`holdfast debug` and `state --at`, which know of no other agent."""
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=1) as live:
        begin(live)
        go_on(live)
        live.ground_stop("fog", by="tower")
        live.send(Courier, "c-2", Order())
        live.settle()
        live.lift_ground_stop("clear", by="tower")
        engine = live._engine
        for key in ("c-1", "c-2"):
            alone = Rerun(fleet, engine, "Courier", key)
            for number in range(1, len(alone.entries) + 1):
                assert alone.fold(number) is not None, alone.entries[number - 1]
            assert alone.record is not None
            assert alone.committed is not None
            assert (alone.record.state, alone.record.version) == (
                alone.committed.state,
                alone.committed.version,
            )
            now = engine.view(0).head().now
            assert live.state(Courier, key, at=now) == live.state(Courier, key)
