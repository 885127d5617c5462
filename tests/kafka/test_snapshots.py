"""Goal: snapshots of a fleet that works on Kafka are that fleet at one moment, wherever they are
restored: nothing is lost or doubled, whoever is killed; and every mistake is told in one line."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Live
from holdfast.blob.files import FileBlob
from holdfast.engine.urls import open_engine
from holdfast.runtime.rescaling import rescale
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.restoring import restore
from holdfast.runtime.snapshots.snapshotter import Snapshotter
from holdfast.runtime.snapshots.store import SnapshotStore
from tests.cli.commands import Running, eventually, holdfast, holdfast_here, refused
from tests.runtime.snapshots import convoy
from tests.runtime.snapshots.convoy import KEYS, Load, Remind, Truck, fleet, tokens
from tests.runtime.snapshots.test_snapshots import rich

CONVOY = Path(convoy.__file__)
SETTLE_SECONDS = 60.0


class Ground(NamedTuple):
    """Prefixes of one cluster, and a folder for everything else."""

    bootstrap: str
    folder: Path
    name: str

    def url(self, place: str = "here") -> str:
        return f"kafka://{self.bootstrap}/{self.name}-{place}?cache={self.folder / 'cache'}"

    @property
    def snapshots(self) -> str:
        return f"file:{self.folder / 'snapshots'}"

    @property
    def store(self) -> SnapshotStore:
        return SnapshotStore(FileBlob(self.folder / "snapshots"))

    def create(self, name: str, url: str | None = None) -> None:
        """As the command line does it: another handle, which remembers nothing."""
        engine = open_engine(url or self.url(), None)
        try:
            Creation(engine, self.store).run(name)
        finally:
            engine.close()

    def command(self, *words: str, code: int = 0) -> str:
        done = holdfast_here(*words, cwd=self.folder, code=code)
        return done.stdout if code == 0 else done.stderr


@pytest.fixture
def ground(kafka: str, tmp_path: Path) -> Ground:
    return Ground(kafka, tmp_path, f"snap-{uuid.uuid4().hex[:8]}")


class Depot:
    """Sends tokens until it is told to stop, and remembers what was acknowledged."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.sent: list[str] = []  # the key of each number
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._over.is_set():
            keys = KEYS[len(self.sent) % 7 :: 7]
            rows = [(Truck, key, Load(tokens=1)) for key in keys]
            self._live.send_many(rows, source="depot", first_seq=len(self.sent))
            self.sent.extend(keys)

    def again(self, live: Live, acknowledged: int) -> None:
        """The newest of what was acknowledged by then: repeats, all of them."""
        first = max(0, acknowledged - 1000)
        rows = [(Truck, key, Load(tokens=1)) for key in self.sent[first:acknowledged]]
        live.send_many(rows, source="depot", first_seq=first)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def sending(live: Live) -> Iterator[Depot]:
    depot = Depot(live)
    try:
        yield depot
    finally:
        depot.stop()


def goes_on(url: str, depot: Depot, acknowledged: int) -> None:
    """What was captured is folded to its end: every token is there once."""
    with fleet.open(url) as live:
        live.settle(timeout=SETTLE_SECONDS)
        there = tokens(live)
        assert acknowledged <= there <= len(depot.sent)
        assert loads(live) == there
        depot.again(live, acknowledged)
        live.settle(timeout=SETTLE_SECONDS)
        assert tokens(live) == there
        eventually("the timer rings", lambda: live.state(Truck, "t-5").rings == 1)


def test_commands_beside_a_fleet_that_works(ground: Ground) -> None:
    """Taken from other processes while workers fold; restored to topics and to a directory."""
    url, where = ground.url(), ("--snapshots", ground.snapshots)
    words = (CONVOY, "--engine", url, "--workers", "2", "--partitions", "3")
    taken: list[tuple[str, int]] = []
    with Running(*words, cwd=ground.folder) as running, fleet.connect(url) as live:
        live.send(Truck, "t-5", Remind(seconds=20.0))
        with sending(live) as depot:
            eventually("it works", lambda: tokens(live) > 200 and trucks(live) == len(KEYS))
            for name in ("one", "two", "three"):
                taken.append((name, len(depot.sent)))
                told = ground.command("snapshot", "create", name, *where, "--engine", url)
                assert f"snapshot {name} of convoy" in told
        assert running.stop() == 0
    listed = ground.command("snapshot", "list", *where, "--engine", url)
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["one", "two", "three"]
    told = ground.command("snapshot", "verify", "two", *where, "--engine", url)
    assert "is whole: 20 agents" in told
    for (name, acknowledged), target in zip(
        taken, (ground.url("one"), "there", ground.url("three")), strict=True
    ):
        told = ground.command("snapshot", "restore", name, "--to", target, *where)
        shown = target.partition("?")[0]
        option = f"--data {shown}" if shown == "there" else f"--engine {shown}"
        assert told.endswith(f"holdfast run FLEET {option}\n")
        opened = f"sqlite:{ground.folder / 'there'}" if target == "there" else target
        goes_on(opened, depot, acknowledged)


