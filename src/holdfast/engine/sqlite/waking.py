"""Waking the owner of a partition, from whatever process appends."""

from __future__ import annotations

import os
from pathlib import Path


def wake(fifo: Path) -> None:
    """One byte into the owner's FIFO. Nobody listens, or it is full: both are fine."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(descriptor, b"x")
    except (BlockingIOError, BrokenPipeError):
        return  # full of wake-ups already, or the owner died a moment ago
    finally:
        os.close(descriptor)
