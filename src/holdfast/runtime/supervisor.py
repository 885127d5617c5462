"""The supervisor: keeps one worker running for every share of the partitions.

A loop object like the worker: what starts a process and what tells the time is handed in. A worker
that ended is started again at once, one that is silent is ended first; its successor claims the
partitions under a new epoch, so a worker that was only thought dead is refused at its next commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.errors import GiveUp
from holdfast.runtime.logs import ids

HEARTBEAT_SECONDS = 0.2
SILENT_SECONDS = 1.0  # five missed heartbeats; with a restart of 0.5 s a takeover stays under 2 s
STARTING_SECONDS = 30.0  # until the first heartbeat: the user's imports may be slow
BACKOFF_SECONDS = (0.0, 0.0, 0.1, 0.2, 0.5, 1.0)
STEADY_SECONDS = 10.0  # a worker that ran this long starts again without backoff
EXIT_FENCED = 4  # another worker has its partitions, or its supervisor is gone
EXIT_REFUSED = 5  # the worker said why on standard error; starting it again would not help

_log = logging.getLogger("holdfast.supervisor")


class WorkerProcess(Protocol):
    pid: int

    def heartbeats(self) -> int:
        """How many arrived since the last call."""

    def ended(self) -> int | None:
        """The exit code, or None while it runs."""

    def finish(self) -> None:
        """Ask it to stop after its current commit."""

    def kill(self) -> None: ...


Spawn = Callable[[int, Sequence[int]], WorkerProcess]


@dataclass
class Post:
    """One worker's place: its partitions, and the process that holds it now."""

    number: int
    partitions: list[int]
    process: WorkerProcess | None = None
    started: float = 0.0
    heard: float = 0.0
    beating: bool = False
    failures: int = 0
    starts: int = 0
    start_after: float = 0.0
    ends: list[str] = field(default_factory=list)


class Supervisor:
    def __init__(
        self,
        spawn: Spawn,
        workers: int,
        partitions: Sequence[int],
        clock: Callable[[], float],
        role: str = "worker",
    ) -> None:
        self._spawn = spawn
        self._clock = clock
        self._role = role
        self.posts = [Post(n, list(partitions[n::workers])) for n in range(workers)]
        self.posts = [post for post in self.posts if post.partitions]
        self._stopping = False

    def name_of(self, post: Post) -> str:
        """As logs and metrics have it: `worker-0`, `caller`, `source-reader`."""
        return f"worker-{post.number}" if self._role == "worker" else self._role.replace(" ", "-")

    def _about(self, post: Post) -> tuple[str, int]:
        return self._role, post.number

    def _ids(self, post: Post) -> dict[str, object]:
        worker = {"worker": post.number} if self._role == "worker" else {}
        return ids(subject=self.name_of(post), **worker)

    def tick(self) -> None:
        for post in self.posts:
            if post.process is None:
                if not self._stopping and self._clock() >= post.start_after:
                    self._start(post)
            else:
                self._watch(post, post.process)

    def _start(self, post: Post) -> None:
        post.process = self._spawn(post.number, post.partitions)
        post.started = post.heard = self._clock()
        post.beating = False
        post.starts += 1
        about = self._about(post)
        _log.info("%s %d started as process %d", *about, post.process.pid, extra=self._ids(post))

    def _watch(self, post: Post, process: WorkerProcess) -> None:
        now = self._clock()
        if process.heartbeats():
            post.heard, post.beating = now, True
        code = process.ended()
        if code is None:
            patience = SILENT_SECONDS if post.beating else STARTING_SECONDS
            if now - post.heard <= patience:
                return
            text = "%s %d (process %d) is silent: ending it"
            _log.warning(text, *self._about(post), process.pid, extra=self._ids(post))
            process.kill()
            code = process.ended()
        self._ended(post, code, now)

    def _ended(self, post: Post, code: int | None, now: float) -> None:
        post.process = None
        if self._stopping:
            return
        if code == EXIT_REFUSED:
            raise GiveUp(f"{self._role} {post.number} cannot run: its message is above")
        post.failures = 0 if now - post.started > STEADY_SECONDS else post.failures + 1
        pause = BACKOFF_SECONDS[min(post.failures, len(BACKOFF_SECONDS) - 1)]
        post.start_after = now + pause
        post.ends = [*post.ends[-9:], f"exit {code}"]
        text = "%s %d ended (%s): starting it again"
        _log.warning(text, *self._about(post), code, extra=self._ids(post))
        if pause == 0.0:
            self._start(post)

    def stop(self) -> None:
        """Ask every worker to finish; `tick` until `stopped`."""
        self._stopping = True
        for post in self.posts:
            if post.process is not None:
                post.process.finish()

    @property
    def stopped(self) -> bool:
        return self._stopping and all(post.process is None for post in self.posts)

    def kill(self) -> None:
        for post in self.posts:
            if post.process is not None:
                post.process.kill()
                post.process = None
