"""The shipper's process: `python -m holdfast.runtime.archiving.process URL ARCHIVE SECONDS PIPE`.

Started by the supervisor, never by hand. It needs no classes of the user and runs none.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from types import FrameType

from holdfast.engine.urls import open_engine
from holdfast.errors import HoldfastError
from holdfast.runtime.archiving.running import Archiver
from holdfast.runtime.process import Heart, end_with_the_supervisor


def run(url: str, archive: str, seconds: str, pipe: str) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_with_the_supervisor()
    Heart(int(pipe)).start()
    stopping = threading.Event()

    def finish(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, finish)
    signal.signal(signal.SIGINT, finish)
    engine = open_engine(url, None)
    archiver = Archiver(engine, archive, float(seconds))
    stopping.wait()
    archiver.stop()
    engine.close()
    return 0


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    try:
        return run(*sys.argv[1:5])
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
