"""Goal: where the code or the data is not what it was, a replay names the first difference: where,
whose, at which event, what was committed and what came out; and sees none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from holdfast import Agent, Context, Fleet, on
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.checks import check_of
from holdfast.model.fleet import FleetModel
from holdfast.runtime.replaying.comparing import Difference
from holdfast.runtime.replaying.moments import compare_agent
from holdfast.runtime.replaying.running import compare
from tests.runtime.replaying.lockers import Later, Put, fleet_of
from tests.runtime.semantics import World, opened

PUTS = [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0), ("x", -1.0), ("e", 5.0), ("f", 6.0)]


def fill(world: World) -> None:
    """Seven puts into one locker, the third with a message, the fifth a failure, and one timer."""
    locker = world.fleet.agents["Locker"]
    for what, weight in PUTS:
        world.live.send(locker, "k-1", Put(what=what, weight=weight))
        world.live.send(locker, "k-2", Put(what=what))
        world.run()
        world.pass_time(2.0)


def first(engine: Engine, fleet: FleetModel) -> Difference:
    found = compare(engine, fleet, 0).difference
    assert found is not None
    return found


# position and agent of the first difference, the words that name it, both values
CODE: list[tuple[str, int, str, str, object, object]] = [
    ("state", 4, "Locker/k-1", "total after commit 3, at the end", 21.0, 24.0),
    ("thing", 8, "Locker/k-1", "things", None, None),
    ("action", 2, "Locker/k-1", "an action", "Opened(what='b')", "Opened(what='B')"),
    ("no action", 2, "Locker/k-1", "an action", "Opened(what='b')", None),
    ("more actions", 4, "Locker/k-1", "an action", None, "Opened(what='one more')"),
    ("message", 4, "Locker/k-1", "a message", "Told(what='c')", "Told(what='?')"),
    ("no failure", 10, "Locker/k-1", "a dead letter", "ValueError: -1", None),
    ("error", 10, "Locker/k-1", "a dead letter", "ValueError: -1", "ValueError: -1 kg"),
]


@pytest.mark.parametrize(("changed", "position", "agent", "what", "was", "made"), CODE)
def test_other_code(
    tmp_path: Path,
    changed: str,
    position: int,
    agent: str,
    what: str,
    was: object,
    made: object,
) -> None:
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        found = first(world.engine, fleet_of(changed))
    assert (found.partition, found.position, found.agent) == (0, position, agent)
    assert what in found.what
    assert found.event.startswith("Put(")
    for value, wanted in ((found.committed, was), (found.replayed, made)):
        shown = value[0] if isinstance(value, list) else value
        assert changed == "thing" or shown == wanted


@pytest.mark.parametrize(
    ("changed", "position", "what"),
    [
        ("timer", 10, "timer 'later' that fired"),
        ("timer event", 10, "timer 'later' that fired"),
        ("no timer", 10, "timer 'later' fired, which is not set"),
        ("more timers", 4, "(timers) after commit 3, at the end of the history"),
        ("no message", 4, "a message"),
    ],
)
def test_other_timers_and_messages(tmp_path: Path, changed: str, position: int, what: str) -> None:
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        found = first(world.engine, fleet_of(changed))
    assert (found.position, found.agent, found.what) == (position, "Locker/k-1", what)


def test_code_that_keeps_an_agent_which_expired(tmp_path: Path) -> None:
    """It has set a timer, and who has one stays."""
    with opened(guests(None), "memory", tmp_path) as world:
        world.live.send(world.fleet.agents["Guest"], "g-1", Put(what="hat"))
        world.run()
        world.pass_time(10.0)
        (same,) = compare_agent(world.engine, world.fleet, "Guest", "g-1")
        (other,) = compare_agent(world.engine, guests(1e6), "Guest", "g-1")
    assert (same.fired, same.difference) == (1, None)
    assert other.difference is not None
    assert other.difference.what == "its expiry fired, which is not set"


def guests(reminded_after: float | None) -> FleetModel:
    class Guest(Agent, expire_after=4.0):
        puts: int = 0

        @on
        def put(self, event: Put, ctx: Context) -> None:
            self.puts += 1
            if reminded_after is not None:
                ctx.after(reminded_after, Later(number=1), name="later")

        @on
        def later(self, event: Later, ctx: Context) -> None:
            self.puts += 1

    return Fleet("guests", agents=[Guest])


def test_sets_in_another_order_are_no_difference(tmp_path: Path) -> None:
    """As another process would store them: the bytes differ, the values do not."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        assert isinstance(world.engine, MemoryEngine)
        part = world.engine._partitions[0]
        for name, record in list(part.states.items()):
            state = msgspec.msgpack.decode(record.state)
            if name[0] == "Locker":
                state[0] = state[0][::-1]
                part.states[name] = record._replace(state=msgspec.msgpack.encode(state))
        ours = [n for n in part.notes if n.number not in (4, 9, 11)]  # those are of the other class
        part.notes = [n._replace(sum=n.sum ^ 1) if n in ours else n for n in part.notes]
        assert compare(world.engine, world.fleet, 0).difference is None


