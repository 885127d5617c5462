"""Real processes for the supervisor, and the loop that keeps it turning.

Beside the workers there may be a caller, the process that runs calls. It has a supervisor of the
same kind to itself, and starts when the fleet has calls to run.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from holdfast.runtime.calling.bell import new_bell
from holdfast.runtime.supervisor import HEARTBEAT_SECONDS, Post, Supervisor

FINISH_SECONDS = 10.0  # a worker finishes its commit in far less; then it is ended


class Child:
    """One worker or caller and the pipe its heartbeats come through."""

    def __init__(self, module: str, arguments: Sequence[str], bell: int) -> None:
        self.pipe, theirs = os.pipe()
        os.set_blocking(self.pipe, False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments, str(theirs), str(bell)],
                pass_fds=[theirs, bell],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C goes to the supervisor, which decides
            )
        finally:
            os.close(theirs)
        self.pid = self._process.pid

    def heartbeats(self) -> int:
        if self.pipe < 0:
            return 0
        try:
            beats = len(os.read(self.pipe, 4096))
        except BlockingIOError:
            return 0
        if not beats:
            self._close_pipe()  # its end: the process is gone, or about to be
        return beats

    def _close_pipe(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    def ended(self) -> int | None:
        if self.pipe >= 0:
            return self._process.poll()
        try:
            return self._process.wait(timeout=HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()  # it closed its pipe and lives on: nobody can watch it any more
            return self._process.returncode

    def finish(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_pipe()


class Launcher:
    """`holdfast run`: a supervisor over real processes until told to stop."""

    def __init__(
        self,
        fleet: str,
        url: str,
        workers: int,
        partitions: Sequence[int],
        memory_bytes_max: int = 0,
        calls: bool = False,
    ) -> None:
        """With `calls` a caller is started at once, otherwise when the first call is committed."""
        self._arguments = [fleet, url, str(memory_bytes_max)]
        self._bell = new_bell()
        self._calls = calls
        self.supervisor = Supervisor(self._spawn, workers, partitions, time.monotonic)
        self.callers = Supervisor(self._spawn_caller, 1, [0], time.monotonic, role="caller")
        self._stopping = threading.Event()

    def _spawn(self, number: int, partitions: Sequence[int]) -> Child:
        arguments = [*self._arguments, ",".join(map(str, partitions))]
        return Child("holdfast.runtime.process", arguments, self._bell)

    def _spawn_caller(self, number: int, partitions: Sequence[int]) -> Child:
        return Child("holdfast.runtime.calling.process", self._arguments[:2], self._bell)

    def stop(self) -> None:
        """Safe from a signal handler or another thread."""
        self._stopping.set()

    def posts(self) -> list[Post]:
        return self.supervisor.posts

    def run(self) -> None:
        """Until `stop`; a worker's end or heartbeat wakes the loop through its pipe."""
        try:
            while not self._stopping.is_set():
                self._tick()
                self._sleep(HEARTBEAT_SECONDS)
            self.callers.stop()
            self.supervisor.stop()
            deadline = time.monotonic() + FINISH_SECONDS
            while not self._stopped and time.monotonic() < deadline:
                self._tick()
                self._sleep(0.02)
        finally:
            self.callers.kill()
            self.supervisor.kill()
            os.close(self._bell)

    def _tick(self) -> None:
        self.supervisor.tick()
        if self._calls:
            self.callers.tick()

    @property
    def _stopped(self) -> bool:
        return self.supervisor.stopped and self.callers.stopped

    def _sleep(self, seconds: float) -> None:
        children = [p.process for p in (*self.supervisor.posts, *self.callers.posts)]
        pipes = [c.pipe for c in children if isinstance(c, Child) and c.pipe >= 0]
        if not self._calls:
            pipes.append(self._bell)
        readable, _, _ = select.select(pipes, [], [], seconds)
        if self._bell in readable:
            self._calls = True  # the bell goes on ringing for the caller, who silences it
