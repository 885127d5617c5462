"""Goal: floods, bounds and retention lose nothing either, also when a worker dies among them."""

import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.engine.urls import open_engine
from tests.kills import evidence, floods, swarm
from tests.kills.harness import PATIENCE_SECONDS, children, ended, eventually, key_in, site, strike
from tests.kills.oracle import Oracle
from tests.kills.producer import send
from tests.kills.script import SOURCES, first_rows
from tests.kills.test_producers import FLOODS

SOURCE = SOURCES[1]
SENDS = 50  # each of them starts a segment
LAY_OUT = """
import sys
from holdfast.engine.urls import open_engine
print("ready", flush=True)
sys.stdin.readline()
open_engine(sys.argv[1], "floods", create_partitions=4).close()
"""
pytestmark = pytest.mark.kill


def test_two_partitions_that_flood_each_other_do_not_deadlock() -> None:
    """Far more messages than an outbox may hold and than a backlog may grow, both ways at once."""
    left, right, each, depth = key_in(0, 2), key_in(1, 2), 150, 5
    settings = "partitions=2&outbox_messages_max=100&backlog_events_max=300"
    with site(settings, FLOODS) as place:
        keeper = place.keeper(2)
        place.laid_out()
        with floods.fleet.connect(place.url) as live:
            for number in range(each):
                for key, other in ((left, right), (right, left)):
                    drop = floods.Drop(key, number, other, depth)
                    live.send(floods.Pool, key, drop, timeout=PATIENCE_SECONDS)
                if number in (50, 100):
                    for worker in children(keeper.pid):
                        strike(worker)
            live.settle(timeout=PATIENCE_SECONDS)
            total = 0
            for key in (left, right):
                pool = live.state(floods.Pool, key)
                assert pool is not None
                assert pool.numbers == {key: list(range(each))}
                total += pool.drops
            assert total == 2 * each * (2 ** (depth + 1) - 1)
            assert live.dead_letters() == []


def empty(live: Live) -> bool:
    """Retention has unlinked everything that was folded."""
    views = [live._engine.view(number) for number in live.positions()]
    return all(view.inbox_first() == view.inbox_next() for view in views)


def test_an_inbox_emptied_by_retention_takes_new_events_across_a_kill() -> None:
    rows, seed = first_rows(21, SOURCE, 900), 21
    with site("partitions=2&segment_bytes=65536&retain_seconds=1") as place:
        place.environment["SWARM_FIXED"] = "1"
        keeper = place.keeper(2)
        place.laid_out()
        with swarm.fleet.connect(place.url) as live:
            send(live, SOURCE, rows[:300])
            eventually(lambda: empty(live), "retention empties the inboxes")
            for worker in children(keeper.pid):
                strike(worker)
            send(live, SOURCE, rows[300:600])
            eventually(lambda: empty(live), "retention empties them again")
            ended(keeper)
            send(live, SOURCE, rows[:300])  # nobody has these any more, but they are known
            send(live, SOURCE, rows[600:])
        place.keeper(2)
        oracle = Oracle({SOURCE: first_rows(seed, SOURCE, 900)})
        with swarm.fleet.connect(place.url) as live:
            live.settle(timeout=PATIENCE_SECONDS)
            eventually(lambda: not evidence.wrong_states(live, oracle), "timers have rung")
            assert evidence.wrong_letters(live, oracle) == []


def test_history_is_read_beside_retention(tmp_path: Path) -> None:
    """What retention unlinks is gone from a history, and never an error in it."""
    url = f"sqlite:{tmp_path / 'data'}?segment_bytes=65536&retain_seconds=0.2"
    reads, done = [0, 0], False
    with floods.fleet.open(url) as live, ThreadPoolExecutor() as pool:

        def read(reader: int) -> None:
            with floods.fleet.connect(url) as other:
                while not done:
                    found = [e.seq for e in other.history(floods.Pool, "k-0") if e.seq is not None]
                    assert found == sorted(set(found)), "what is left is in order, and once"
                    reads[reader] += 1

        readers = [pool.submit(read, reader) for reader in range(2)]
        number = 0
        try:
            while number < SENDS or not all(reads):
                assert not any(reader.done() for reader in readers), "a reader has failed"
                number += 1
                drop = floods.Drop("x", 1, "k-0", 0)
                live.send(floods.Pool, "k-0", drop, source="x", seq=number)
        finally:
            done = True
            for reader in readers:
                reader.result(PATIENCE_SECONDS)


def test_a_layout_that_was_killed_is_laid_out_again(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    chance = random.Random(3)
    unfinished = 0
    while unfinished < 5:
        process = subprocess.Popen(
            [sys.executable, "-c", LAY_OUT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            process.stdout.readline()
            process.stdin.write(b"go\n")
            process.stdin.flush()
            time.sleep(chance.uniform(0.0, 0.05))
            ended(process)
        if (tmp_path / "data" / "fleet.db").exists():
            shutil.rmtree(tmp_path / "data")
        else:
            unfinished += 1
    with floods.fleet.open(url, partitions=4) as live:
        for number in range(8):
            key = f"k-{number}"
            receipt = live.send(floods.Pool, key, floods.Drop("x", number, key, 0))
            assert live.state(floods.Pool, key, after=receipt) is not None


def test_history_reads_old_segments_beside_new_ones(tmp_path: Path) -> None:
    """Found by the random kills: reading a segment older than those held open closed it at once."""
    url = f"sqlite:{tmp_path / 'data'}?partitions=1&segment_bytes=16384"
    open_engine(url, "floods", create_partitions=1).close()
    with floods.fleet.open(url) as live:
        for number in range(12):
            receipt = live.send(floods.Pool, "p-0", floods.Drop("x", number, "p-0", 0))
            live.wait_for(receipt)
        assert len(list((tmp_path / "data" / "p000" / "inbox").glob("*.seg"))) > 8
        for _ in range(2):
            entries = live.history(floods.Pool, "p-0")
            found = [e.event.number for e in entries if isinstance(e.event, floods.Drop)]
            assert found == list(range(12))
