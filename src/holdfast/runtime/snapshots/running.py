"""Where a snapshotter runs: a thread of `fleet.open`, or a process under the supervisor.

`python -m holdfast.runtime.snapshots.running URL STORE EVENTS SECONDS PIPE` is that one, started
by the supervisor, never by hand.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

from holdfast.blob.urls import open_blob
from holdfast.engine.port import Engine
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import open_engine
from holdfast.errors import GiveUp, HoldfastError, TheirBug, UsageError, YourBug
from holdfast.runtime.process import Heart, end_with_the_supervisor
from holdfast.runtime.snapshots.snapshotter import LOOK_SECONDS, PACE, Pace, Snapshotter
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.runtime.supervisor import EXIT_REFUSED

NICENESS = 10  # on a busy machine the workers come first

_log = logging.getLogger("holdfast.snapshots")


def default_store(engine: Engine) -> str:
    """Beside the data: against mistakes, not against the loss of the disk."""
    if not isinstance(engine, SqliteEngine):
        raise UsageError("memory: keeps no snapshots by itself: name a place with snapshots=URL")
    return f"file:{engine.root / 'snapshots'}"


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
    except (YourBug, TheirBug, GiveUp) as error:
        print(f"holdfast: snapshots: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except HoldfastError as error:
        print(f"holdfast: snapshots: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
