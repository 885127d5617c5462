"""`python -m bench.ours.one_thread FOLDER SENDS`: producer and worker in turn, in one thread.

Nothing waits and nothing depends on time, so the instructions of two lengths differ by those of
the events alone.
"""

from __future__ import annotations

import gc
import os
import sys

from bench.events import Events, Stream
from bench.ours.producing import columns_sender, rows_sender
from bench.program import COMPILED, fleet
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.worker import Worker

SEND = 4_096
SENDS_PER_COMMIT = 4


def main() -> None:
    folder, sends = sys.argv[1], int(sys.argv[2])
    stream = Stream(agents=1_000)
    url = f"sqlite:{folder}/data"
    engine = open_engine(url, fleet.name, create_partitions=1)
    try:
        live = Live(fleet, engine)
        send = (columns_sender if COMPILED else rows_sender)(live, stream.agents)
        worker = Worker(fleet, engine, [0])
        while worker.tick():
            pass
        before = folded(live)  # what the sender sent to be compiled
        gc.freeze()
        gc.disable()
        for n in range(sends):
            send(Events(stream, 0, 1, n * SEND, SEND), "one", n * SEND + 1)
            if n % SENDS_PER_COMMIT == SENDS_PER_COMMIT - 1:
                while worker.tick():
                    pass
        while worker.tick():
            pass
        print(folded(live) - before, flush=True)
    finally:
        os._exit(0)  # what closing costs is not of the events


def folded(live: Live) -> int:
    return sum(progress.folded for progress in live.positions().values())


if __name__ == "__main__":
    main()
