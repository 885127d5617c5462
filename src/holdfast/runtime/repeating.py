"""Work beside the fold, on a thread of its own: the engine's upkeep, snapshots, merging."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError

MAINTAIN_SECONDS = 1.0

_log = logging.getLogger("holdfast.beside")


class Repeating:
    """Calls `tick` every so many seconds until it is stopped, and then `last`, on the same thread.

    The fold depends on none of it: what failed is tried again, and the reason is shown once.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], object],
        seconds: float,
        last: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._tick = tick
        self._last = last
        self._seconds = seconds
        self._told = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            self._try(self._tick, "%s failed and will be tried again: %s")
        if self._last is not None:
            self._try(self._last, "%s failed at the end: %s")

    def _try(self, what: Callable[[], object], text: str) -> None:
        try:
            what()
            self._told = ""
        except Exception as error:
            if self._told != repr(error):
                unknown = not isinstance(error, HoldfastError)  # ours say all in one line
                _log.error(text, self._name, error, exc_info=unknown)
            self._told = repr(error)

    def is_current(self) -> bool:
        """Whether who asks is on its thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def keep_house(engine: Engine) -> Repeating:
    """The engine's upkeep beside the worker, so that no commit waits for it."""
    return Repeating("upkeep", engine.maintain, MAINTAIN_SECONDS)
