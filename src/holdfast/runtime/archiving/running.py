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
from holdfast.runtime.archiving.merging import MERGE_SECONDS, Merger
from holdfast.runtime.archiving.shipper import ARCHIVE_SECONDS, PATIENCE_SECONDS, HoldsBack, Shipper

PUTS_AT_ONCE = 8

_log = logging.getLogger("holdfast.archive")


class Archiver:
    """Ships twice in `seconds`, and merges beside that, until stopped."""

    def __init__(self, engine: Engine, url: str, seconds: float = ARCHIVE_SECONDS) -> None:
        if not 0.0 < seconds < float("inf"):
            raise UsageError(f"archive_seconds={seconds}: give the seconds that may be lost")
        blob = open_blob(url, patience_seconds=PATIENCE_SECONDS)
        self._pool = ThreadPoolExecutor(PUTS_AT_ONCE, "holdfast-puts")
        self.shipper = Shipper(engine, blob, each=self._pool.map)
        self._merger = Merger(blob)
        self._seconds = seconds
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=loop, name=f"holdfast-{name}", daemon=True)
            for name, loop in (("shipper", self._ship), ("merger", self._merge))
        ]
        for thread in self._threads:
            thread.start()

    def _ship(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            more = _guarded(self.shipper.tick)
            if not more:
                self._stopping.wait(self._seconds / 2 - (time.monotonic() - began))
        while _guarded(self.shipper.tick):
            pass  # what is there when the fleet stops is archived too

    def _merge(self) -> None:
        while not self._stopping.wait(MERGE_SECONDS):
            while not self._stopping.is_set() and _guarded(self._merger.tick):
                pass

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()


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
