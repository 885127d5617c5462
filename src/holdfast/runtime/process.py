"""A worker process: `python -m holdfast.runtime.process FLEET URL MEMORY PARTITIONS PIPE [BELL]`.

Started by the supervisor, never by hand. It ends itself when user code makes no progress. It rings
BELL, an eventfd, when it has committed calls.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import threading
import time
from collections.abc import Iterator
from functools import partial

from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine
from holdfast.runtime import logs
from holdfast.runtime.calling.bell import left_open, ring
from holdfast.runtime.faulting import faults_from_environment
from holdfast.runtime.heap import keep_freed_memory
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.metering.board import metered, own_name, start_publishing
from holdfast.runtime.metering.reporting import of_tracer, of_worker
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.repeating import keep_house
from holdfast.runtime.supervised import attend, serve, when_told_to_finish
from holdfast.runtime.supervisor import EXIT_FENCED
from holdfast.runtime.tracing.exporting import Exporter, start_tracing
from holdfast.runtime.worker import Worker

EVENT_SECONDS_MAX = 2.0  # one event that runs longer than this is an endless loop
COMMIT_SECONDS_MAX = 45.0  # far beyond what any takes that does not hang
EXIT_STUCK = 6

_log = logging.getLogger("holdfast.worker")


class Watch:
    """Over what does not return: it ends this process. If it was user code, a successor finds out
    which event it was."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._seen: object = None
        self._since = time.monotonic()

    def look(self) -> None:
        if self._worker.committing_seconds() > COMMIT_SECONDS_MAX:
            _log.error("a commit has run for %g s: ending this worker", COMMIT_SECONDS_MAX)
            os._exit(EXIT_STUCK)
        progress = self._worker.progress()
        if progress is None or progress != self._seen:
            self._seen, self._since = progress, time.monotonic()
        elif time.monotonic() - self._since > EVENT_SECONDS_MAX:
            _log.error("an event has run for %g s: ending this worker", EVENT_SECONDS_MAX)
            os._exit(EXIT_STUCK)


def run(
    fleet_reference: str, url: str, memory: str, partitions: str, pipe: str, bell: str = ""
) -> int:
    logging.getLogger("holdfast.agent").setLevel(logging.INFO)  # ctx.log is for people to read
    heart = attend(pipe)
    if int(memory):
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    fleet = load_fleet(fleet_reference)
    logs.fleet_is(fleet.name)
    engine = open_engine(url, fleet.name, faults=faults_from_environment())
    called = partial(ring, int(bell)) if bell else _nobody_listens
    wanted = None if engine.capabilities.assigns else [int(n) for n in partitions.split(",")]
    tracer = start_tracing(fleet.name, own_name())
    worker = Worker(fleet, engine, wanted, called=called, metered=metered(), tracer=tracer)
    heart.watch = Watch(worker).look
    # Agents live long and our batches make no cycles: a full collection every few commits would
    # only stop the fold. Cycles of the user's making are still found, more rarely.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    keep_freed_memory()
    housekeeper = keep_house(engine)
    finish_publishing = start_publishing(engine, lambda: _told(worker, tracer))
    if left_open(engine):
        called()  # whoever committed them may have died before it could ring
    _loop(worker, engine)
    if tracer is not None:
        tracer.stop()
    finish_publishing()
    housekeeper.stop()
    engine.close()
    return EXIT_FENCED if worker.fenced else 0


def _told(worker: Worker, tracer: Exporter | None) -> Iterator[Sample]:
    yield from of_worker(worker, own_name())
    yield from of_tracer(tracer, own_name())


def _nobody_listens() -> None:
    """A worker without a supervisor: calls wait until somebody runs them."""


def _loop(worker: Worker, engine: Engine) -> None:
    stopping = threading.Event()

    def finish() -> None:
        stopping.set()
        engine.wake()

    when_told_to_finish(finish)
    while not stopping.is_set() and not worker.fenced:
        worker.turn(time.sleep)


if __name__ == "__main__":
    serve(run)
