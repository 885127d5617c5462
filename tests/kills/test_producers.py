"""Goal: no producer takes an inbox away from the others, whether it floods, dies or stops."""

import signal
import subprocess
import time
from threading import Thread

import pytest

from holdfast import Live
from holdfast.engine.port import APPEND_SECONDS
from holdfast.engine.urls import open_engine
from tests.kills import floods
from tests.kills.harness import PATIENCE_SECONDS, Site, eventually, key_in, process_state, site

FLOODS = "tests.kills.floods:fleet"
ATTEMPTS = 6  # a busy machine holds up some of them, and a producer that is in the way all
Producer = subprocess.Popen[bytes]
pytestmark = pytest.mark.kill


def laid_out(place: Site, partitions: int) -> None:
    open_engine(place.url, "floods", create_partitions=partitions).close()


def sender(place: Site, source: str, key: str, count: int, fault: str = "") -> Producer:
    arguments = [place.url, source, key, str(count), str(place.folder / "start")]
    process = place.start(source, ["tests.kills.sender", *arguments], {"HOLDFAST_FAULT": fault})
    eventually(lambda: "ready" in place.log(source), f"{source} has started")
    return process


def sent_at(place: Site, source: str) -> list[float]:
    lines = [line.split() for line in place.log(source).splitlines()]
    return [float(words[2]) for words in lines if words[0] == "sent"]


def numbers_of(live: Live, key: str) -> dict[str, list[int]]:
    state = live.state(floods.Pool, key)
    assert state is not None
    return state.numbers


def test_two_producers_on_one_inbox_get_fair_shares() -> None:
    """Where the machine lets them: who gets no processor cannot stand in a queue."""
    found: list[float] = []
    while len(found) < ATTEMPTS and max(found, default=0.0) <= 0.35:
        found.append(smaller_share())
    print("smaller shares " + ", ".join(f"{share:.2f}" for share in found))
    assert max(found) > 0.35


def smaller_share() -> float:
    count = 400
    with site("partitions=1", FLOODS) as place:
        laid_out(place, 1)
        processes = [sender(place, source, "p-0", count) for source in ("east", "west")]
        (place.folder / "start").touch()
        for process in processes:
            assert process.wait(PATIENCE_SECONDS) == 0
        east, west = sent_at(place, "east"), sent_at(place, "west")
        # While both send: until the quicker one is done.
        both = min(east[-1], west[-1])
        shares = [sum(at <= both for at in times) for times in (east, west)]
        return min(shares) / sum(shares)


@pytest.mark.parametrize(("point", "durable"), [("before", 2), ("inside", 2), ("after", 3)])
def test_a_producer_killed_in_its_append_leaves_the_inbox_to_the_others(
    point: str, durable: int
) -> None:
    with site("partitions=1", FLOODS) as place:
        laid_out(place, 1)
        victim = sender(place, "victim", "p-0", 5, f"append.{point}:3:stop")
        (place.folder / "start").touch()
        eventually(lambda: process_state(victim.pid) == "T", "the victim has stopped")
        with floods.fleet.connect(place.url) as live:
            drop = floods.Drop("other", 1, "p-0", 0)
            waiting = Thread(target=lambda: live.send(floods.Pool, "p-0", drop))
            waiting.start()
            waiting.join(0.3)
            assert waiting.is_alive(), "the victim holds the inbox, or this tests nothing"
            victim.kill()
            waiting.join(PATIENCE_SECONDS)
            assert not waiting.is_alive(), "still blocked after the kill"
        with floods.fleet.open(place.url) as live:
            live.settle()
            assert numbers_of(live, "p-0") == {"victim": [1, 2, 3][:durable], "other": [1]}
            for number in range(1, 6):  # what it did not see acknowledged, and more
                drop = floods.Drop("victim", number, "p-0", 0)
                live.send(floods.Pool, "p-0", drop, source="victim", seq=number)
            live.settle()
            assert numbers_of(live, "p-0") == {"victim": [1, 2, 3, 4, 5], "other": [1]}


def test_a_producer_that_stops_in_its_append_holds_up_no_other_partition() -> None:
    """An agent that sends to the held inbox still gets its own events folded."""
    here, there = key_in(0, 2), key_in(1, 2)
    with site("partitions=2", FLOODS) as place:
        laid_out(place, 2)
        place.keeper(1)
        stopped = sender(place, "stopped", there, 5, "append.inside:3:stop")
        (place.folder / "start").touch()
        eventually(lambda: process_state(stopped.pid) == "T", "the producer has stopped")
        took = []
        with floods.fleet.connect(place.url) as live:
            for number in range(3):
                start = time.monotonic()
                receipt = live.send(floods.Pool, here, floods.Drop("x", number, there, 1))
                live.wait_for(receipt, timeout=PATIENCE_SECONDS)
                took.append(time.monotonic() - start)
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(PATIENCE_SECONDS) == 0
            live.settle(timeout=PATIENCE_SECONDS)
            assert numbers_of(live, here) == {"x": [0, 1, 2]}
            assert numbers_of(live, there) == {"stopped": [1, 2, 3, 4, 5]}
            pool = live.state(floods.Pool, there)
            assert pool is not None
            assert pool.drops == 5 + 3 * 2, "every message has arrived once"
        print("folded after " + ", ".join(f"{seconds:.2f} s" for seconds in took))
        assert min(took[1:]) < APPEND_SECONDS, "the worker waited for the inbox"
