"""Goal: a fork that begins at a snapshot or a time finds in unchanged code no difference."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast import UsageError
from holdfast.blob.urls import open_blob
from holdfast.engine.port import View
from holdfast.runtime.forking.fork import Options
from holdfast.runtime.forking.leading import Leads
from holdfast.runtime.forking.starting import (
    from_snapshot,
    from_states,
    generation_at,
    head_at,
    newest_before,
    time_of,
)
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.stepping.script import read_firings
from tests.runtime.forking.recordings import differences, forked, recorded_yard, work
from tests.seeds import seeds
from tests.simulation import fleet_v1 as yard


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_from_a_snapshot(seed: int, tmp_path: Path) -> None:
    """Messages, timers, letters and calls that were under way go on."""
    store = SnapshotStore(open_blob(f"file:{tmp_path / 'snapshots'}"))
    with recorded_yard(seed, tmp_path, "sqlite", sends=40) as world:
        world.live.send_many([yard.stimulus(random.Random(seed)) for _ in range(30)])
        world.worker.tick()  # so that something waits, and messages are under way
        Creation(world.engine, store).run("middle")
        work(world, random.Random(seed), 40)
        whole = forked(world, yard.fleet).outcome
        start = from_snapshot(world.engine, store, "middle")
        found = forked(world, yard.fleet, Options(start=start))
        assert differences(found) == {}
        assert 0 < found.outcome.inputs < whole.inputs
        assert found.outcome.states.compared == whole.states.compared
        now = world.clock.wall
        assert newest_before(world.engine, store, now) == start
        assert newest_before(world.engine, store, 0.0) is None


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_from_a_time_with_the_code_that_ran(seed: int, tmp_path: Path) -> None:
    with recorded_yard(seed, tmp_path) as world:
        ends = [world.engine.view(n).head().now for n in world.engine.catalog.layout.numbers]
        at = 1_000_000.0 + (max(ends) - 1_000_000.0) / 2
        before = forked(world, yard.fleet, Options(until=at, compare=False)).outcome
        numbers = generation_at(world.engine, at)
        start = from_states(world.engine, at, numbers, before.records, before.waiting)
        found = forked(world, yard.fleet, Options(start=start))
        whole = forked(world, yard.fleet).outcome
        assert differences(found) == {}
        assert found.outcome.inputs + before.inputs == whole.inputs


def test_to_a_time(tmp_path: Path) -> None:
    """Decisions up to then are compared; states are, of agents that did not change later."""
    with recorded_yard(2, tmp_path) as world:
        at = time_of(world.engine, 1, 60)
        found = forked(world, yard.fleet, Options(until=at))
        assert differences(found) == {}
        whole = forked(world, yard.fleet).outcome
        assert sum(n for n, _ in found.outcome.totals.values()) > 0
        assert found.outcome.inputs < whole.inputs
        assert found.outcome.states.unknown > 0


def test_only_some_agents(tmp_path: Path) -> None:
    """The others are as they were recorded, messages from them too."""
    with recorded_yard(4, tmp_path) as world:
        for agents in ("Depot/*", "Robot/r-1,Robot/r-2", "Charger/c-1"):
            found = forked(world, yard.fleet, Options(agents=agents))
            assert differences(found) == {}
            assert found.outcome.inputs > 0
            classes = {word.partition("/")[0] for word in agents.split(",")}
            assert {agent for agent, _ in found.outcome.agents} <= classes
        assert forked(world, yard.fleet, Options(agents="Depot/*")).outcome.totals.keys() == {
            "Stored"
        }


def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    with recorded_yard(4, tmp_path, sends=10) as world:
        with pytest.raises(UsageError, match=r"no agent 'Robbot'.*did you mean Robot"):
            forked(world, yard.fleet, Options(agents="Robbot/r-1"))
        with pytest.raises(UsageError, match=r"'Robot' names no agents: write Drone/d-1"):
            forked(world, yard.fleet, Options(agents="Robot"))
        with pytest.raises(UsageError, match=r"position 7: .*write PARTITION:NUMBER"):
            time_of(world.engine, None, 7)
        with pytest.raises(UsageError, match=r"position 9:7: the partitions are 0 to 2"):
            time_of(world.engine, 9, 7)
        with pytest.raises(UsageError, match=r"position 1:7000: partition 1 has folded and kept 0"):
            time_of(world.engine, 1, 7000)


def test_a_position_that_goes_past_retention_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what is kept and the read."""
    with recorded_yard(4, tmp_path, sends=10) as world:
        view = world.engine.view(1)
        later = view.frames(view.head().position - 1, 1)
        assert later[0].first > 2
        for left in ([], later):
            monkeypatch.setattr(type(view), "frames", lambda *_, left=left: left)
            with pytest.raises(UsageError, match="before position 2 went past retention"):
                time_of(world.engine, 1, 2)


@pytest.mark.parametrize(
    ("rows", "count"),
    [("actions", "actions_next"), ("journal", "journal_next"), ("frames", "position")],
)
def test_what_went_past_retention_was_before(
    rows: str, count: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the last before that time is kept; otherwise it could be any of those that are gone."""
    with recorded_yard(2, tmp_path) as world:
        at = time_of(world.engine, 1, 60)
        view = world.engine.view(1)
        expected = head_at(world.engine, 1, at)
        (last,) = getattr(view, rows)(getattr(expected, count) - 1, 1)
        assert last.first > 0
        with monkeypatch.context() as patch:
            remove(patch, view, rows, last.first)
            assert head_at(world.engine, 1, at) == expected
        for oldest in (last.first + last.count, 10**9):
            with monkeypatch.context() as patch:
                remove(patch, view, rows, oldest)
                with pytest.raises(UsageError, match="where it stood then is past retention"):
                    head_at(world.engine, 1, at)
        end = head_at(world.engine, 1, view.head().now)
        with monkeypatch.context() as patch:
            remove(patch, view, rows, 10**9)
            assert head_at(world.engine, 1, view.head().now) == end


def remove(patch: pytest.MonkeyPatch, view: View, rows: str, oldest: int) -> None:
    """As retention does, what is older."""
    read = getattr(type(view), rows)
    patch.setattr(type(view), rows, lambda self, at, most: read(self, max(at, oldest), most))


def test_what_led_to_a_difference_is_found_in_the_journal_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_yard(2, tmp_path) as world:
        view = world.engine.view(1)
        end = view.head()
        leads = Leads(world.engine, {1: end})
        (last,) = view.journal(end.journal_next - 1, 1)
        firing = read_firings(last)[0]
        asked = (1, view, firing.agent, firing.key)
        remove(monkeypatch, view, "journal", last.first)
        assert leads._firings(*asked, end.now)[-1].time == firing.now
        assert leads._firings(*asked, firing.now - 1.0) == []
