"""A worker process: `python -m holdfast.runtime.process FLEET URL MEMORY PARTITIONS PIPE [BELL]`.

Started by the supervisor, never by hand. It beats its heart into PIPE and ends when nobody reads
there any more; it ends itself when user code makes no progress. It rings BELL, an eventfd, when it
has committed calls.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import threading
import time
from functools import partial
from types import FrameType

from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine
from holdfast.errors import GiveUp, HoldfastError, TheirBug, YourBug
from holdfast.runtime.calling.bell import has_open_calls, ring
from holdfast.runtime.embedded import Housekeeper
from holdfast.runtime.faulting import faults_from_environment
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.supervisor import EXIT_REFUSED, HEARTBEAT_SECONDS
from holdfast.runtime.worker import Worker

EVENT_SECONDS_MAX = 2.0  # one event that runs longer than this is an endless loop
EXIT_FENCED = 4
EXIT_STUCK = 6
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger("holdfast.worker")


class Heart(threading.Thread):
    """Heartbeats to the supervisor, and the watch over user code that does not return."""

    def __init__(self, pipe: int) -> None:
        super().__init__(name="holdfast-heart", daemon=True)
        self._pipe = pipe
        self.worker: Worker | None = None

    def run(self) -> None:
        seen: object = None
        since = time.monotonic()
        while True:
            try:
                os.write(self._pipe, b".")
            except BrokenPipeError:
                os._exit(EXIT_FENCED)  # the supervisor is gone; a successor starts its own workers
            progress = self.worker.progress() if self.worker is not None else None
            if progress is None or progress != seen:
                seen, since = progress, time.monotonic()
            elif time.monotonic() - since > EVENT_SECONDS_MAX:
                _log.error("an event has run for %g s: ending this worker", EVENT_SECONDS_MAX)
                os._exit(EXIT_STUCK)
            time.sleep(HEARTBEAT_SECONDS)


def run(
    fleet_reference: str, url: str, memory: str, partitions: str, pipe: str, bell: str = ""
) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_with_the_supervisor()
    heart = Heart(int(pipe))
    heart.start()
    if int(memory):
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    fleet = load_fleet(fleet_reference)
    engine = open_engine(url, fleet.name, faults=faults_from_environment())
    called = partial(ring, int(bell)) if bell else _nobody_listens
    worker = Worker(fleet, engine, [int(n) for n in partitions.split(",")], called=called)
    heart.worker = worker
    # Agents live long and our batches make no cycles: a full collection every few commits would
    # only stop the fold. Cycles of the user's making are still found, more rarely.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    housekeeper = Housekeeper(engine)
    if has_open_calls(engine):
        called()  # whoever committed them may have died before it could ring
    _loop(worker, engine)
    housekeeper.stop()
    engine.close()
    return EXIT_FENCED if worker.fenced else 0


def _nobody_listens() -> None:
    """A worker without a supervisor: calls wait until somebody runs them."""


def end_with_the_supervisor() -> None:
    """The kernel ends us when our parent dies, also while we are stopped and cannot notice."""
    supervisor = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(EXIT_FENCED)  # it died before we could ask for that


def _loop(worker: Worker, engine: Engine) -> None:
    stopping = threading.Event()

    def finish(number: int, frame: FrameType | None) -> None:
        stopping.set()
        engine.wake()

    signal.signal(signal.SIGTERM, finish)
    signal.signal(signal.SIGINT, finish)
    while not stopping.is_set() and not worker.fenced:
        worker.turn(time.sleep)


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    logging.getLogger("holdfast.agent").setLevel(logging.INFO)  # ctx.log is for people to read
    try:
        return run(*sys.argv[1:7])
    except (YourBug, TheirBug, GiveUp) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