# Other data.

Tamper = Callable[[apsw.Connection], None]


def other_state(connection: apsw.Connection) -> None:
    query = "SELECT * FROM base WHERE agent='Locker' AND key='k-2'"
    row: list[Any] = list(cast("tuple[Any, ...]", connection.execute(query).fetchone()))[:-1]
    state = msgspec.msgpack.decode(row[4])
    state[1] = 99.0
    row[4] = msgspec.msgpack.encode(state)
    connection.execute("REPLACE INTO base VALUES(?,?,?,?,?,?,?,?)", (*row, check_of(*row)))


def other_version(connection: apsw.Connection) -> None:
    query = "SELECT * FROM base WHERE agent='Locker' AND key='k-2'"
    row: list[Any] = list(cast("tuple[Any, ...]", connection.execute(query).fetchone()))[:-1]
    row[2] += 1
    connection.execute("REPLACE INTO base VALUES(?,?,?,?,?,?,?,?)", (*row, check_of(*row)))


def lost_agent(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM base WHERE agent='Locker' AND key='k-2'")


@pytest.mark.parametrize(
    ("tamper", "what", "was", "made"),
    [
        (other_state, "total, although every commit agrees", 99.0, 7.0),
        (other_version, "(version), although every commit agrees", 9, 8),
        (lost_agent, "the agent itself", None, None),
    ],
)
def test_other_data(tmp_path: Path, tamper: Tamper, what: str, was: object, made: object) -> None:
    with opened(fleet_of(), "sqlite", tmp_path) as world:
        fill(world)
        assert compare(world.engine, world.fleet, 0).difference is None
        state = world.engine._states[0]  # type: ignore[attr-defined]
        claim = world.worker.partitions[0].claim
        state.compact(claim)
        tamper(state._connection)
        found = first(world.engine, world.fleet)
        assert found.agent == "Locker/k-2"
        assert what in found.what
        if made is not None:
            assert (found.committed, found.replayed) == (was, made)
        (alone,) = compare_agent(world.engine, world.fleet, "Locker", "k-2")
        assert alone.difference is not None
        (other,) = compare_agent(world.engine, world.fleet, "Locker", "k-1")
        assert other.difference is None


def test_a_commit_that_was_another_one(tmp_path: Path) -> None:
    """A state that nobody can see any more: its agent has changed since. The sum tells."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        assert isinstance(world.engine, MemoryEngine)
        part = world.engine._partitions[0]
        part.notes = [n._replace(sum=n.sum ^ 1) if n.number == 4 else n for n in part.notes]
        found = first(world.engine, world.fleet)
    assert (found.position, found.agent, found.event) == (6, "Log/log", "Told(what='c')")
    assert found.what == "the sum of commit 4, which changed Log/log"


def test_a_commit_that_folded_nothing_counts(tmp_path: Path) -> None:
    """As a migration leaves it. The sums of all commits behind it are compared as before."""
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        assert isinstance(world.engine, MemoryEngine)
        part = world.engine._partitions[0]
        before, behind = part.notes[:4], part.notes[4:]
        empty = before[-1]._replace(number=5, sum=0, issued=0, sent=0, letters=0)
        part.notes = [*before, empty, *(n._replace(number=n.number + 1) for n in behind)]
        part.committed = part.committed._replace(commits=part.committed.commits + 1)
        outcome = compare(world.engine, world.fleet, 0)
    assert outcome.difference is None
    assert outcome.sums == outcome.commits == len(before + behind)


@pytest.mark.parametrize(("changed", "what"), [("action", "an action"), ("error", "a dead letter")])
def test_one_agent_names_its_first_difference_too(tmp_path: Path, changed: str, what: str) -> None:
    with opened(fleet_of(), "memory", tmp_path) as world:
        fill(world)
        (outcome,) = compare_agent(world.engine, fleet_of(changed), "Locker", "k-1")
    assert outcome.difference is not None
    assert outcome.difference.what == what
    assert outcome.difference.event.startswith("Put(")
