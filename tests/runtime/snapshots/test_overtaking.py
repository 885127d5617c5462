"""Goal: a fleet restored to a moment has the urgent events that had come by then, folded or still
waiting in the lane, and knows them when they are sent again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.snapshots.backing import Request, restore_to, ship_once, time_of
from holdfast.runtime.snapshots.forwarding import Point
from tests.runtime.snapshots.convoy import create, store_at
from tests.runtime.walkers import FLEET, Halt, Step, Walker

PAUSE_SECONDS = 0.02


class Story:
    """A snapshot, then an urgent event that overtakes three others, then another one."""

    def __init__(self, folder: Path, *, waiting: bool = False) -> None:
        self.folder, self.data, self.store = folder, folder / "data", store_at(folder)
        self.url = f"sqlite:{self.data}"
        with FLEET.open(self.url) as live:
            live.send(Walker, "w", Step(number=0), source="gcs", seq=1)
            live.settle()
        if not waiting:
            create(self.data, self.store, "before")
        with FLEET.connect(self.url) as live:  # nobody folds
            rows = [(Walker, "w", Step(number=n)) for n in (1, 2, 3)]
            live.send_many(rows, source="gcs", first_seq=2)
            self.before = self._moment()
            live.send(Walker, "w", Halt(number=100), source="gcs", seq=5)
            self.after = self._moment()
        if waiting:
            create(self.data, self.store, "waiting")
        with FLEET.open(self.url) as live:
            live.settle()
            self.folded = self._moment()
            live.send(Walker, "w", Halt(number=101), source="gcs", seq=6)
            live.settle()
        engine = SqliteEngine(self.data)
        ship_once(engine, self.store.blob)
        engine.close()

    def _moment(self) -> float:
        time.sleep(PAUSE_SECONDS)
        now = time.time()
        time.sleep(PAUSE_SECONDS)
        return now

    def restored(self, point: float | None) -> str:
        root = self.folder / f"restored-{time.monotonic_ns()}"
        where = None if point is None else Point(point)
        restore_to(self.store, Request(root, point=where, fleet=FLEET))
        return f"sqlite:{root}"


def seen(live: Live) -> list[int]:
    live.settle()
    state = live.state(Walker, "w")
    assert state is not None
    return [number for number in state.seen if number >= 0]  # no timers


def resend(live: Live) -> int:
    """Everything once more: how much of it was known."""
    rows = [(Walker, "w", Step(number=n)) for n in (0, 1, 2, 3)]
    found = live.send_many(rows, source="gcs", first_seq=1).repeats
    for seq, number in ((5, 100), (6, 101)):
        found += live.send(Walker, "w", Halt(number=number), source="gcs", seq=seq).repeats
    return found


@pytest.mark.parametrize("waiting", [False, True])
def test_behind_it_all_is_as_it_was(tmp_path: Path, waiting: bool) -> None:
    story = Story(tmp_path, waiting=waiting)
    for point, numbers in ((None, [0, 100, 1, 2, 3, 101]), (story.folded, [0, 100, 1, 2, 3])):
        with FLEET.open(story.restored(point)) as live:
            assert seen(live) == numbers
            assert resend(live) == len(numbers)
            assert seen(live) == [*numbers, *({101} - set(numbers))]


@pytest.mark.parametrize("waiting", [False, True])
def test_after_it_came_and_before_it_was_folded(tmp_path: Path, waiting: bool) -> None:
    """It was acknowledged by then, and still goes before those that it overtook."""
    story = Story(tmp_path, waiting=waiting)
    with FLEET.open(story.restored(story.after)) as live:
        assert seen(live) == [0, 100, 1, 2, 3]
        assert resend(live) == 5
        assert seen(live) == [0, 100, 1, 2, 3, 101]


def test_before_it_came(tmp_path: Path) -> None:
    story = Story(tmp_path)
    with FLEET.open(story.restored(story.before)) as live:
        assert seen(live) == [0, 1, 2, 3]
        assert resend(live) == 4
        assert seen(live) == [0, 1, 2, 3, 100, 101]


def test_a_snapshot_alone_has_what_waited(tmp_path: Path) -> None:
    story = Story(tmp_path, waiting=True)
    root = tmp_path / "alone"
    restore_to(story.store, Request(root, name="waiting", fleet=FLEET))
    with FLEET.open(f"sqlite:{root}") as live:
        assert seen(live) == [0, 100, 1, 2, 3]
        assert resend(live) == 5


@pytest.mark.parametrize("position", [1, 2, 4])
def test_up_to_a_position(tmp_path: Path, position: int) -> None:
    """It had not come when the last event before that position came, so it is not in it: though it
    was folded before some of them."""
    story = Story(tmp_path)
    root, numbers = tmp_path / "restored", list(range(position))
    point = time_of(story.store, 0, position, None)
    restore_to(story.store, Request(root, point=point, fleet=FLEET))
    with FLEET.open(f"sqlite:{root}") as live:
        assert seen(live) == numbers
        assert resend(live) == len(numbers)
        assert set(seen(live)) == {0, 1, 2, 3, 100, 101}
