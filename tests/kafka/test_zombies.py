"""Goal: a worker that stands still in the middle of a commit is replaced after its session. When it
wakes up, its transaction is refused: nothing of it is seen, nothing is there twice.

SIGSTOP at the fault points of a commit, without a supervisor that would end the worker first. One
broker and one verdict for all of them: each joins those who have replaced the one before.
"""

import signal
import subprocess
import time

import pytest

from holdfast.engine.urls import open_engine
from holdfast.runtime.process import EXIT_STUCK
from holdfast.runtime.supervisor import EXIT_FENCED
from tests.kafka.chaos import compared, wait_for_events
from tests.kafka.ledger import Claim, Commit
from tests.kafka.place import PARTITIONS, Machine, Place, place
from tests.kills.harness import process_state, wait_until
from tests.run.speed import patient

SEED = 31
PATIENCE_SECONDS = 90.0
LOOK_SECONDS = 0.5  # each look reads all topics from their beginning
# Its session (2 s), the start of Python and of two workers, and claims, on a busy machine.
REPLACED_SECONDS = patient(30.0)
# It begins a transaction that is none any more; it ends one that its successor has ended. The last
# one may hear first that its partitions are others', and then it goes on with those it gets.
POINTS = ("before", "inside", "after")
pytestmark = [pytest.mark.kill, pytest.mark.slow]


def stopped_worker(here: Place, point: str) -> subprocess.Popen[bytes]:
    """One that has stopped itself at its ninth commit."""
    here.mark(f"a worker is to stop at commit.{point}")
    here.environment["HOLDFAST_CACHE"] = str(here.folder / "cache-zombie")
    zombie = here.worker("", f"commit.{point}:9:stop")
    wait_until(lambda: process_state(zombie.pid) == "T", PATIENCE_SECONDS, f"it stops at {point}")
    here.mark("it has stopped")
    return zombie


def is_replaced(here: Place, zombie: subprocess.Popen[bytes]) -> bool:
    """Others have claimed every partition, and committed."""
    time.sleep(LOOK_SECONDS)
    changelogs = here.ledger().changelogs.values()
    owners = [[e.owner for e in log if isinstance(e, Claim)][-1] for log in changelogs]
    return all(f"process {zombie.pid} " not in owner for owner in owners) and all(
        isinstance(log[-1], Commit) for log in changelogs
    )


def wakes_up(here: Place, zombie: subprocess.Popen[bytes], point: str) -> None:
    """Once others have its partitions; while events go on."""
    what = f"others own all partitions of one that stopped at {point}"
    wait_until(lambda: is_replaced(here, zombie), REPLACED_SECONDS, what)
    here.mark("it goes on")
    zombie.send_signal(signal.SIGCONT)
    wait_for_events(here, here.acknowledged() + 200)
    # Unless others were slow: then it finds that it has been at its commit for too long.
    ends: set[int | None] = {EXIT_FENCED, EXIT_STUCK}
    if point != "after":
        zombie.wait(PATIENCE_SECONDS)
    elif zombie.poll() is None:
        ends.add(None)
    assert zombie.poll() in ends, f"{point}: {zombie.poll()}\n{here.log('worker')}"


@pytest.mark.timeout(600)
def test_workers_that_wake_up_late_are_refused() -> None:
    with place(SEED) as here:
        open_engine(here.reading_url, "swarm", create_partitions=PARTITIONS).close()
        here.start_producers()
        here.start_onlooker()
        # The first was alone and owns everything: nobody is there yet who could take it over, and
        # it must not keep its successors from starting.
        zombie = stopped_worker(here, "inside")
        here.machines = [Machine(here, "successor")]
        wakes_up(here, zombie, "inside")
        for point in POINTS:
            wakes_up(here, stopped_worker(here, point), point)
        compared(here, here.calm())
        assert here.surprises() == []
