"""A snapshotter as a process of its own, started by the supervisor, never by hand:
`python -m holdfast.runtime.snapshots.running URL STORE EVENTS SECONDS PIPE`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from types import FrameType

from holdfast.blob.urls import open_blob
from holdfast.engine.urls import open_engine
from holdfast.errors import HoldfastError
from holdfast.runtime.process import Heart, end_with_the_supervisor
from holdfast.runtime.snapshots.snapshotter import (
    LOOK_SECONDS,
    RETRY_SECONDS,
    Pace,
    Snapshotter,
)
from holdfast.runtime.snapshots.store import SnapshotStore

NICENESS = 10  # on a busy machine the workers come first


def run(url: str, store: str, events: str, seconds: str, pipe: str) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_with_the_supervisor()
    Heart(int(pipe)).start()
    os.nice(NICENESS)
    stopping = threading.Event()

    def finish(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, finish)
    signal.signal(signal.SIGINT, finish)
    blob = open_blob(store)
    engine = open_engine(url, None)
    pace = Pace(events=int(events), seconds=float(seconds))
    snapshotter = Snapshotter(engine, SnapshotStore(blob), pace)
    while not stopping.is_set():
        snapshotter.tick()
        stopping.wait(LOOK_SECONDS)
    engine.close()
    blob.close()
    return 0


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    try:
        return run(*sys.argv[1:6])
    except HoldfastError as error:
        # The fleet goes on without snapshots, and is told again and again, but not all the time.
        print(f"holdfast: no snapshots: {error}", file=sys.stderr)
        time.sleep(RETRY_SECONDS)
        return 1


if __name__ == "__main__":
    sys.exit(main())
