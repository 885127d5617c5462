"""Goal: where retention has cut history off, a replay begins at the oldest snapshot from which on
all is kept, and compares all of that; what lies before it is refused in a line with the way out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Agent, Context, Fleet, UsageError, on
from holdfast.blob.files import FileBlob
from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.issued import find_action
from holdfast.runtime.replaying.comparing import Outcome
from holdfast.runtime.replaying.feeding import Until
from holdfast.runtime.replaying.history import History
from holdfast.runtime.replaying.moments import compare_agent
from holdfast.runtime.replaying.replay import Replay
from holdfast.runtime.replaying.running import compare, partitions
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.snapshots.beginnings import find_start
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.restoring import StoredContents, manifest_of, restore
from holdfast.runtime.snapshots.store import SnapshotStore
from tests.runtime import doors
from tests.runtime.forking.recordings import work
from tests.runtime.replaying.lockers import Put, fleet_of
from tests.runtime.replaying.test_moments import Step, Walker
from tests.runtime.replaying.test_moments import fleet as walkers
from tests.runtime.replaying.yards import codebook
from tests.runtime.semantics import World, opened
from tests.seeds import seeds
from tests.simulation import fleet_v1 as yard

RETAIN = Limits(disk_reserve_bytes=1, retain_seconds=500.0)


def beside(world: World) -> SnapshotStore:
    return SnapshotStore(FileBlob(world._folder / "snapshots"))


def take(world: World, name: str) -> None:
    Creation(world.engine, beside(world)).run(name)


@contextmanager
def cut_yard(seed: int, folder: Path) -> Iterator[World]:
    """A yard that has lost its beginning, with a snapshot of then, and two of what is kept."""
    draw = random.Random(seed)
    with opened(yard.fleet, "memory", folder, 3, RETAIN) as world:
        work(world, draw, 15)
        take(world, "lost")
        work(world, draw, 5)
        world.pass_time(1000.0)
        work(world, draw, 10)
        world.live.send_many([yard.stimulus(draw) for _ in range(30)])
        world.worker.tick()  # so that something waits, and messages are under way
        take(world, "first")
        work(world, draw, 15)
        take(world, "second")
        work(world, draw, 15)
        world.engine.maintain()
        yield world


def compared(world: World, fleet: FleetModel | None = None) -> list[Outcome]:
    store, code = beside(world), fleet or world.fleet
    return [compare(world.engine, code, n, store=store) for n in partitions(world.engine)]


@pytest.mark.parametrize("seed", [1, 4, 5, 8, 9])
def test_all_that_is_kept_behind_the_oldest_snapshot_is_compared(seed: int, tmp_path: Path) -> None:
    under_way = fired = 0
    with cut_yard(seed, tmp_path) as world:
        store = beside(world)
        contents = StoredContents(store, manifest_of(store, "first", "yard"))
        heads = {part.facts.number: part.facts.head for part in contents.partitions}
        under_way = sum(n for part in contents.partitions for _, _, n, _ in part.outbox())
        for outcome in compared(world):
            number, end = outcome.partition, world.engine.view(outcome.partition).head()
            assert History(world.engine, number).first_kept() is not None
            assert outcome.difference is None
            assert (outcome.begins, outcome.since) == ("", "snapshot first")
            assert outcome.events == end.position - heads[number].position > 0
            assert outcome.fired == end.journal_next - heads[number].journal_next
            fired += outcome.fired
            assert outcome.commits == outcome.sums > 0
            assert outcome.agents == sum(1 for _ in world.engine.view(number).records())
            history = History(world.engine, number)
            start = find_start(history, store)
            assert start is not None
            replay = Replay(yard.fleet, codebook(world.engine), history.layout, start)
            for _ in history.run(replay):
                pass
            assert replay.stepper.sent_next == history.view.sent_next()
    assert under_way > 0, "messages were on their way when it was taken"
    assert fired > 0, "timers fired since"


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_every_agent_alone(seed: int, tmp_path: Path) -> None:
    with cut_yard(seed, tmp_path) as world:
        store = beside(world)
        for number in partitions(world.engine):
            for record in world.engine.view(number).records():
                name = record.agent, record.key
                (one,) = compare_agent(world.engine, yard.fleet, *name, store=store)
                assert (one.difference, one.begins, one.since) == (None, "", "snapshot first"), name


def test_a_difference_behind_it_is_found(tmp_path: Path) -> None:
    """Sums, actions, messages, dead letters and timers, each made otherwise by other code."""
    with opened(fleet_of(), "memory", tmp_path, limits=RETAIN) as world:
        locker = world.fleet.agents["Locker"]
        world.live.send(locker, "k-1", Put(what="z"))
        world.pass_time(1000.0)
        take(world, "here")
        for what, weight in [("b", 2.0), ("c", 3.0), ("d", 4.0), ("x", -1.0), ("e", 5.0)]:
            world.live.send(locker, "k-1", Put(what=what, weight=weight))
            world.pass_time(2.0)
        world.engine.maintain()
        (same,) = compared(world)
        assert (same.since, same.difference) == ("snapshot here", None)
        found = {}
        for changed in ("state", "action", "message", "error", "no timer"):
            (outcome,) = compared(world, fleet_of(changed))
            assert outcome.difference is not None, changed
            found[changed] = (outcome.difference.position, outcome.difference.what)
            if changed in ("action", "error"):
                (alone,) = compare_agent(
                    world.engine, fleet_of(changed), "Locker", "k-1", store=beside(world)
                )
                assert alone.difference is not None
                assert alone.difference.what == outcome.difference.what
    assert found == {
        "state": (2, "total after commit 3, at the end of the history"),
        "action": (1, "an action"),
        "message": (2, "a message"),
        "error": (5, "a dead letter"),
        "no timer": (5, "timer 'later' fired, which is not set"),
    }


def test_until_before_and_behind_the_snapshot(tmp_path: Path) -> None:
    with cut_yard(1, tmp_path) as world:
        store = beside(world)
        manifest = manifest_of(store, "first", "yard")
        head = manifest.partitions[0].facts.head
        end = world.engine.view(0).head()
        for until in (Until(position=head.position - 1), Until(time=head.now - 0.1)):
            outcome = compare(world.engine, yard.fleet, 0, until, store)
            assert "the oldest snapshot behind it, first, is of position" in outcome.begins
            assert outcome.begins.endswith(": give a later time")
            record = next(iter(world.engine.view(0).records()))
            (alone,) = compare_agent(
                world.engine, yard.fleet, record.agent, record.key, until, store
            )
            assert alone.begins == outcome.begins
        for until in (Until(position=head.position + 3), Until(time=(head.now + end.now) / 2)):
            outcome = compare(world.engine, yard.fleet, 0, until, store)
            assert (outcome.difference, outcome.begins) == (None, "")
            assert 0 < outcome.events < end.position - head.position


def test_without_a_usable_snapshot(tmp_path: Path) -> None:
    with cut_yard(2, tmp_path) as world:
        for place in (tmp_path / "nothing", tmp_path / "lost"):
            store = SnapshotStore(FileBlob(place))
            outcome = compare(world.engine, yard.fleet, 0, store=store)
            assert outcome.begins.startswith("history begins at position")
            assert f"file:{place} has no snapshot from which on all is kept" in outcome.begins
            assert "--snapshots" in outcome.begins
        assert "past retention" in compare(world.engine, yard.fleet, 0).begins


def test_damaged_snapshots_and_those_of_a_copy_are_passed_by(tmp_path: Path) -> None:
    with cut_yard(3, tmp_path) as world:
        store = beside(world)
        folder = world._folder / "snapshots"
        restore(store, "first", tmp_path / "copy")
        copy = SqliteEngine(tmp_path / "copy")
        Creation(copy, SnapshotStore(FileBlob(tmp_path / "other"))).run("copied")
        copy.close()
        other = SnapshotStore(FileBlob(tmp_path / "other"))
        assert compare(world.engine, yard.fleet, 0, store=other).begins != ""
        only = {ref.object for ref in manifest_of(store, "first", None).chunks()}
        only -= {ref.object for ref in manifest_of(store, "second", None).chunks()}
        for name in only:
            (folder / name).unlink()
        assert {o.since for o in compared(world)} == {"snapshot second"}
        (manifest,) = (folder / "snapshots").glob("*.first")
        manifest.write_bytes(b"nonsense")
        assert {o.since for o in compared(world)} == {"snapshot second"}


# The state of then.


def test_the_state_of_then_behind_a_snapshot(tmp_path: Path) -> None:
    with opened(walkers, "memory", tmp_path, limits=RETAIN) as world:
        world.live.send(Walker, "w-1", Step())
        world.pass_time(1000.0)
        world.live.send(Walker, "w-1", Step())
        world.pass_time(1.0)
        early = world.clock.wall
        world.pass_time(1.0)
        world.live.send(Walker, "w-1", Step())
        world.run()
        take(world, "here")
        moments = {world.clock.wall: world.live.state(Walker, "w-1")}
        for _ in range(4):
            world.pass_time(2.0)
            world.live.send(Walker, "w-1", Step())
            world.run()
            moments[world.clock.wall] = world.live.state(Walker, "w-1")
        world.pass_time(10.0)
        world.engine.maintain()
        url = beside(world).blob.url
        assert len({state.tocks for state in moments.values()}) > 1
        for at, state in moments.items():
            assert world.live.state(Walker, "w-1", at=at, snapshots=url) == state
        with pytest.raises(UsageError, match=r"the oldest snapshot behind it, here, is of .*later"):
            world.live.state(Walker, "w-1", at=early, snapshots=url)
        with pytest.raises(UsageError, match="before the history: it begins at"):
            world.live.state(Walker, "w-1", at=early - 900.0, snapshots=url)
        with pytest.raises(UsageError, match=r"has no snapshot .* --snapshots"):
            at = max(moments)
            world.live.state(Walker, "w-1", at=at, snapshots=f"file:{tmp_path / 'nothing'}")


def test_the_state_of_a_snapshot_behind_which_little_is_kept(tmp_path: Path) -> None:
    """All events are past retention; only a timer that fired since is kept."""
    with opened(walkers, "memory", tmp_path, limits=RETAIN) as world:
        world.live.send(Walker, "w-1", Step())
        world.run()
        take(world, "older")  # behind it a timer has fired that is forgotten
        world.pass_time(3.0)
        take(world, "here")
        at, state = world.clock.wall, world.live.state(Walker, "w-1")
        world.pass_time(1000.0)
        world.engine.maintain()
        view, url = world.engine.view(0), beside(world).blob.url
        assert view.frames(0, 1) == []
        assert world.live.state(Walker, "w-1") != state
        assert world.live.state(Walker, "w-1", at=at + 1.0, snapshots=url) == state


def test_the_state_of_then_where_a_retired_partition_has_lost_all(tmp_path: Path) -> None:
    limits = Limits(disk_reserve_bytes=1, retain_seconds=500.0)
    with opened(walkers, "memory", tmp_path, limits=limits) as world:
        world.live.send(Walker, "w-1", Step(size=3))
        world.run()
        job = Rescale(walkers, world.engine, 2, world.clock)
        job._worker = world.worker
        while not job.step():
            world.clock.pass_time(0.001)
        world.clock.pass_time(1000.0)
        world.worker = type(world.worker)(walkers, world.engine, range(1, 3), world.clock)
        world.engine.maintain()
        assert world.engine.view(0).frames(0, 1) == []
        world.live.send(Walker, "w-1", Step())
        world.run()
        at = world.clock.wall
        world.pass_time(1.0)
        world.live.send(Walker, "w-1", Step())
        world.run()
        assert world.live.state(Walker, "w-1", at=at).steps == 4


def test_actions_past_retention_are_no_difference(tmp_path: Path) -> None:
    """Actions go by their age, events by the segment: here all events are still there."""
    limits = Limits(disk_reserve_bytes=1, retain_seconds=500.0)
    with opened(doors.fleet, "sqlite", tmp_path, limits=limits) as world:
        for _ in range(2):
            for key in ("d-1", "d-2"):
                world.live.send(doors.Door, key, doors.Close())
                world.pass_time(1.0)
            world.pass_time(1000.0)
        world.live.send(doors.Door, "d-1", doors.Close())
        world.run()
        assert isinstance(world.engine, SqliteEngine)
        world.engine._forgot = -1e9
        world.engine.maintain()
        assert [issued.first for issued in world.engine.view(0).actions(0, 10)] == [4]
        assert world.engine.view(0).inbox_first() == 0
        for key in ("d-1", "d-2"):
            (outcome,) = compare_agent(world.engine, doors.fleet, "Door", key)
            assert (outcome.difference, outcome.events > 1) == (None, True)
        assert compare(world.engine, doors.fleet, 0).difference is None

        class Door(Agent):
            closed: int = 0

            @on
            def close(self, event: doors.Close, ctx: Context) -> None:
                self.closed += 1
                ctx.emit(doors.Lock(door=ctx.key, floor=event.floor))
                if self.closed == 3:
                    ctx.emit(doors.Lock(door=ctx.key, floor=9))

        other = Fleet("doors", agents=[Door, doors.Guest])
        (outcome,) = compare_agent(world.engine, other, "Door", "d-1")
        assert outcome.difference is not None, "one more, of a time from which all are kept"
        assert (outcome.difference.position, outcome.difference.what) == (4, "an action")


def test_what_was_compensated_before_the_snapshot(tmp_path: Path) -> None:
    """The command comes a second time behind it: refused then, and so in the replay."""
    with opened(doors.fleet, "memory", tmp_path, limits=RETAIN) as world:
        world.live.send(doors.Door, "d-1", doors.Close())
        world.pass_time(1000.0)
        world.live.send(doors.Door, "d-1", doors.Close())
        world.run()
        (*_, lock) = world.live.actions()
        found = find_action(world.engine, [0], lock.id)
        command: list[object] = ["compensate", lock.id, "why", found.schema, found.row]
        world.live._control(0, "Door", "d-1", command)
        world.run()
        take(world, "here")
        world.live._control(0, "Door", "d-1", command)
        world.run()
        world.engine.maintain()
        (outcome,) = compared(world)
        assert (outcome.since, outcome.events, outcome.difference) == ("snapshot here", 1, None)
        (alone,) = compare_agent(world.engine, doors.fleet, "Door", "d-1", store=beside(world))
        assert (alone.since, alone.events, alone.difference) == ("snapshot here", 1, None)
