"""Goal: whatever is killed, and whenever, nothing is lost, doubled or out of order.

A seeded loop sends SIGKILL to workers, the supervisor, producers and readers while two producers
feed a fleet on four partitions; then all of it is compared with the oracle. To run other seeds or
more kills: HOLDFAST_KILL_SEEDS=7,8 HOLDFAST_KILLS=200 pytest tests/kills/test_random_kills.py
"""

import os
import random
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from holdfast import Live
from tests.kills import evidence, swarm
from tests.kills.harness import (
    PATIENCE_SECONDS,
    Site,
    children,
    ended,
    eventually,
    gone,
    site,
    strike,
)
from tests.kills.oracle import Oracle
from tests.kills.producer import Progress
from tests.kills.script import SOURCES, Row, first_rows

SEEDS = [int(seed) for seed in os.environ.get("HOLDFAST_KILL_SEEDS", "1").split(",")]
KILLS = int(os.environ.get("HOLDFAST_KILLS", "24"))
VICTIMS = {"worker": 8, "two workers": 1, "keeper": 4, "producer": 4, "reader": 2, "everyone": 1}
SETTINGS = "partitions=4&segment_bytes=400000"  # several segments within one run


class Chaos:
    """The processes of one run, and the hand that ends them."""

    def __init__(self, site: Site, seed: int) -> None:
        folder = site.folder
        self.seed = seed
        self.site = site
        self.chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.complaints = folder / "complaints.txt"
        self.keeper = self.site.keeper(2)
        site.laid_out()
        self.producers = {source: self._producer(source) for source in SOURCES}
        self.reader = self._reader()

    def _producer(self, source: str) -> subprocess.Popen[bytes]:
        arguments = ["connect", self.site.url, source, str(self.seed), str(self._progress(source))]
        return self.site.start(f"producer-{source}", ["tests.kills.producer", *arguments])

    def _progress(self, source: str) -> Path:
        return self.site.folder / f"{source}.progress"

    def _reader(self) -> subprocess.Popen[bytes]:
        return self.site.start(
            "reader", ["tests.kills.reader", self.site.url, str(self.complaints)]
        )

    def check_alive(self) -> None:
        """Nobody may end by itself: what ends was killed, and was started again."""
        for process in (self.keeper, self.reader, *self.producers.values()):
            assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"

    def kill(self) -> None:
        """One process or more, and at once what must run again, as an init system would."""
        victim = self.chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        if victim == "two workers":
            self.kill_workers(2)
        elif victim == "worker":
            self.kill_workers(1)
        elif victim == "keeper":
            self.kill_keeper()
        elif victim == "producer":
            self.kill_producer(self.chance.choice(SOURCES))
        elif victim == "reader":
            self.kill_reader()
        else:
            self.kill_workers(9)
            self.kill_reader()
            for source in SOURCES:
                self.kill_producer(source)
            self.kill_keeper()

    def kill_workers(self, count: int) -> None:
        workers = children(self.keeper.pid)
        for pid in self.chance.sample(workers, min(count, len(workers))):
            strike(pid)
            self.kills["worker"] += 1

    def kill_keeper(self) -> None:
        """Its workers may still run when the next one starts theirs, which own other partitions."""
        ended(self.keeper)
        time.sleep(self.chance.choice((0.0, 0.3)))
        self.keeper = self.site.keeper(self.chance.choice((1, 2, 2, 3)))
        self.kills["keeper"] += 1

    def kill_producer(self, source: str) -> None:
        ended(self.producers[source])
        self.producers[source] = self._producer(source)
        self.kills["producer"] += 1

    def kill_reader(self) -> None:
        ended(self.reader)
        self.reader = self._reader()
        self.kills["reader"] += 1

    def hang(self) -> None:
        """Stop a worker for longer than its supervisor is patient."""
        workers = children(self.keeper.pid)
        if workers:
            self.site.stop(self.chance.choice(workers))

    def rage(self, kills: int) -> None:
        while self.kills.total() < kills:
            time.sleep(self.chance.uniform(0.05, 0.8))
            self.check_alive()
            self.kill()
            if self.chance.random() < 0.05:
                self.hang()

    def calm(self) -> dict[str, list[Row]]:
        """Let the producers finish; what they sent, per source, in order."""
        sent = {}
        for source, process in self.producers.items():
            Path(f"{self._progress(source)}.stop").touch()
            assert process.wait(PATIENCE_SECONDS) == 0, self.site.log(f"producer-{source}")
            progress = Progress(self._progress(source))
            assert progress.acknowledged == progress.attempted
            sent[source] = first_rows(self.seed, source, progress.acknowledged)
        return sent

    def repair(self) -> None:
        """The next release: the same fleet, with the valves' bug gone."""
        workers = children(self.keeper.pid)
        ended(self.keeper)
        self.kills["keeper"] += 1
        eventually(lambda: gone(workers), "workers end with their supervisor")
        self.site.environment["SWARM_FIXED"] = "1"
        self.keeper = self.site.keeper(2)


