"""A snapshotter as a process of its own, started by the supervisor, never by hand:
`python -m holdfast.runtime.snapshots.running URL STORE EVENTS SECONDS PIPE`.
"""

from __future__ import annotations

import os
import threading

from holdfast.blob.urls import open_blob
from holdfast.engine.urls import open_engine
from holdfast.runtime import logs
from holdfast.runtime.metering.board import start_publishing
from holdfast.runtime.metering.reporting import of_snapshotter
from holdfast.runtime.snapshots.snapshotter import LOOK_SECONDS, Pace, Snapshotter
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.runtime.supervised import attend, serve, when_told_to_finish

NICENESS = 10  # on a busy machine the workers come first


def run(url: str, store: str, events: str, seconds: str, pipe: str) -> int:
    attend(pipe)
    os.nice(NICENESS)
    blob = open_blob(store)
    engine = open_engine(url, None)
    logs.fleet_is(engine.catalog.fleet)
    pace = Pace(events=int(events), seconds=float(seconds))
    snapshotter = Snapshotter(engine, SnapshotStore(blob), pace)
    finish_publishing = start_publishing(engine, lambda: of_snapshotter(snapshotter))
    stopping = threading.Event()
    when_told_to_finish(stopping.set)
    while not stopping.is_set():
        snapshotter.tick()
        stopping.wait(LOOK_SECONDS)
    finish_publishing()
    engine.close()
    blob.close()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="snapshots")
