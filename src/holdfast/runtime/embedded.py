"""A worker on a thread of this process, for `fleet.open`, and all that runs beside it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from holdfast.engine.port import Engine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.calling.thread import CallerThread
from holdfast.runtime.metering.board import PROGRAM, metered, start_publishing
from holdfast.runtime.metering.reporting import of_shipper, of_snapshotter, of_tracer, of_worker
from holdfast.runtime.metering.samples import Sample
from holdfast.runtime.metering.vitals import vitals
from holdfast.runtime.repeating import Repeating, keep_house
from holdfast.runtime.tracing.exporting import start_tracing
from holdfast.runtime.worker import Worker

if TYPE_CHECKING:
    from holdfast.runtime.archiving.running import Archiver
    from holdfast.runtime.snapshots.snapshotter import Snapshotter

_log = logging.getLogger("holdfast.worker")


class Embedded:
    """Its parts are stopped in the reverse order, also those of one that cannot start."""

    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        archiver: Archiver | None = None,  # ours to stop from here on
        snapshots: str | None = None,
        views: str | None = None,  # where they are kept
    ) -> None:
        self._engine = engine
        self._failure: BaseException | None = None
        self._stopping = False
        self._tellers: list[Callable[[], Iterable[Sample]]] = []
        self.views: Path | None = None
        with ExitStack() as parts:
            if archiver is not None:
                parts.callback(archiver.stop)
                self._tellers.append(partial(of_shipper, archiver.shipper))
            tracer = start_tracing(fleet.name, PROGRAM)
            if tracer is not None:
                parts.callback(tracer.stop)
            self._caller = CallerThread(fleet, engine, tracer)
            parts.callback(self._caller.stop)
            numbers = None if engine.capabilities.assigns else engine.catalog.layout.numbers
            called = self._caller.called
            self._worker = Worker(
                fleet, engine, numbers, called=called, metered=metered(), tracer=tracer
            )
            self._worker.tick()  # claim here, so that what is wrong is the caller's exception
            parts.callback(keep_house(engine).stop)
            self._thread = threading.Thread(target=self._run, name="holdfast-worker", daemon=True)
            self._thread.start()
            parts.callback(self._stop_worker)
            if snapshots is not None:
                snapshotter = parts.enter_context(_snapshots(engine, snapshots))
                self._tellers.append(partial(of_snapshotter, snapshotter))
            if fleet.views:
                self.views = parts.enter_context(_views(fleet, engine, views))
            self._tellers += [partial(of_worker, self._worker, PROGRAM), self._caller.samples]
            self._tellers.append(partial(of_tracer, tracer, PROGRAM))
            parts.callback(start_publishing(engine, self._parts_tell, at_once=False))
            self._parts = parts.pop_all()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._worker.turn(time.sleep)
        except BaseException as error:
            self._failure = error
            _log.exception("the worker stopped")

    def _stop_worker(self) -> None:
        self._stopping = True
        self._engine.wake()
        self._thread.join()

    def _parts_tell(self) -> list[Sample]:
        return [sample for tell in self._tellers for sample in tell()]

    def samples(self) -> Sequence[Sample]:
        """What this process tells of itself."""
        return [*vitals(PROGRAM), *self._parts_tell()]

    def alarms(self) -> dict[int, str]:
        return {**self._worker.alarms, **self._worker.fenced}

    def check(self) -> None:
        """Raise what ended the worker or the caller, in the thread that waits for it."""
        failure = self._failure or self._caller.failure
        if failure is not None:
            raise failure

    def stop(self) -> None:
        self._parts.close()


@contextmanager
def _views(fleet: FleetModel, engine: Engine, folder: str | None) -> Iterator[Path]:
    """The folder in which they are; of a fleet in memory one that is gone with it."""
    from holdfast.runtime.viewing.running import Views
    from holdfast.runtime.viewing.shelf import views_folder

    with TemporaryDirectory(prefix="holdfast-views-") as temporary:
        kept = engine.capabilities.survives_exit or folder is not None
        place = views_folder(engine, folder) if kept else Path(temporary)
        views = Views(engine, fleet.views.values(), place)
        try:
            yield place
        finally:
            views.stop()


@contextmanager
def _snapshots(engine: Engine, url: str) -> Iterator[Snapshotter]:
    # Imported by those who want it: a worker has to start quickly, and needs none of this.
    from holdfast.blob.urls import open_blob
    from holdfast.runtime.snapshots.snapshotter import LOOK_SECONDS, Snapshotter
    from holdfast.runtime.snapshots.store import SnapshotStore

    with closing(open_blob(url)) as blob:
        snapshotter = Snapshotter(engine, SnapshotStore(blob))
        repeating = Repeating("snapshots", snapshotter.tick, LOOK_SECONDS)
        try:
            yield snapshotter
        finally:
            repeating.stop()
