"""Goal: a fleet restored to a moment is what it was at that moment, agent by agent, whatever came
later; and a restore to the end of the log loses nothing that was archived."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Fleet, Live, SchemaError, UsageError
from holdfast.blob.files import FileBlob
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.archiving.archive import Archive
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.backing import Request, restore_to, ship_once, time_of
from holdfast.runtime.snapshots.forwarding import Forward, Point
from holdfast.runtime.snapshots.logs import ArchiveLog
from holdfast.runtime.snapshots.restoring import StoredContents
from holdfast.runtime.snapshots.store import SnapshotStore
from tests.runtime.snapshots.convoy import (
    KEYS,
    Break,
    Load,
    Remind,
    Truck,
    agents,
    create,
    fleet,
    store_at,
    tokens,
)
from tests.seeds import seeds


class Moment(NamedTuple):
    time: float
    agents: list[tuple[object, ...]]
    tokens: int


class Story:
    """A live run with messages, timers and failures, and what it was at some moments of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.data = folder / "data"
        self.store = store_at(folder)
        self.random = random.Random(seed)
        self.moments: list[Moment] = []
        self.busy: list[float] = []  # moments in the middle of it all
        self.loads: list[tuple[float, int]] = []  # acknowledged by when
        with fleet.open(f"sqlite:{self.data}", partitions=3) as live:
            for part in range(4):
                for _ in range(12):
                    self._act(live)
                if part in (0, 2):
                    create(self.data, self.store, f"part-{part}")
                self.moments.append(self._rest(live))
            for _ in range(6):
                self._act(live)
        self.ship()

    def ship(self) -> None:
        engine = SqliteEngine(self.data)
        try:
            ship_once(engine, self.store.blob)
        finally:
            engine.close()

    def _act(self, live: Live) -> None:
        key = self.random.choice(KEYS)
        kind = self.random.random()
        if kind < 0.6:
            rows = [(Truck, self.random.choice(KEYS), Load(tokens=2)) for _ in range(5)]
            live.send_many(rows)
            self.loads.append((time.time(), 10))
        elif kind < 0.9:
            live.send(Truck, key, Remind(seconds=self.random.choice([0.002, 0.01, 0.05, 3600.0])))
        else:
            live.send(Truck, key, Break())
        if self.random.random() < 0.3:
            self.busy.append(time.time())

    def _rest(self, live: Live) -> Moment:
        """The fleet at a moment at which all that came before it is folded, and nothing later."""
        engine = live._engine
        assert isinstance(engine, SqliteEngine)
        while True:
            live.settle()
            now = time.time()
            seen, held = agents(engine), tokens(live)
            views = [engine.view(n) for n in engine.catalog.layout.numbers]
            live.settle()
            if agents(engine) == seen and all(v.head().now <= now for v in views):
                return Moment(now, seen, held)


