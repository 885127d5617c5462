"""Waking the owner of a partition, from whatever process appends; and waiting to be woken."""

from __future__ import annotations

import os
import select
from pathlib import Path

from holdfast.engine.bell import Bell
from holdfast.engine.sqlite.files import status_of

FIFO = "wake"  # in the folder of a partition


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


class Waiting:
    """One FIFO for each partition that is owned here, and a bell of this process.

    The bell is none of the FIFOs: they belong to whoever has claimed last, and there may be none.
    """

    def __init__(self) -> None:
        self.bell = Bell()
        self.fifos: dict[Path, int] = {}

    def wait(self, seconds: float) -> None:
        poll = select.poll()  # unlike select it takes descriptors past 1,024
        for descriptor in (self.bell.descriptor, *self.fifos.values()):
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            os.read(descriptor, 65_536)

    def listen(self, folder: Path) -> None:
        """A FIFO of our own: an earlier owner that still lives must not eat our wake-ups.

        Made inside the claim, so that of two who claim at once the later has the later FIFO.
        """
        path = folder / FIFO
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        if folder in self.fifos:
            os.close(self.fifos[folder])  # of a claim that failed
        self.fifos[folder] = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def stop_listening(self, folder: Path) -> None:
        """Leave no FIFO behind, so that a directory at rest is plain files; not a successor's.

        Inside the claim, or a successor's may come between the look and the end of it.
        """
        path = folder / FIFO
        descriptor = self.fifos.pop(folder)
        status = status_of(path)
        if status is not None and os.path.samestat(status, os.fstat(descriptor)):
            path.unlink(missing_ok=True)
        os.close(descriptor)

    def close(self) -> None:
        for folder in list(self.fifos):
            self.stop_listening(folder)
        self.bell.close()
