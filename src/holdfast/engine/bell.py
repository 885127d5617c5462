"""A bell that ends a wait of this process: rung from any thread, and from signal handlers."""

from __future__ import annotations

import os
import threading


class Bell:
    """Rung after it was closed, it does nothing: its descriptor may be somebody else's by then."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Reentrant: a signal handler may interrupt its own thread in here. Nobody waits inside.
        self._lock = threading.RLock()

    def ring(self) -> None:
        with self._lock:
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def close(self) -> None:
        with self._lock:
            descriptor, self.descriptor = self.descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)
