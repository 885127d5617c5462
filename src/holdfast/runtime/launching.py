"""Real processes for supervisors, workers and helpers, and the loop that keeps them turning.

Beside the workers there may be a caller, the process that runs calls: it starts when the fleet has
calls to run. Helpers copy what the workers have made: the log, snapshots.
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
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.urls import for_worker
from holdfast.runtime.calling.bell import new_bell
from holdfast.runtime.metering.board import PROCESS, Publisher, tidy
from holdfast.runtime.metering.reporting import of_supervisors
from holdfast.runtime.supervisor import HEARTBEAT_SECONDS, Post, Supervisor

FINISH_SECONDS = 10.0  # a worker finishes its commit in far less; then it is ended


class Child:
    """One process and the pipe its heartbeats come through."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], descriptors: Sequence[int] = ()
    ) -> None:
        self.pipe, theirs = os.pipe()
        os.set_blocking(self.pipe, False)
        passed = [theirs, *descriptors]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments, *map(str, passed)],
                pass_fds=passed,
                env={**os.environ, PROCESS: name},
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


class Helper(NamedTuple):
    """A process beside the workers: started before them, kept running, stopped after them."""

    noun: str
    module: str
    arguments: Sequence[str]
    after_seconds: float = 0.0  # the workers come first
    descriptors: Sequence[int] = ()  # open files that it inherits, also when it is started again


class Launcher:
    """`holdfast run`: supervisors over real processes until told to stop."""

    def __init__(
        self,
        fleet: str,
        url: str,
        workers: int,
        partitions: Sequence[int],
        memory_bytes_max: int = 0,
        calls: bool = False,
        helpers: Sequence[Helper] = (),
        *,
        pin: bool = False,
        board: Path | None = None,
    ) -> None:
        """With `calls` a caller is started at once, otherwise when the first call is committed.

        With `pin` each worker keeps to one core, in turn of those that this process may use. On the
        `board` the supervisor tells of them.
        """
        self._arguments = [fleet, url, str(memory_bytes_max)]
        self._bell = new_bell()
        self._calls = calls
        self._cores = sorted(os.sched_getaffinity(0)) if pin else []
        self.supervisor = Supervisor(self._spawn, workers, partitions, time.monotonic)
        self.callers = Supervisor(self._spawn_caller, 1, [0], time.monotonic, role="caller")
        self.helpers = [_helping(helper) for helper in helpers]
        self._board = board
        self._stopping = threading.Event()

    def _spawn(self, number: int, partitions: Sequence[int]) -> Child:
        fleet, url, memory = self._arguments
        arguments = [fleet, for_worker(url, number), memory, ",".join(map(str, partitions))]
        child = Child(f"worker-{number}", "holdfast.runtime.process", arguments, [self._bell])
        if self._cores:
            with suppress(ProcessLookupError):  # it has ended already: the supervisor will see
                os.sched_setaffinity(child.pid, {self._cores[number % len(self._cores)]})
        return child

    def _spawn_caller(self, number: int, partitions: Sequence[int]) -> Child:
        module = "holdfast.runtime.calling.process"
        return Child("caller", module, self._arguments[:2], [self._bell])

    def stop(self) -> None:
        """Safe from a signal handler or another thread."""
        self._stopping.set()

    def posts(self) -> list[Post]:
        return self.supervisor.posts

    def run(self) -> None:
        """Until `stop`; a process's end or heartbeat wakes the loop through its pipe."""
        publisher = self._publisher()
        try:
            while not self._stopping.is_set():
                for supervisor in self._at_work():
                    supervisor.tick()
                self._sleep(HEARTBEAT_SECONDS)
            for stage in ([self.callers, self.supervisor], self.helpers):
                self._finish(stage)
        finally:
            for supervisor in (self.callers, self.supervisor, *self.helpers):
                supervisor.kill()
            os.close(self._bell)
            if publisher is not None:
                publisher.stop()

    def _publisher(self) -> Publisher | None:
        if self._board is None:
            return None
        tidy(self._board)
        everybody = (self.supervisor, self.callers, *self.helpers)
        return Publisher(self._board, "supervisor", lambda: of_supervisors(everybody))

    def _at_work(self) -> list[Supervisor]:
        callers = [self.callers] if self._calls else []
        return [*self.helpers, self.supervisor, *callers]

    def _finish(self, stage: Sequence[Supervisor]) -> None:
        for supervisor in stage:
            supervisor.stop()
        deadline = time.monotonic() + FINISH_SECONDS
        while not all(one.stopped for one in stage) and time.monotonic() < deadline:
            for supervisor in stage:
                supervisor.tick()
            self._sleep(0.02)

    def _sleep(self, seconds: float) -> None:
        children = [post.process for one in self._at_work() for post in one.posts]
        pipes = [c.pipe for c in children if isinstance(c, Child) and c.pipe >= 0]
        if not self._calls:
            pipes.append(self._bell)
        poll = select.poll()  # select itself ends at descriptor 1,023: 256 partitions have more
        for pipe in pipes:
            poll.register(pipe, select.POLLIN)
        if self._bell in (descriptor for descriptor, _ in poll.poll(seconds * 1000)):
            self._calls = True  # the bell goes on ringing for the caller, who silences it


def _helping(helper: Helper) -> Supervisor:
    def spawn(number: int, partitions: Sequence[int]) -> Child:
        name = helper.noun.replace(" ", "-")
        return Child(name, helper.module, helper.arguments, helper.descriptors)

    supervisor = Supervisor(spawn, 1, [0], time.monotonic, helper.noun)
    supervisor.posts[0].start_after = time.monotonic() + helper.after_seconds
    return supervisor
