"""What every process under a supervisor does: it beats its heart, ends with its supervisor,
finishes when it is told to, and says in one line why it cannot run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from holdfast.errors import GiveUp, HoldfastError, TheirBug, YourBug
from holdfast.runtime import logs
from holdfast.runtime.supervisor import EXIT_FENCED, EXIT_REFUSED, HEARTBEAT_SECONDS

PAUSE_SECONDS = 5.0  # a helper that cannot run tries again, and says so, this often
_PR_SET_PDEATHSIG = 1


class Heart(threading.Thread):
    """Heartbeats to the supervisor, until nobody listens any more."""

    def __init__(self, pipe: int) -> None:
        super().__init__(name="holdfast-heart", daemon=True)
        self._pipe = pipe
        self.watch: Callable[[], None] = lambda: None  # called at every beat

    def run(self) -> None:
        while True:
            try:
                os.write(self._pipe, b".")
            except BrokenPipeError:
                os._exit(EXIT_FENCED)  # the supervisor is gone; a successor starts its own
            self.watch()
            time.sleep(HEARTBEAT_SECONDS)


def attend(pipe: str) -> Heart:
    """From here on the supervisor hears us, and we do not outlive it."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_with(os.getppid())
    heart = Heart(int(pipe))
    heart.start()
    return heart


def end_with(parent: int) -> None:
    """The kernel ends us when our parent dies, also while we are stopped and cannot notice."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FENCED)  # it died before we could ask for that


def when_told_to_finish(finish: Callable[[], None]) -> None:
    """Before this is said, being told to finish ends the process: it has nothing to lose yet."""

    def told(number: int, frame: FrameType | None) -> None:
        finish()

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, told)


def serve(run: Callable[..., int], *, fleet_goes_on_without: str = "") -> NoReturn:
    """Run with the words of the command line, then exit.

    Trying again does not help a worker whose code or data is wrong, and the fleet stops. A helper
    says without what the fleet goes on, and is started again.
    """
    missing = fleet_goes_on_without
    try:
        logs.set_up()
        sys.exit(run(*sys.argv[1:]))
    except HoldfastError as error:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to finish
        logs.complain(f"{f'no {missing}: ' if missing else ''}{error}")
        time.sleep(PAUSE_SECONDS if missing else 0.0)
        wrong = isinstance(error, (YourBug, TheirBug, GiveUp))
        sys.exit(EXIT_REFUSED if wrong and not missing else 1)
