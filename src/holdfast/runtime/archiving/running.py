"""The loops around shipper and merger, on threads of `fleet.open` or of the shipper's process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.blob.urls import open_blob
from holdfast.engine.port import Engine
from holdfast.errors import UsageError
from holdfast.runtime.archiving import ARCHIVE_SECONDS
from holdfast.runtime.archiving.merging import MERGE_SECONDS, Merger
from holdfast.runtime.archiving.shipper import PATIENCE_SECONDS, HoldsBack, Shipper
from holdfast.runtime.repeating import Repeating

PUTS_AT_ONCE = 8

_log = logging.getLogger("holdfast.archive")


class Archiver:
    """Ships twice in `seconds`, and merges beside that, until stopped."""

    def __init__(self, engine: Engine, url: str, seconds: float = ARCHIVE_SECONDS) -> None:
        if not 0.0 < seconds < float("inf"):
            raise UsageError(f"archive_seconds={seconds}: give the seconds that may be lost")
        self._blob = open_blob(url, patience_seconds=PATIENCE_SECONDS)
        self._pool = ThreadPoolExecutor(PUTS_AT_ONCE, "holdfast-puts")
        self.shipper = Shipper(engine, self._blob, each=self._pool.map)
        self._seconds = seconds
        self._stopping = threading.Event()
        self._ships = threading.Thread(target=self._ship, name="holdfast-shipper", daemon=True)
        self._ships.start()
        self._merger = Merger(self._blob)
        self._merges = Repeating("merging", self._merge, MERGE_SECONDS)

    def _ship(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            more = _guarded(self.shipper.tick)
            if not more:
                self._stopping.wait(self._seconds / 2 - (time.monotonic() - began))
        while _guarded(self.shipper.tick):
            pass  # what is there when the fleet stops is archived too

    def _merge(self) -> None:
        while self._merger.tick() and not self._stopping.is_set():
            pass

    def stop(self) -> None:
        self._stopping.set()
        self._merges.stop()
        self._ships.join()
        self._pool.shutdown()
        self._blob.close()


def _guarded(tick: Callable[[], int]) -> int:
    """The archive never ends the fold: what failed is tried again, and the reason is shown."""
    try:
        return tick()
    except Exception:
        _log.exception("archiving failed and will be tried again")
        return 0


def start_archiving(engine: Engine, url: str | None, seconds: float) -> Archiver | None:
    """For whoever holds the directory. Without an archive retention waits for nobody any more."""
    check_archive(engine, url)
    return Archiver(engine, url, seconds) if url is not None else None


def check_archive(engine: Engine, url: str | None) -> None:
    """What a shipper would be refused for is said here, once, before it starts."""
    if url is not None:
        Shipper(engine, open_blob(url, patience_seconds=PATIENCE_SECONDS)).prepare()
    elif isinstance(engine, HoldsBack):
        for number in (*engine.catalog.retired, *engine.catalog.layout.numbers):
            engine.keep_from(number, None)


def finish_archive(engine: Engine, url: str | None) -> None:
    """What is there when the fleet stops is archived too, also if its shipper was not up to it."""
    if url is not None:
        shipper = Shipper(engine, open_blob(url, patience_seconds=PATIENCE_SECONDS))
        while _guarded(shipper.tick):
            pass
