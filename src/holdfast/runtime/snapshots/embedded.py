"""A snapshotter on a thread of this process, for `fleet.open`."""

from __future__ import annotations

import logging
import threading

from holdfast.blob.urls import open_blob
from holdfast.engine.port import Engine
from holdfast.runtime.snapshots.snapshotter import LOOK_SECONDS, PACE, Pace, Snapshotter
from holdfast.runtime.snapshots.store import SnapshotStore

_log = logging.getLogger("holdfast.snapshots")


class SnapshotThread:
    """Beside the worker thread of `fleet.open`."""

    def __init__(self, engine: Engine, url: str, pace: Pace = PACE) -> None:
        self._blob = open_blob(url)
        self.snapshotter = Snapshotter(engine, SnapshotStore(self._blob), pace)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-snapshots", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.snapshotter.tick()
                self._stopping.wait(LOOK_SECONDS)
        except Exception:
            _log.exception("the snapshotter stopped; the fleet goes on without snapshots")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._blob.close()
