"""`Fleet`: the model of a fleet that can be opened, here or elsewhere."""

from __future__ import annotations

from contextlib import ExitStack

from holdfast.engine.faults import FaultPoints, no_faults
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import DEFAULT_URL, open_engine
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.archiving import ARCHIVE_SECONDS
from holdfast.runtime.asynchronous import AsyncLive
from holdfast.runtime.calling.targets import check_not_importing
from holdfast.runtime.embedded import Embedded
from holdfast.runtime.live import Live


class Fleet(FleetModel):
    """The agents that work together. `open` folds in this process, `connect` beside another."""

    def open(
        self,
        url: str = DEFAULT_URL,
        *,
        partitions: int = 1,
        snapshots: str | None = None,
        archive: str | None = None,
        archive_seconds: float = ARCHIVE_SECONDS,
        views: str | None = None,
        faults: FaultPoints = no_faults,
    ) -> Live:
        """Hold the fleet's data and fold it on a background thread until closed.

        With `archive`, a store (`file:PATH` or `s3://bucket/prefix`), all events are copied there
        as they come: at most `archive_seconds` of them are lost with the disk. With `snapshots`,
        a store too, the whole fleet is copied now and then. `views` is the folder of its views,
        beside the data unless given.
        """
        from holdfast.runtime.archiving.running import start_archiving  # a worker needs none of it

        check_not_importing()
        with ExitStack() as opened:
            engine = open_engine(url, self.name, create_partitions=partitions, faults=faults)
            opened.callback(engine.close)
            if isinstance(engine, SqliteEngine):
                engine.holder.acquire()
            archiver = start_archiving(engine, archive, archive_seconds)
            embedded = Embedded(self, engine, archiver, snapshots, views)
            opened.callback(embedded.stop)
            live = Live(self, engine, embedded, views=views)
            opened.pop_all()
            return live

    def connect(self, url: str = DEFAULT_URL, *, views: str | None = None) -> Live:
        """Send to and read a fleet that another process folds."""
        if url.startswith("memory:"):
            raise UsageError("memory: lives in one process only: use fleet.open, or sqlite:PATH")
        engine = open_engine(url, self.name)
        try:
            return Live(self, engine, views=views)
        except BaseException:
            engine.close()
            raise

    def open_async(self, url: str = DEFAULT_URL, *, partitions: int = 1) -> AsyncLive:
        return AsyncLive(lambda: self.open(url, partitions=partitions))

    def connect_async(self, url: str = DEFAULT_URL) -> AsyncLive:
        return AsyncLive(lambda: self.connect(url))
