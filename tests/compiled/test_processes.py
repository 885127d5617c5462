"""Goal: a directory that compiled agents wrote, under kill -9, is whole and worth the same to
everybody: their successors, the interpreted program, a rescaling, snapshots, replay, fork, and
readers without numpy. What it must hold is worked out in plain Python."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Live
from tests.cli.commands import holdfast_here
from tests.compiled import depot
from tests.compiled.depot import Clerk, Hub, Scan, Shelf, Truth, row
from tests.kills.harness import ROOT, Site, children, site, strike, wait_until

pytestmark = pytest.mark.kill
FLEET = "tests.compiled.depot:fleet"
COMMAND = "tests.kills.holdfast_command"
NUMBERLESS = "tests.compiled.numberless"
INTERPRETED = {"DEPOT_INTERPRETED": "1"}


class Depot:
    """One directory, sent to row by row, whoever folds it."""

    def __init__(self, place: Site, seed: int) -> None:
        self.place = place
        self.chance = random.Random(seed)
        self.sent = 0
        self.marked = 0  # so many when the snapshot was made
        self.keeper: subprocess.Popen[bytes] | None = None

    def start(self, *, compiled: bool) -> None:
        self.place.environment = {"DEPOT_DELTAS": "3", **({} if compiled else INTERPRETED)}
        self.keeper = self.place.keeper(2)
        path = self.place.folder / "data" / "fleet.db"
        wait_until(path.exists, 60.0, "the directory is laid out")

    def stop(self) -> None:
        assert self.keeper is not None
        self.keeper.send_signal(signal.SIGTERM)
        assert self.keeper.wait(120.0) in (0, -signal.SIGTERM), self.place.log("keeper")

    def send(self, live: Live, sends: int) -> None:
        """Rows and columns, in turns."""
        for _ in range(sends):
            rows = [row(self.sent + n) for n in range(self.chance.choice([1, 7, 60, 200]))]
            first = self.sent + 1
            if self.chance.random() < 0.5:
                keys = live.keys(Shelf, [each.key for each in rows])
                live.send_columns(
                    Shelf,
                    Scan,
                    keys,
                    source="belt",
                    first_seq=first,
                    amount=[each.amount for each in rows],
                    weight=[each.weight for each in rows],
                    tag=[each.tag for each in rows],
                )
            else:
                events = [(Shelf, e.key, Scan(e.amount, e.weight, e.tag)) for e in rows]
                live.send_many(events, source="belt", first_seq=first)
            self.sent += len(rows)

    def send_and_kill(self, live: Live, kills: int) -> None:
        assert self.keeper is not None
        for _ in range(kills):
            self.send(live, self.chance.randint(1, 4))
            workers = children(self.keeper.pid)
            for pid in self.chance.sample(workers, min(len(workers), self.chance.randint(1, 2))):
                strike(pid)
            time.sleep(self.chance.uniform(0.0, 0.4))
        self.send(live, 2)

    def check(self, live: Live, *, actions: bool = True) -> None:
        truth = Truth([row(n) for n in range(self.sent)])
        deadline = time.monotonic() + 120.0
        while (found := differences(live, truth, actions)) and time.monotonic() < deadline:
            time.sleep(0.1)  # short timers ring yet
        assert found == []

    def command(self, *words: str, module: str = COMMAND, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout


def differences(live: Live, truth: Truth, actions: bool) -> list[str]:
    """Between what the fleet holds and what it must."""
    live.settle(timeout=120.0)
    fields = ("count", "total", "weight", "tag", "newest", "rung")
    shelves = {key: [getattr(one, f) for f in fields] for key, one in live.states(Shelf)}
    wanted = {key: [getattr(one, f) for f in fields] for key, one in truth.shelves.items()}
    found = [
        f"Shelf/{key}: {shelves.get(key)}, not {one}"
        for key, one in wanted.items()
        if shelves.get(key) != one
    ]
    hubs = {key: (one.heard, one.total) for key, one in live.states(Hub)}
    if hubs != {key: (count, truth.totals[key]) for key, count in truth.heard.items()}:
        found.append(f"hubs: {hubs}, not {truth.heard}, {truth.totals}")
    clerk = live.state(Clerk, "c")
    if dict(clerk.heard if clerk is not None else {}) != dict(truth.clerk):
        found.append(f"clerk: {clerk}")
    issued = live.actions(most=1_000_000)
    if len({each.id for each in issued}) != len(issued):
        found.append("two actions have one id")
    made = Counter((e.key, e.action.amount, e.action.tag) for e in issued)  # type: ignore[attr-defined]
    if actions and made != truth.actions:
        found.append(f"actions: {made - truth.actions} too much, {truth.actions - made} missing")
    letters = Counter(
        (e.key, e.event.amount, e.event.tag)  # type: ignore[attr-defined]
        for e in live.dead_letters()
    )
    if letters != truth.letters:
        found.append(f"letters: {letters} not {truth.letters}")
    return found


@pytest.fixture(scope="module")
def directory(request: pytest.FixtureRequest) -> Iterator[Depot]:
    """Written under kills: compiled, interpreted, compiled again, then in three partitions.

    It is another one in every run, so where a test of it fails it is kept."""
    with site("partitions=2&segment_bytes=200000", FLEET) as place:
        made = Depot(place, 1)
        made.start(compiled=True)
        with depot.fleet.connect(place.url) as live:
            for compiled in (True, False, True):
                if not compiled or made.sent:
                    made.stop()
                    made.start(compiled=compiled)
                made.send_and_kill(live, 3)
                made.check(live)
        made.stop()
        rescaled = place.start("rescaler", ["tests.kills.rescaler", FLEET, place.url, "3"])
        assert rescaled.wait(120.0) == 0, place.log("rescaler")
        made.start(compiled=True)
        with depot.fleet.connect(place.url) as live:
            made.send_and_kill(live, 2)
            made.check(live)
            made.command("snapshot", "create", "mark", "--engine", place.url)
            made.marked = made.sent
            made.send_and_kill(live, 1)
            made.check(live)
        made.stop()
        assert place.surprises() == []
        failed = request.session.testsfailed
        yield made
        assert request.session.testsfailed == failed, "so the directory is kept, for a closer look"


def test_nothing_is_lost_or_doubled(directory: Depot) -> None:
    """`directory` has compared it with the truth after each stage; here once more, at rest."""
    assert directory.sent > 1_000
    assert blocks_in(directory) > 0, "nothing was compacted"


def blocks_in(directory: Depot) -> int:
    """Of the bases of all partitions."""
    found = 0
    for path in sorted((directory.place.folder / "data").glob("p*/state.db")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            found += db.execute("SELECT count(*) FROM blocks").fetchone()[0]
    return found


def test_replay_makes_the_same(directory: Depot) -> None:
    """Every commit, with its timers, actions, messages and dead letters, and every agent."""
    said = directory.command("replay", FLEET, "--engine", directory.place.url)
    assert said.count(": equal: ") == 5, said  # two partitions, and three after the rescaling


def test_replay_without_kernels_makes_the_same(directory: Depot, tmp_path: Path) -> None:
    url = ["--engine", directory.place.url]
    said = directory.command("replay", FLEET, *url, module=NUMBERLESS, XDG_CACHE_HOME=str(tmp_path))
    assert said.count(": equal: ") == 5, said
    assert list(tmp_path.iterdir()) == [], "there were kernels"


def test_a_fork_decides_the_same(directory: Depot) -> None:
    said = directory.command("fork", FLEET, "--engine", directory.place.url, "--fail-above", "0")
    assert "no difference" in said


def test_a_snapshot_becomes_a_fleet(directory: Depot, tmp_path: Path) -> None:
    url = directory.place.url
    directory.command("snapshot", "verify", "mark", "--engine", url)
    target = tmp_path / "restored"
    directory.command("snapshot", "restore", "mark", "--to", str(target), "--engine", url)
    restored = Depot(directory.place, 2)
    restored.sent = directory.marked
    with depot.fleet.open(f"sqlite:{target}") as live:
        restored.check(live, actions=False)  # a snapshot has none that were issued before it
        restored.send(live, 3)
        restored.check(live, actions=False)


@pytest.mark.parametrize(
    "words",
    [
        ["state", "Shelf/s-7"],
        ["state", "Shelf"],
        ["history", "Shelf/s-7"],
        ["actions"],
        ["dead-letters", "list"],
        ["doctor"],
        ["calls"],
        ["paused"],
    ],
)
def test_readers_need_no_numpy(directory: Depot, words: list[str]) -> None:
    url = ["--engine", directory.place.url]
    said = directory.command(*words, *url, module=NUMBERLESS)
    assert said == holdfast_here(*words, *url, cwd=ROOT).stdout or words == ["doctor"]
    if words[0] in ("state", "history"):
        assert "s-7" in said or "weight" in said or "Scan" in said
