"""The caller of `fleet.open`: on a thread, from the first call on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.engine.port import Engine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.calling.bell import left_open, new_bell, ring
from holdfast.runtime.metering.samples import Sample

if TYPE_CHECKING:
    from holdfast.runtime.calling.driving import Driver
    from holdfast.runtime.tracing.spans import Tracer

_log = logging.getLogger("holdfast.caller")


class CallerThread:
    """A caller beside the worker of `fleet.open`; its thread starts with the first call."""

    def __init__(self, fleet: FleetModel, engine: Engine, tracer: Tracer | None = None) -> None:
        self._fleet = fleet
        self._tracer = tracer
        self._engine = engine
        self._bell = new_bell()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopping = False
        self.failure: BaseException | None = None
        self._driver: Driver | None = None
        if left_open(engine):
            self.called()

    def called(self) -> None:
        """Calls were committed: run them."""
        with self._starting:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-caller", daemon=True
                )
                self._thread.start()
        ring(self._bell)

    def _run(self) -> None:
        from holdfast.runtime.calling.driving import Driver  # most programs never call

        try:
            driver = Driver(self._fleet, self._engine, self._bell, self._tracer)
            self._driver = driver
            try:
                while not self._stopping:
                    driver.turn()
            finally:
                driver.close()
        except BaseException as error:
            self.failure = error
            _log.exception("the caller stopped")

    def samples(self) -> Sequence[Sample]:
        return list(self._driver.samples()) if self._driver is not None else ()

    def stop(self) -> None:
        """What its functions are at is ended; those calls are open, and run again next time."""
        with self._starting:
            self._stopping = True
        if self._thread is not None:
            ring(self._bell)
            self._thread.join()
        os.close(self._bell)
