"""Goal: an action with a declared undo can be taken back once, by the agent that issued it, with
the reason beside it, whoever dies or races meanwhile; what cannot be is told in a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import Action, DefinitionError, Fleet, Live, TimedOut, UsageError
from holdfast.engine.port import Limits
from holdfast.engine.urls import open_engine
from holdfast.errors import Busy
from holdfast.runtime.forking.fork import Options, fork_engine
from holdfast.runtime.forking.starting import from_snapshot
from holdfast.runtime.issued import find_action
from holdfast.runtime.reading import IssuedAction
from holdfast.runtime.replaying.running import compare, partitions
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.backing import Request, restore_to, ship_once
from holdfast.runtime.snapshots.forwarding import Point
from tests.runtime import doors
from tests.runtime.couriers import handle
from tests.runtime.doors import Close, Door, Guest, Knock, Lock, Unlock, fleet
from tests.runtime.forking.recordings import differences
from tests.runtime.semantics import ENGINES, engine_url, opened, until
from tests.runtime.snapshots.convoy import create, store_at

WHY = "the wrong door"


def undos(live: Live) -> list[IssuedAction]:
    return [issued for issued in live.actions() if issued.undoes is not None]


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return engine_url(request.param, tmp_path)


def test_the_undo_is_issued_by_the_agent_with_the_reason(url: str) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close(floor=3))
        live.settle()
        (lock,) = live.actions()
        id = live.compensate(lock.id, WHY)
        (first, undo) = live.actions()
        assert first == lock
        assert (undo.agent, undo.key, undo.action) == ("Door", "d-1", Unlock(door="d-1"))
        assert (undo.id, undo.undoes, undo.why) == (id, lock.id, WHY)
        assert undo.id == f"{lock.id}/undo"
        assert live.state(Door, "d-1") == Door(closed=1), "no event was folded"
        entries = [e for e in live.history(Door, "d-1") if e.origin == "control"]
        assert [e.event for e in entries] == [f"compensate {lock.id} {WHY}"]


def test_a_second_one_is_refused_by_the_fold(url: str) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        (lock,) = live.actions()
        live.compensate(lock.id, WHY)
        with pytest.raises(UsageError, match=f"compensated before: {WHY}"):
            live.compensate(lock.id, "again")
        assert len(undos(live)) == 1


def test_of_many_operators_one_has_his_way(url: str) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        (lock,) = live.actions()
        told: list[str] = []

        def operate(name: str) -> None:
            try:
                told.append(live.compensate(lock.id, name))
            except UsageError:
                told.append("")

        threads = [threading.Thread(target=operate, args=(f"by {n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [""] * 7 + [f"{lock.id}/undo"]
        assert len(undos(live)) == 1


def test_an_undo_can_be_taken_back_too(url: str) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        undo = live.compensate(live.actions()[0].id, WHY)
        again = live.compensate(undo, "it was right")
        assert [issued.action for issued in undos(live)] == [
            Unlock(door="d-1"),
            Lock(door="d-1", floor=1),
        ]
        assert undos(live)[1].id == again == f"{undo}/undo"


def test_the_action_of_a_paused_or_a_gone_agent(tmp_path: Path) -> None:
    with opened(fleet, "memory", tmp_path) as world:
        world.live.send(Guest, "g-1", Knock())
        world.live.send(Door, "d-1", Close())
        world.run()
        world.live.pause(Door, "d-1")
        world.run()
        world.pass_time(20.0)
        assert world.live.state(Guest, "g-1") is None
        for issued in world.live.actions():
            handle(world).compensate(issued.id, WHY)
        assert [(u.agent, u.action) for u in undos(world.live)] == [
            ("Guest", Unlock(door="g-1")),
            ("Door", Unlock(door="d-1")),
        ]
        assert world.live.state(Guest, "g-1") is None, "nobody was born of it"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Knock(), "Ring declares no undo"),
        (Close(floor=-1), "ValueError: floor -1"),
        (Close(floor=101), "undo returned str"),
        (Close(floor=200), "Unlock: .*door"),
    ],
)
def test_what_cannot_be_undone_is_told_and_may_be_tried_again(
    url: str, event: Close | Knock, text: str
) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", event)
        live.settle()
        id = live.actions()[0].id
        for _ in range(2):
            with pytest.raises(UsageError, match=text):
                live.compensate(id, WHY)
        assert undos(live) == []
        live.send(Door, "d-1", Close())
        live.settle()
        live.compensate(live.actions()[-1].id, WHY)


@pytest.mark.parametrize("trouble", [MemoryError(), Busy("not now")])
def test_trouble_that_is_not_its_fault_does_not_refuse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    with opened(fleet, "memory", tmp_path) as world:
        world.live.send(Door, "d-1", Close())
        world.run()
        id = world.live.actions()[0].id
        found = find_action(world.engine, [0], id)
        command: list[object] = ["compensate", id, WHY, found.schema, found.row]

        def fail(lock: Lock) -> Unlock:
            raise trouble

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Lock, "undo", fail)
            position = world.engine.view(0).inbox_next()
            world.live._control(0, "Door", "d-1", command)
            with suppress(type(trouble)):
                world.run()
            assert world.engine.view(0).answer(position) is None
        world.pass_time(60.0)
        assert [undo.undoes for undo in undos(world.live)] == [id]


@pytest.mark.parametrize(
    ("id", "why", "text"),
    [
        ("doors/Door/d-1/1/0", "", "say why"),
        ("doors/Door/d-1/1/0", " ", "say why"),
        ("doors/Door/d-1/1/0", "two\nlines", "on one line"),
        ("doors/Door/d-1/1/0", "x" * 501, "at most 500"),
        ("doors/Door/d-1/7/0", WHY, "never issued"),
        ("doors/Door/d-9/1/0", WHY, "never issued"),
        ("nonsense", WHY, "is no id of an action"),
        ("doors/Door/d-1/one/0", WHY, "is no id of an action"),
    ],
)
def test_a_wrong_request(url: str, id: str, why: str, text: str) -> None:
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        with pytest.raises(UsageError, match=text):
            live.compensate(id, why)


def test_an_action_past_retention(tmp_path: Path) -> None:
    limits = Limits(disk_reserve_bytes=1, retain_seconds=100.0)
    with opened(fleet, "memory", tmp_path, limits=limits) as world:
        world.live.send(Door, "d-1", Close())
        world.run()
        world.clock.pass_time(1000.0)
        world.engine.maintain()
        with pytest.raises(UsageError, match="past retention"):
            world.live.compensate("doors/Door/d-1/1/0", WHY)


def test_it_is_remembered_over_a_rescaling_and_replayed(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        for n in range(6):
            live.send(Door, f"d-{n}", Close())
        live.settle()
        locks = list(live.actions())
        live.compensate(locks[0].id, WHY)
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        with pytest.raises(UsageError, match="compensated before"):
            live.compensate(locks[0].id, WHY)
        live.compensate(locks[1].id, WHY)
        assert sorted(u.undoes or "" for u in undos(live)) == [locks[0].id, locks[1].id]
        for number in partitions(live._engine):
            assert compare(live._engine, fleet, number).difference is None


WORKER = """
import sys, threading
from tests.runtime.doors import fleet
with fleet.open(sys.argv[1]) as live:
    print("ready", flush=True)
    threading.Event().wait()