def trucks(live: Live) -> int:
    return sum(1 for _ in live.states(Truck))


def loads(live: Live) -> int:
    return sum(truck.loads for _, truck in live.states(Truck))


def test_everything_goes_on_where_it_is_restored(ground: Ground) -> None:
    """From a directory to topics, from there to others and back. One truck is paused meanwhile."""
    data = f"sqlite:{ground.folder / 'data'}"
    with fleet.open(data, partitions=3) as live:
        rich(live)
    ground.create("after-0", data)
    places = [ground.url("a"), ground.url("b"), f"sqlite:{ground.folder / 'back'}"]
    for number, url in enumerate(places):
        restore(ground.store, f"after-{number}", url)
        with fleet.open(url) as live:
            assert loads(live) == len(KEYS) + number
            repeats = [(Truck, key, Load(tokens=3)) for key in KEYS]
            live.send_many(repeats, source="depot", first_seq=1)
            live.send(Truck, "t-7", Load(tokens=1), source="more", seq=number + 1)
            live.settle(timeout=SETTLE_SECONDS)
            assert loads(live) == len(KEYS) + number + 1
            assert [letter.redriven for letter in live.dead_letters()].count(True) == 1
            assert [paused.reason for paused in live.paused()] == ["inspection"]
        ground.create(f"after-{number + 1}", url)
    with fleet.open(places[-1]) as live:
        live.resume(Truck, "t-4")
        live.settle(timeout=SETTLE_SECONDS)
        assert tokens(live) == 3 * len(KEYS) + 3 + 5, "what it held is there too"
        live.send(Truck, "t-3", Remind(seconds=0.01), source="bells", seq=2, previous=1)
        eventually("its timer rings", lambda: live.state(Truck, "t-3").rings == 1)


def test_replay_and_fork_begin_at_a_snapshot(ground: Ground) -> None:
    url, where = ground.url(), ("--snapshots", ground.snapshots)
    with fleet.open(url, partitions=2) as live:
        rich(live)
        ground.create("middle")
        live.send_many([(Truck, key, Load(tokens=2)) for key in KEYS], source="more", first_seq=1)
        live.settle(timeout=SETTLE_SECONDS)
    told = ground.command("replay", str(CONVOY), "--engine", url, *where)
    assert "differs" not in told
    told = ground.command("fork", str(CONVOY), "--from", "middle", "--engine", url, *where)
    assert "Rolled\t19\t19\t0" in told, "one of twenty is paused; what came before is not in it"
    assert "no difference" in told
    there = ground.url("there")
    restore(ground.store, "middle", there)
    ground.create("there", there)
    with fleet.open(there) as live:
        live.send(Truck, "t-1", Load(tokens=1))
        live.settle(timeout=SETTLE_SECONDS)
    told = ground.command("replay", str(CONVOY), "--engine", there, *where)
    assert "from snapshot there on" in told
    assert "differs" not in told


def test_a_rescaled_fleet(ground: Ground) -> None:
    url, there = ground.url(), ground.url("there")
    with fleet.open(url, partitions=2) as live:
        rich(live)
    rescale(fleet, url, 3)
    with fleet.open(url) as live:
        live.send(Truck, "t-9", Load(tokens=1))
        live.settle(timeout=SETTLE_SECONDS)
        expected = dict(live.states(Truck))
        ground.create("three")
    restore(ground.store, "three", there)
    with fleet.open(there) as live:
        assert sorted(live.positions()) == [2, 3, 4]
        assert dict(live.states(Truck)) == expected
        assert live.actions() == [], "walks through the retired partitions too"
    rescale(fleet, there, 2)
    with fleet.open(there) as live:
        assert dict(live.states(Truck)) == expected


def test_into_another_number_of_partitions(ground: Ground) -> None:
    url, there = ground.url(), ground.url("there")
    with fleet.open(url, partitions=2) as live:
        rich(live)
        expected = dict(live.states(Truck))
    ground.create("two")
    words = ("snapshot", "restore", "two", str(CONVOY), "--partitions", "5", "--to", there)
    ground.command(*words, "--snapshots", ground.snapshots)
    with fleet.open(there) as live:
        assert len(live.positions()) == 5
        assert dict(live.states(Truck)) == expected


def test_a_backup_has_the_log_too(ground: Ground) -> None:
    url, there = ground.url(), ground.url("there")
    backup = f"file:{ground.folder / 'backup'}"
    with fleet.open(url, partitions=2) as live:
        rich(live)
        ground.command("backup", backup, "--engine", url)
        live.send_many([(Truck, key, Load(tokens=2)) for key in KEYS], source="more", first_seq=1)
        live.settle(timeout=SETTLE_SECONDS)
        expected = dict(live.states(Truck))
        told = ground.command("backup", backup, "--engine", url)
        assert "every event is archived" in told
    (newest,) = list((ground.folder / "backup" / "snapshots").glob("00000002.*"))
    newest.unlink()  # so that the log behind the first one is needed
    ground.command("restore", backup, str(CONVOY), "--to", there)
    with fleet.open(there) as live:
        assert dict(live.states(Truck)) == expected