def restored(story: Story, folder: Path, point: Point | None, code: Fleet | None = fleet) -> Path:
    root = folder / f"restored-{time.monotonic_ns()}"
    restore_to(story.store, Request(root, point=point, fleet=code))
    return root


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_every_agent_is_what_it_was(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    for moment in story.moments[1:]:
        root = restored(story, tmp_path, Point(moment.time))
        engine = SqliteEngine(root)
        try:
            assert agents(engine) == moment.agents
        finally:
            engine.close()
        with fleet.open(f"sqlite:{root}") as live:
            live.settle()
            assert tokens(live) == moment.tokens


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_in_the_middle_of_it_all_nothing_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    first = story.store.load(story.store.listed()[0]).latest
    busy = [at for at in story.busy if at > first]
    assert busy
    for at in busy[:4]:
        with fleet.open(f"sqlite:{restored(story, tmp_path, Point(at))}") as live:
            live.settle()
            sure = sum(number for when, number in story.loads if when <= at)
            assert sure <= tokens(live) <= sure + 10  # one may be on its way
            assert tokens(live) == 2 * sum(truck.loads for _, truck in live.states(Truck))


@pytest.mark.parametrize("code", [fleet, None], ids=["with code", "without code"])
def test_the_end_of_the_log_has_everything(tmp_path: Path, code: Fleet | None) -> None:
    """Without code the events behind the snapshot wait, and are folded by whoever runs it."""
    story = Story(tmp_path, 7)
    with fleet.open(f"sqlite:{restored(story, tmp_path, None, code)}") as live:
        live.settle()
        assert tokens(live) == sum(number for _, number in story.loads)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_journal_that_is_behind_loses_and_doubles_nothing(tmp_path: Path, late: int) -> None:
    """The log of one partition is known to be folded no further than the snapshot, while the others
    have folded what it sent since: they are folded less, and it sends again."""
    story = Story(tmp_path, 11)

    class Behind(ArchiveLog):
        def folded(self, incarnation: str) -> int:
            known = super().folded(incarnation)
            return 0 if incarnation == contents.partitions[late].facts.incarnation else known

    contents = StoredContents(story.store, story.store.load(story.store.listed()[0]))
    forward = Forward(contents, Behind(Archive(story.store.blob)), fleet)
    done = forward.run(Point())
    marks = {part.facts.number: part.facts.marks for part in done.partitions}
    for part in done.partitions:
        for number, known in marks.items():
            taken = known.get(part.facts.incarnation, 0)
            assert taken < part.facts.sent_next.get(number, 1), "a message without its cause"
    assert done.partitions[late].facts.next > done.partitions[late].facts.head.position
    SqliteEngine.plant(tmp_path / "there", done)
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        live.settle()
        assert tokens(live) == sum(number for _, number in story.loads)


def test_up_to_a_position(tmp_path: Path) -> None:
    story = Story(tmp_path, 3)
    manifest = story.store.load(story.store.listed()[-1])
    entry = manifest.partitions[1]
    point = time_of(story.store, 1, entry.next + 3, None)
    engine = SqliteEngine(restored(story, tmp_path, point))
    try:
        assert engine.view(1).head().position == entry.next + 3
        assert engine.view(1).inbox_next() == entry.next + 3
    finally:
        engine.close()


def test_from_a_directory_without_an_archive(tmp_path: Path) -> None:
    story = Story(tmp_path, 5)
    elsewhere = SnapshotStore(FileBlob(tmp_path / "elsewhere"))
    for name in story.store.blob.list():
        if not name.startswith(("log", "journal", "catalog")):
            elsewhere.blob.put_if_absent(name, story.store.blob.get(name))
    moment = story.moments[-1]
    request = Request(
        tmp_path / "there", point=Point(moment.time), fleet=fleet, data=f"sqlite:{story.data}"
    )
    restore_to(elsewhere, request)
    engine = SqliteEngine(tmp_path / "there")
    try:
        assert agents(engine) == moment.agents
    finally:
        engine.close()
    with pytest.raises(UsageError, match="no archived log"):
        restore_to(elsewhere, Request(tmp_path / "nowhere", point=Point(moment.time), fleet=fleet))


def test_sends_after_the_point_are_taken_again(tmp_path: Path) -> None:
    """Dedupe is that of then: what was left out can be sent once more, what is in cannot."""
    data, store = tmp_path / "data", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}", partitions=2) as live:
        live.send(Truck, "t-1", Load(tokens=1), source="depot", seq=1)
        live.settle()
        create(data, store, "early")
        live.send(Truck, "t-1", Load(tokens=1), source="depot", seq=2)
        live.settle()
        then = time.time()
        live.send(Truck, "t-1", Load(tokens=1), source="depot", seq=3)
        live.settle()
        engine = SqliteEngine(data)
        ship_once(engine, store.blob)
        engine.close()
    restore_to(store, Request(tmp_path / "there", point=Point(then), fleet=fleet))
    with fleet.open(f"sqlite:{tmp_path / 'there'}") as live:
        for seq in (1, 2, 3):
            live.send(Truck, "t-1", Load(tokens=1), source="depot", seq=seq)
        live.settle()
        assert tokens(live) == 3


def test_refusals(tmp_path: Path) -> None:
    story = Story(tmp_path, 2)
    early = Request(tmp_path / "there", point=Point(1.0), fleet=fleet)
    with pytest.raises(UsageError, match=r"taken after that point, the oldest at 2\d{3}-.*Z"):
        restore_to(story.store, early)
    late = Request(tmp_path / "there", name="part-2", point=Point(story.moments[0].time))
    with pytest.raises(UsageError, match="was taken after that point"):
        restore_to(story.store, late)
    with pytest.raises(UsageError, match="does not reach it"):
        time_of(story.store, 0, 10**9, None)
    assert not (tmp_path / "there").exists()


def test_not_across_a_rescaling(tmp_path: Path) -> None:
    story = Story(tmp_path, 2)
    rescale(fleet, f"sqlite:{story.data}", 2)
    with fleet.open(f"sqlite:{story.data}") as live:  # the archive hears of it with what comes next
        live.send(Truck, KEYS[0], Load(tokens=1))
        live.settle()
    story.ship()
    with pytest.raises(UsageError, match="other partitions between the snapshot and that point"):
        restored(story, tmp_path, Point(time.time()))


def test_but_to_a_point_before_a_rescaling(tmp_path: Path) -> None:
    story = Story(tmp_path, 2)
    rescale(fleet, f"sqlite:{story.data}", 2)
    story.ship()
    moment = story.moments[1]
    engine = SqliteEngine(restored(story, tmp_path, Point(moment.time)))
    try:
        assert agents(engine) == moment.agents
    finally:
        engine.close()


def test_code_that_did_not_run_then_is_refused(tmp_path: Path) -> None:
    from tests.runtime.snapshots.forgetful import fleet as forgetful

    data, store = tmp_path / "data", store_at(tmp_path)
    with fleet.open(f"sqlite:{data}") as live:
        create(data, store, "early")
        live.send(Truck, "t-1", Remind(seconds=0.001))
        live.settle()
        while not live.state(Truck, "t-1").rings:
            time.sleep(0.001)
        engine = SqliteEngine(data)
        ship_once(engine, store.blob)
        engine.close()
    with pytest.raises(SchemaError, match="did not set it"):
        restore_to(store, Request(tmp_path / "there", point=Point(time.time()), fleet=forgetful))
    assert not (tmp_path / "there").exists()
