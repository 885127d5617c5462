"""The shipper's process: `python -m holdfast.runtime.archiving.process URL ARCHIVE SECONDS PIPE`.

Started by the supervisor, never by hand. It needs no classes of the user and runs none.
"""

from __future__ import annotations

import threading

from holdfast.engine.urls import open_engine
from holdfast.runtime import logs
from holdfast.runtime.archiving.running import Archiver
from holdfast.runtime.metering.board import start_publishing
from holdfast.runtime.metering.reporting import of_shipper
from holdfast.runtime.supervised import attend, serve, when_told_to_finish


def run(url: str, archive: str, seconds: str, pipe: str) -> int:
    attend(pipe)
    engine = open_engine(url, None)
    logs.fleet_is(engine.catalog.fleet)
    archiver = Archiver(engine, archive, float(seconds))
    finish_publishing = start_publishing(engine, lambda: of_shipper(archiver.shipper))
    stopping = threading.Event()
    when_told_to_finish(stopping.set)
    stopping.wait()
    finish_publishing()
    archiver.stop()
    engine.close()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="archive")
