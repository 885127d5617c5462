"""A worker on a background thread of this process, for `fleet.open`."""

from __future__ import annotations

import logging
import threading
import time

from holdfast.engine.port import Engine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.archiving.running import Archiver
from holdfast.runtime.calling.thread import CallerThread
from holdfast.runtime.snapshots.embedded import SnapshotThread
from holdfast.runtime.worker import Worker

MAINTAIN_SECONDS = 1.0

_log = logging.getLogger("holdfast.worker")


class Housekeeper:
    """Runs the engine's upkeep beside the worker, so that no commit waits for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-upkeep", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(MAINTAIN_SECONDS):
            try:
                self._engine.maintain()
            except Exception:
                # Upkeep only tidies: what failed is tried again, and the reason is shown.
                _log.exception("upkeep failed and will be tried again")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Embedded:
    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        archiver: Archiver | None = None,
        snapshots: str | None = None,
    ) -> None:
        self._engine = engine
        numbers = engine.catalog.layout.numbers
        self._caller = CallerThread(fleet, engine)
        try:
            self._worker = Worker(fleet, engine, numbers, called=self._caller.called)
            self._worker.tick()  # claim here, so that what is wrong is the caller's exception
            self._snapshots = SnapshotThread(engine, snapshots) if snapshots else None
        except BaseException:
            self._caller.stop()
            raise
        self._failure: BaseException | None = None
        self._stopping = False
        self._archiver = archiver
        self._housekeeper = Housekeeper(engine)
        self._thread = threading.Thread(target=self._run, name="holdfast-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._worker.turn(time.sleep)
        except BaseException as error:
            self._failure = error
            _log.exception("the worker stopped")

    def alarms(self) -> dict[int, str]:
        return {**self._worker.alarms, **self._worker.fenced}

    def check(self) -> None:
        """Raise what ended the worker or the caller, in the thread that waits for it."""
        failure = self._failure or self._caller.failure
        if failure is not None:
            raise failure

    def stop(self) -> None:
        if self._snapshots is not None:
            self._snapshots.stop()
        self._stopping = True
        self._engine.wake()
        self._thread.join()
        self._caller.stop()  # after the worker, which rings it
        if self._archiver is not None:
            self._archiver.stop()
        self._housekeeper.stop()
