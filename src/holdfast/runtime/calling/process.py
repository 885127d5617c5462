"""The process that runs calls: `python -m holdfast.runtime.calling.process FLEET URL PIPE BELL`.

Started by the supervisor, never by hand. It beats its heart into PIPE like a worker and ends with
its supervisor; its own children end with it. Workers ring BELL when they have committed calls.
"""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType

from holdfast.engine.urls import open_engine
from holdfast.errors import GiveUp, HoldfastError, TheirBug, YourBug
from holdfast.runtime.calling.bell import ring
from holdfast.runtime.calling.driving import Driver
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.process import Heart, end_with_the_supervisor
from holdfast.runtime.supervisor import EXIT_REFUSED


def run(fleet_reference: str, url: str, pipe: str, bell: str) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_with_the_supervisor()
    Heart(int(pipe)).start()
    stopping = False

    def finish(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        ring(int(bell))

    signal.signal(signal.SIGTERM, finish)
    signal.signal(signal.SIGINT, finish)
    fleet = load_fleet(fleet_reference)
    engine = open_engine(url, fleet.name)
    driver = Driver(fleet, engine, int(bell))
    try:
        while not stopping:
            driver.turn()
    finally:
        driver.close()
        engine.close()
    return 0


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
    try:
        return run(*sys.argv[1:5])
    except (YourBug, TheirBug, GiveUp) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
