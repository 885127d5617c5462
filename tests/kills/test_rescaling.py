"""Goal: a rescaling that is killed, wherever it was, leaves the old partitions or the new ones, and
producers that send all the while lose nothing and double nothing."""

import random
import signal
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from holdfast.engine.urls import open_engine
from tests.kills import evidence, swarm
from tests.kills.harness import PATIENCE_SECONDS, SWARM, Site, eventually, site
from tests.kills.oracle import Oracle
from tests.kills.producer import Progress
from tests.kills.script import SOURCES, first_rows
from tests.kills.test_random_kills import sends, settled

SEED = 11
SETTINGS = "segment_bytes=400000"
FAULTS = {  # whether the new partitions are there
    "append.inside:2": False,  # a message on its way while it drains, or just before
    "commit.inside:1": False,
    "rescale.before:1": False,
    "rescale.inside:1": False,
    "rescale.after:1": True,
}
pytestmark = pytest.mark.kill


class Moving:
    """Producers that never rest, and a fleet that is rescaled under them."""

    def __init__(self, place: Site) -> None:
        self.place = place
        place.environment["SWARM_FIXED"] = "1"
        open_engine(place.url, "swarm", create_partitions=2).close()
        self.producers = {source: self._producer(source) for source in SOURCES}
        self.all_send()

    def _progress(self, source: str) -> Path:
        return self.place.folder / f"{source}.progress"

    def _producer(self, source: str) -> subprocess.Popen[bytes]:
        arguments = ["connect", self.place.url, source, str(SEED), str(self._progress(source))]
        return self.place.start(f"producer-{source}", ["tests.kills.producer", *arguments])

    def all_send(self) -> None:
        for source in SOURCES:
            path = self._progress(source)
            look = partial(sends, path, Progress(path).acknowledged)
            eventually(look, f"{source} sends")

    def numbers(self) -> range:
        engine = open_engine(self.place.url, "swarm")
        try:
            return engine.catalog.layout.numbers
        finally:
            engine.close()

    def start_rescaling(self, partitions: int, fault: str = "") -> subprocess.Popen[bytes]:
        arguments = ["tests.kills.rescaler", SWARM, self.place.url, str(partitions)]
        return self.place.start("rescaler", arguments, {"HOLDFAST_FAULT": fault})

    def rescale(self, partitions: int) -> None:
        assert self.start_rescaling(partitions).wait(PATIENCE_SECONDS) == 0, self.place.log(
            "rescaler"
        )

    def run_until_all_send(self) -> None:
        """The fleet runs for a while, as after every crash: that opens what was left closed."""
        keeper = self.place.keeper(2)
        self.all_send()
        keeper.send_signal(signal.SIGTERM)
        assert keeper.wait(PATIENCE_SECONDS) in (0, -signal.SIGTERM), self.place.log("keeper")

    def compare(self) -> None:
        """Everything that was acknowledged has had its effect, once."""
        self.place.keeper(2)
        sent = {}
        for source, process in self.producers.items():
            Path(f"{self._progress(source)}.stop").touch()
            assert process.wait(PATIENCE_SECONDS) == 0, self.place.log(f"producer-{source}")
            acknowledged = Progress(self._progress(source)).acknowledged
            sent[source] = first_rows(SEED, source, acknowledged)
        oracle = Oracle(sent)
        with swarm.fleet.connect(self.place.url) as live:
            live.settle(timeout=PATIENCE_SECONDS)
            settled(live, oracle)
            assert evidence.wrong_letters(live, oracle) == []
            assert evidence.wrong_actions(live, oracle) == []
            keys = [f"d-{i}" for i in range(0, swarm.DRONES, 5)]
            assert evidence.wrong_histories(live, sent, keys) == []
        assert self.place.surprises() == []


def test_a_rescaling_that_is_killed_is_done_or_not() -> None:
    """One after the other, each over what the one before has left behind."""
    with site(SETTINGS) as place:
        moving = Moving(place)
        for fault, switched in FAULTS.items():
            _killed_at(moving, fault, switched)
        moving.rescale(3)  # over whatever is left of the other one
        assert len(moving.numbers()) == 3
        moving.compare()


def _killed_at(moving: Moving, fault: str, switched: bool) -> None:
    before = moving.numbers()
    process = moving.start_rescaling(5, f"{fault}:kill")
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL, moving.place.log("rescaler")
    after = moving.numbers()
    assert (len(after) == 5 and after.start == before.stop) if switched else after == before, fault
    moving.run_until_all_send()


def test_rescalings_killed_at_any_moment() -> None:
    chance = random.Random(SEED)
    ends: Counter[str] = Counter()
    with site(SETTINGS) as place:
        moving = Moving(place)

        def loaded(turn: int) -> subprocess.Popen[bytes]:
            wanted = chance.choice([n for n in (1, 2, 3, 5) if n != len(moving.numbers())])
            process = moving.start_rescaling(wanted)
            eventually(lambda: place.log("rescaler").count("ready") == turn, "it is loaded")
            return process

        first = loaded(1)
        begun = time.monotonic()
        assert first.wait(PATIENCE_SECONDS) == 0, place.log("rescaler")
        whole = time.monotonic() - begun  # what one takes here that nobody kills
        for turn in range(2, 10):
            process = loaded(turn)
            try:
                process.wait(chance.uniform(0.0, whole))  # it folds, moves and ends
            except subprocess.TimeoutExpired:
                process.kill()
            ends["done" if process.wait() == 0 else "killed"] += 1
            if chance.random() < 0.5:
                moving.run_until_all_send()
        print(f"rescalings: {dict(ends)}")
        assert ends["killed"], "none was hit: this tested nothing"
        moving.run_until_all_send()
        moving.compare()