@pytest.mark.kill
@pytest.mark.parametrize(
    ("seed", "kills"),
    [*((seed, KILLS) for seed in SEEDS), pytest.param(2, 100, marks=pytest.mark.soak)],
)
def test_nothing_is_lost_or_doubled(seed: int, kills: int) -> None:
    print(f"seed {seed}")
    with site(SETTINGS) as place:
        chaos = Chaos(place, seed)
        with swarm.fleet.connect(place.url) as live:
            eventually(lambda: all(p.folded for p in live.positions().values()), "it folds")
            chaos.rage(kills)
            sent = chaos.calm()
            _compare(chaos, live, Oracle(sent), sent)
        print(f"seed {seed}: kills {dict(chaos.kills)}, {sum(map(len, sent.values()))} events")
        assert not chaos.complaints.exists(), chaos.complaints.read_text()
        assert place.surprises() == []


def _compare(chaos: Chaos, live: Live, oracle: Oracle, sent: dict[str, list[Row]]) -> None:
    """1 all but the valves, 2 the paused valves, 3 after the repair everything."""
    live.settle(timeout=PATIENCE_SECONDS)
    settled(live, oracle, leave_out=["Valve"])
    assert evidence.wrong_letters(live, oracle) == []
    paused = {p.key for p in live.paused()}
    assert paused == oracle.bad_turns, "valves with a bad turn are paused, and nobody else"
    assert paused, "the run was too short to pause a valve"
    chaos.repair()
    for key in sorted(paused):
        live.resume(swarm.Valve, key)
        chaos.kill_workers(1)
    _redrive(chaos, live, oracle)
    live.settle(timeout=PATIENCE_SECONDS)
    settled(live, oracle)
    assert live.paused() == []
    assert evidence.wrong_letters(live, oracle) == []
    assert evidence.wrong_actions(live, oracle) == []
    assert evidence.wrong_histories(live, sent, [f"d-{i}" for i in range(0, swarm.DRONES, 5)]) == []
    assert all(p.folded for p in live.positions().values()), "every partition had its share"


def _redrive(chaos: Chaos, live: Live, oracle: Oracle) -> None:
    """Dead letters fail again, once each, however often they are redriven."""
    for letter in live.dead_letters()[:10]:
        oracle.letters[evidence.output(letter.agent, letter.key, letter.event)] += 1
        live.redrive(letter.id)
        live.redrive(letter.id)
    chaos.kill_workers(2)


def settled(live: Live, oracle: Oracle, leave_out: tuple[str, ...] | list[str] = ()) -> None:
    """Timers ring for a while yet: wait for them, then look once more for what came twice."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (wrong := evidence.wrong_states(live, oracle, leave_out)) and time.monotonic() < deadline:
        time.sleep(0.1)
        live.settle(timeout=PATIENCE_SECONDS)
    assert wrong == []
    time.sleep(0.7)  # longer than any timer that could still ring a second time
    live.settle(timeout=PATIENCE_SECONDS)
    assert evidence.wrong_states(live, oracle, leave_out) == []


def sends(progress: Path, before: int) -> bool:
    return Progress(progress).acknowledged > before


@pytest.mark.kill
def test_a_program_that_runs_its_fleet_itself_may_be_killed_too() -> None:
    seed, source = 4, SOURCES[0]
    chance = random.Random(seed)
    with site("partitions=2&segment_bytes=400000") as place:
        place.environment["SWARM_FIXED"] = "1"
        progress = place.folder / "progress"
        arguments = ["tests.kills.producer", "open", place.url, source, str(seed), str(progress)]
        for _ in range(5):
            program = place.start("program", arguments)
            before = Progress(progress).acknowledged
            eventually(partial(sends, progress, before), "it sends")
            time.sleep(chance.uniform(0.0, 0.4))
            ended(program)
        Path(f"{progress}.stop").touch()
        assert place.start("program", arguments).wait(PATIENCE_SECONDS) == 0, place.log("program")
        place.keeper(1)
        oracle = Oracle({source: first_rows(seed, source, Progress(progress).acknowledged)})
        with swarm.fleet.connect(place.url) as live:
            live.settle(timeout=PATIENCE_SECONDS)
            settled(live, oracle)
            assert evidence.wrong_letters(live, oracle) == []
            assert evidence.wrong_actions(live, oracle) == []
