"""Goal: what was compensated before a snapshot is not compensated again behind it: not by a command
that waited, nor by an operator who repeats it, nor where the log is folded to a later point."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast import Live, TimedOut, UsageError
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.snapshots.backing import Request, restore_to, ship_once
from holdfast.runtime.snapshots.forwarding import Point
from holdfast.runtime.snapshots.restoring import restore
from holdfast.stepping.commit import Fate
from tests.runtime.doors import Close, Door, Unlock, fleet
from tests.runtime.snapshots.convoy import create, picture, store_at

WHY = "the wrong door"


def lock(live: Live, *keys: str) -> list[str]:
    for key in keys:
        live.send(Door, key, Close())
        live.settle()
    return [issued.id for issued in live.actions()]


def undone(data: Path) -> list[Fate]:
    engine = SqliteEngine(data)
    try:
        return engine.view(0).fates()
    finally:
        engine.close()


def test_a_command_that_waited_is_refused_behind_it(tmp_path: Path) -> None:
    data, there, store = tmp_path / "data", tmp_path / "there", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}") as live:
        first, second, third = lock(live, "d-1", "d-2", "d-3")
        live.compensate(second, WHY)
        live.compensate(first, WHY)
    with fleet.connect(f"sqlite:{data}") as live:
        for id in (first, third):
            with pytest.raises(TimedOut):
                live.compensate(id, "again", timeout=0.05)
    create(data, store, "here")
    restore(store, "here", there)
    assert picture(there) == picture(data)
    assert [one.id for one in undone(there)] == [second, first]
    with fleet.open(f"sqlite:{there}") as live:
        live.settle()
        assert [(x.undoes, x.action) for x in live.actions()] == [(third, Unlock(door="d-3"))]


def test_whoever_asks_for_an_older_action_is_told(tmp_path: Path) -> None:
    data, there, store = tmp_path / "data", tmp_path / "there", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}") as live:
        first, second = lock(live, "d-1", "d-2")
        live.compensate(first, WHY)
    create(data, store, "here")
    restore(store, "here", there)
    with fleet.open(f"sqlite:{there}") as live:
        with pytest.raises(UsageError, match=f"^{first} was compensated before: {WHY}$"):
            live.compensate(first, "again")
        with pytest.raises(UsageError, match=f"no action '{second}' .* before a restore"):
            live.compensate(second, WHY)
        assert live.actions() == []


def test_a_log_folded_to_a_point_knows_both(tmp_path: Path) -> None:
    """The one compensated before the snapshot is tried again behind it, and another one is."""
    data, there, store = tmp_path / "data", tmp_path / "there", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}") as live:
        first, second = lock(live, "d-1", "d-2")
        live.compensate(second, WHY)
        create(data, store, "here")
        with pytest.raises(UsageError, match="compensated before"):
            live.compensate(second, "again")
        live.compensate(first, WHY)
        live.settle()
    engine = SqliteEngine(data)
    ship_once(engine, store.blob)
    engine.close()
    restore_to(store, Request(there, point=Point(time.time()), fleet=fleet))
    assert [one.id for one in undone(there)] == [second, first]
    assert undone(there) == undone(data)
    numbers = []
    for place in (data, there):
        engine = SqliteEngine(place)
        numbers.append(engine.view(0).head().actions_next)
        engine.close()
    assert numbers == [4, 4], "two locks and two undos"
