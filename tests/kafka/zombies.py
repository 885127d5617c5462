"""Goal: a worker that stands still in the middle of a commit is replaced after its session. When it
wakes up, its transaction is refused: nothing of it is seen, nothing is there twice.

SIGSTOP at the fault points of a commit, without a supervisor that would end the worker first.
"""

import signal
import subprocess

import pytest

from holdfast.engine.urls import open_engine
from holdfast.runtime.process import EXIT_STUCK
from holdfast.runtime.supervisor import EXIT_FENCED
from tests.kafka.chaos import compared, wait_for_events
from tests.kafka.ledger import Claim, Commit
from tests.kafka.place import PARTITIONS, Machine, Place, place
from tests.kills.harness import process_state, wait_until

SEED = 31
PATIENCE_SECONDS = 90.0
# Its session (2 s), the start of Python and of two workers, and claims, on a busy machine.
REPLACED_SECONDS = 30.0
pytestmark = [pytest.mark.kill, pytest.mark.slow]


def events_after(here: Place, count: int) -> None:
    wait_for_events(here, here.acknowledged() + count)


def stopped_worker(here: Place, point: str) -> subprocess.Popen[bytes]:
    """One that has stopped itself at its ninth commit."""
    here.environment["HOLDFAST_CACHE"] = str(here.folder / "cache-zombie")
    zombie = here.worker("", f"commit.{point}:9:stop")
    wait_until(lambda: process_state(zombie.pid) == "T", PATIENCE_SECONDS, f"it stops at {point}")
    return zombie


def is_replaced(here: Place, zombie: subprocess.Popen[bytes]) -> bool:
    """Others have claimed every partition, and committed."""
    changelogs = here.ledger().changelogs.values()
    owners = [[e.owner for e in log if isinstance(e, Claim)][-1] for log in changelogs]
    return all(f"process {zombie.pid} " not in owner for owner in owners) and all(
        isinstance(log[-1], Commit) for log in changelogs
    )


def wait_until_replaced(here: Place, zombie: subprocess.Popen[bytes], seconds: float) -> float:
    return wait_until(lambda: is_replaced(here, zombie), seconds, "others own all partitions")


def finish(here: Place, zombie: subprocess.Popen[bytes], ends: set[int | None]) -> None:
    """It wakes up, and everything is as it must be."""
    zombie.send_signal(signal.SIGCONT)
    events_after(here, 600)
    compared(here, here.calm())
    if None not in ends:
        zombie.wait(PATIENCE_SECONDS)
    assert zombie.poll() in ends, here.log("worker")
    assert here.surprises() == []


@pytest.mark.parametrize(
    ("point", "ends"),
    [
        ("before", {EXIT_FENCED}),  # it begins a transaction that is none any more
        ("inside", {EXIT_FENCED}),  # it ends one that its successor has ended
        ("after", {EXIT_FENCED, None}),  # it may hear first that its partitions are others'
    ],
)
def test_a_worker_that_wakes_up_late_is_refused(point: str, ends: set[int | None]) -> None:
    """It had joined two others, who had partitions to spare, and take them back."""
    with place(SEED) as here:
        here.begin(["successor"])
        wait_for_events(here, 200)
        zombie = stopped_worker(here, point)
        wait_until_replaced(here, zombie, PATIENCE_SECONDS)
        # Unless others were slow: then it finds that it has been at its commit for too long.
        finish(here, zombie, {*ends, EXIT_STUCK})


def test_one_that_stands_still_does_not_keep_its_successors_from_starting() -> None:
    """It owns everything, and was alone: nobody is there yet who could take its partitions over."""
    with place(SEED) as here:
        open_engine(here.reading_url, "swarm", create_partitions=PARTITIONS).close()
        here.start_producers()
        zombie = stopped_worker(here, "inside")
        here.machines = [Machine(here, "successor")]
        seconds = wait_until_replaced(here, zombie, REPLACED_SECONDS)
        print(f"replaced after {seconds:.1f} s")
        finish(here, zombie, {EXIT_FENCED})
