"""The supervisor process: `python -m tests.kills.keeper FLEET URL WORKERS MEMORY`.

What `holdfast run` does, without its texts: hold the directory, keep the workers running, and on
SIGTERM let them finish.
"""

import logging
import signal
import sys

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import open_engine, parse
from holdfast.runtime.launching import Launcher
from holdfast.runtime.loading import load_fleet


def main(fleet: str, url: str, workers: str, memory: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    partitions = parse(url).partitions or 1
    engine = open_engine(url, load_fleet(fleet).name, create_partitions=partitions)
    assert isinstance(engine, SqliteEngine)
    engine.holder.acquire()
    numbers = engine.catalog.layout.numbers
    launcher = Launcher(fleet, url, int(workers), numbers, int(memory))
    signal.signal(signal.SIGTERM, lambda number, frame: launcher.stop())
    launcher.run()
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:5])
