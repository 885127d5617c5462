"""`holdfast run --archive` and a producer as real processes, for tests that kill them."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.blob.port import Blob
from holdfast.blob.urls import open_blob
from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine
from holdfast.runtime.archiving.archive import Archive
from tests.kills.harness import (
    PATIENCE_SECONDS,
    Site,
    children,
    ended,
    gone,
    site,
    strike,
    wait_until,
)
from tests.servers.seaweed import WRITER

FLEET = "tests.archiving.bots:fleet"


class Place:
    """One directory, its archive, and who works on them."""

    def __init__(self, at: Site, archive: str) -> None:
        self.site = at
        self.archive = archive
        at.environment = dict(WRITER)
        self.keeper: subprocess.Popen[bytes] = self.start_keeper()
        wait_until(self.shipper, PATIENCE_SECONDS, "a shipper")
        self.producer: subprocess.Popen[bytes] = self.start_producer()

    def start_keeper(self) -> subprocess.Popen[bytes]:
        words = ["run", FLEET, "--engine", self.site.url, "--workers", "2"]
        words += ["--archive", self.archive]
        self.keeper = self.site.start("run", ["tests.linearizability.command", *words])
        return self.keeper

    def start_producer(self) -> subprocess.Popen[bytes]:
        words = ["tests.archiving.producer", self.site.url, "0.005"]
        self.producer = self.site.start("producer", words)
        return self.producer

    def shipper(self) -> int | None:
        return next(iter(children(self.keeper.pid, "archiving.process")), None)

    def worker(self) -> int | None:
        return next(iter(children(self.keeper.pid, "runtime.process")), None)

    def kill_everybody(self) -> float:
        """All at once, as if the machine were gone; the moment of it."""
        everybody = [self.producer.pid, self.keeper.pid, *children(self.keeper.pid)]
        for pid in everybody:
            strike(pid, signal.SIGSTOP)
        moment = time.time()
        for pid in everybody:  # its children end with the keeper, but for one that only starts
            strike(pid)
        ended(self.producer)
        ended(self.keeper)
        wait_until(lambda: gone(everybody), PATIENCE_SECONDS, "everybody is gone")
        return moment

    def blob(self) -> Blob:
        return open_blob(self.archive, environment=WRITER)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        engine = open_engine(self.site.url, None)
        try:
            yield engine
        finally:
            engine.close()

    def events(self) -> int:
        with self.engine() as engine:
            return sum(engine.view(n).inbox_next() for n in engine.catalog.layout.numbers)

    def archived(self) -> int:
        archive = Archive(self.blob())
        reaches = [archive.reach("log", born) for born in archive.incarnations()]
        return sum(reach.next for reach in reaches if reach is not None)


@contextmanager
def place(archive: str | None) -> Iterator[Place]:
    """Without a store of its own the archive is a folder beside the data."""
    with site("partitions=2", FLEET) as at:
        yield Place(at, archive or f"file:{at.folder / 'archive'}")