"""


def test_kill_9_at_any_moment_leaves_one_undo(tmp_path: Path) -> None:
    """Workers are killed while the command is on its way; it is repeated until it is answered."""
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        for n in range(4):
            live.send(Door, f"d-{n}", Close())
        live.settle()
        ids = [issued.id for issued in live.actions()]
    with fleet.connect(url) as live:
        for id in ids:
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True
            )
            assert worker.stdout is not None
            worker.stdout.readline()
            asking = threading.Thread(target=attempt, args=(live, id))
            asking.start()
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
            worker.stdout.close()
            with fleet.open(url) as again:
                asking.join()
                again.settle()
        for id in ids:
            with fleet.open(url) as again, pytest.raises(UsageError, match="compensated before"):
                again.compensate(id, WHY)
        until(lambda: len(undos(live)) == len(ids), "every undo is issued")
        assert sorted(u.undoes or "" for u in undos(live)) == sorted(ids)


def attempt(live: Live, id: str) -> None:
    live.compensate(id, WHY, timeout=60.0)


# Definitions.


def test_the_fleet_knows_what_an_undo_returns() -> None:
    class Opened(Action):
        pass

    class Opening(Action):
        def undo(self) -> Opened:
            return Opened()

    made = Fleet("doors", agents=[Door], actions=[Opening])
    assert made.actions["Opened"] is Opened
    assert doors.fleet.actions["Unlock"] is Unlock


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("undo = staticmethod(lambda self: None)", "plain method"),
        ("def undo(self, why: str) -> Other: ...", "nothing but self"),
        ("def undo(self): ...", "say which Action it returns"),
        ("def undo(self) -> int: ...", "has to be an Action"),
        ("def undo(self) -> 'Signal': ...", "has to be an Action"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(body: str, text: str) -> None:
    program = (
        "from holdfast import Action, Event\n"
        "class Other(Action): pass\n"
        "class Signal(Event): pass\n"
        f"class Wrong(Action):\n    {body}\n"
    )
    with pytest.raises(DefinitionError, match=text):
        exec(program, {"__name__": "wrong"})  # as in a notebook


def test_one_that_is_defined_later_is_refused_by_the_fleet() -> None:
    names: dict[str, object] = {"__name__": "wrong"}
    exec(
        "from holdfast import Action\n"
        "class Wrong(Action):\n    def undo(self) -> 'Later': ...\n"
        "class Later: pass\n",
        names,
    )
    wrong = names["Wrong"]
    with pytest.raises(DefinitionError, match=r"Wrong\.undo returns"):
        Fleet("doors", agents=[Door], actions=[wrong])  # type: ignore[list-item]


def refused_twice(live: Live) -> None:
    """One compensation, and a second command that the fold refused."""
    live.send(Door, "d-1", Close())
    live.settle()
    (lock,) = live.actions()
    live.compensate(lock.id, WHY)
    with pytest.raises(UsageError, match="compensated before"):
        live.compensate(lock.id, "again")


def test_a_fork_refuses_the_second_too(tmp_path: Path) -> None:
    """Also if the two are in partitions of different generations."""
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1) as live:
        refused_twice(live)
    rescale(fleet, url, 2)
    with fleet.open(url) as live:
        with pytest.raises(UsageError, match="compensated before"):
            live.compensate("doors/Door/d-1/1/0", "once more")
        engine = open_engine(url, fleet.name)
        found = fork_engine(fleet, engine, Options())
        engine.close()
    assert differences(found) == {}
    assert found.outcome.totals["Unlock"] == [1, 1]


def test_a_restore_knows_what_was_compensated(tmp_path: Path) -> None:
    """The second command is in the log behind the snapshot: folded again, it is refused again."""
    data, store = tmp_path / "data", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}", partitions=1) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        (lock,) = live.actions()
        live.compensate(lock.id, WHY)
        create(data, store, "between")
        with pytest.raises(UsageError, match="compensated before"):
            live.compensate(lock.id, "again")
    engine = open_engine(f"sqlite:{data}", fleet.name)
    ship_once(engine, store.blob)
    restore_to(store, Request(tmp_path / "there", name="between", point=Point(), fleet=fleet))
    there = open_engine(f"sqlite:{tmp_path / 'there'}", fleet.name)
    try:
        assert there.view(0).fates() == engine.view(0).fates() != []
        assert there.view(0).head().actions_next == engine.view(0).head().actions_next
        begin = from_snapshot(engine, store, "between")
        assert differences(fork_engine(fleet, engine, Options(start=begin))) == {}
    finally:
        there.close()
        engine.close()


def test_a_command_that_nobody_folds_yet_waits_and_says_so(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live:
        live.send(Door, "d-1", Close())
        live.settle()
        (lock,) = live.actions()
    with fleet.connect(url) as live, pytest.raises(TimedOut, match="the command is recorded"):
        live.compensate(lock.id, WHY, timeout=0.1)
    with fleet.open(url) as live:
        live.settle()
        assert [undo.undoes for undo in undos(live)] == [lock.id]