@pytest.mark.parametrize("point", ["plant.inside", "plant.after"])
def test_a_restore_killed_half_way_is_repeated(ground: Ground, point: str) -> None:
    """With other contents: nothing of the first attempt may be seen in the second."""
    url, there = ground.url(), ground.url("there")
    with fleet.open(url, partitions=2) as live:
        rich(live)
        ground.create("early")
        live.send_many([(Truck, key, Load(tokens=2)) for key in KEYS], source="more", first_seq=1)
        live.settle(timeout=SETTLE_SECONDS)
        expected = dict(live.states(Truck))
        ground.create("late")
    words = ("--to", there, "--snapshots", ground.snapshots)
    fault = {"HOLDFAST_FAULT": f"{point}:1:kill"}
    first = ("snapshot", "restore", "early", *words)
    done = holdfast(*first, cwd=ground.folder, code=-signal.SIGKILL, variables=fault)
    assert done.stdout == ""
    nothing = holdfast_here("state", "Truck/t-1", "--engine", there, cwd=ground.folder, code=2)
    assert "no fleet here" in nothing.stderr or "a fleet is being made" in nothing.stderr
    ground.command("snapshot", "restore", "late", *words)
    with fleet.open(there) as live:
        assert dict(live.states(Truck)) == expected


def test_snapshots_by_themselves(ground: Ground) -> None:
    """`holdfast run` makes them where it is told to, on the machine that folds."""
    url, where = ground.url(), ("--snapshots", ground.snapshots)
    pace = ("--snapshot-events", "10", "--snapshot-seconds", "1")
    words = (CONVOY, "--engine", url, "--partitions", "2", *where, *pace)
    with Running(*words, cwd=ground.folder) as running, fleet.connect(url) as live:
        live.send_many([(Truck, key, Load(tokens=2)) for key in KEYS], source="more", first_seq=1)
        eventually("one is made", lambda: bool(ground.store.listed()), 60.0)
        elsewhere = open_engine(f"{url}-elsewhere", None)
        other = SnapshotStore(FileBlob(ground.folder / "other"))
        assert not Snapshotter(elsewhere, other).tick(), "on this machine nobody folds"
        elsewhere.close()
        assert running.stop() == 0
    (name, *_) = [listed.name for listed in ground.store.listed()]
    assert name.startswith("auto-")
    restore(ground.store, name, ground.url("there"))
    with fleet.open(ground.url("there")) as live:
        live.settle(timeout=SETTLE_SECONDS)
        assert tokens(live) == 2 * len(KEYS)


def test_refusals(ground: Ground) -> None:
    url, other = ground.url(), ground.url("other")
    with fleet.open(url, partitions=1) as live:
        live.send(Truck, "t-1", Load(tokens=1))
        live.settle(timeout=SETTLE_SECONDS)
    ground.create("here")
    where = ("--snapshots", ground.snapshots)

    def told(words: tuple[str, ...], *parts: str, code: int = 2) -> None:
        refused(holdfast_here(*words, cwd=ground.folder, code=code), *parts)

    told(("snapshot", "create", "x", "--engine", url), "no folder beside topics", "--snapshots")
    told(("snapshot", "list", "--engine", url), "no folder beside topics", "--snapshots")
    told(("snapshot", "create", "here", *where, "--engine", url), "there is a snapshot here")
    told(("snapshot", "create", "x", *where, "--engine", other), "no fleet here")
    restoring = ("snapshot", "restore", "here", *where, "--to")
    told((*restoring, url), "fleet 'convoy' is there already", "another prefix")
    told((*restoring, "memory:"), "gone with its process")
    told((*restoring, "nats://host:4222"), "later release")
    told((*restoring, "kafka://host"), "kafka://host:9092", code=3)
    told(("fork", str(CONVOY), "--from", "here", "--engine", url), "no folder beside topics")
    with begun(ground, "taken", 3):
        told((*restoring, ground.url("taken")), "3 partitions", "another prefix")


@contextmanager
def begun(ground: Ground, place: str, partitions: int) -> Iterator[None]:
    """Topics that somebody has made and left."""
    from holdfast.engine.kafka.settings import KafkaSettings
    from holdfast.engine.kafka.topics import Topics, fleet_plans, partition_plans

    prefix = f"{ground.name}-{place}"
    topics = Topics(KafkaSettings(ground.bootstrap, prefix))
    topics.make([*fleet_plans(prefix), *partition_plans(prefix, 0, partitions)])
    yield
