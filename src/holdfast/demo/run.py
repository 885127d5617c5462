"""One run of the demo: supervisor, workers and producer as processes, from start to a clean stop.

What is shown of it is in screen.py, what is measured in measure.py, what is left behind is judged
by audit.py.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import msgspec

from holdfast.demo.directory import FORMAT, DemoDirectory, Kill, Manifest
from holdfast.demo.fleet import Drone, Mode, fleet
from holdfast.demo.measure import Latency, Rate, Recovery, Watcher, percentile
from holdfast.demo.producer import Report
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import open_engine
from holdfast.errors import GiveUp, TimedOut, UsageError
from holdfast.runtime.launching import Launcher

FLEET = "holdfast.demo.fleet:fleet"
START_SECONDS_MAX = 30.0
SETTLE_SECONDS_MAX = 60.0
RECOVERY_SECONDS_MAX = 10.0  # what is promised are 2
SEED = 20


@dataclass(frozen=True)
class Settings:
    seconds: float
    drones: int
    workers: int
    rate: float
    kill: bool


class PartitionSample(NamedTuple):
    number: int
    owner: str
    position: int
    lag: int


@dataclass
class Sample:
    """The demo at one moment."""

    elapsed: float
    seconds: float
    events_per_second: float
    latency: tuple[float, float] | None  # p50 and p99 of the last seconds
    partitions: list[PartitionSample]
    folded: int
    messages: int
    timers: int
    actions: int
    lines: list[str] = field(default_factory=list)


class DemoRun:
    def __init__(self, directory: DemoDirectory, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.manifest = Manifest(
            holdfast_demo=FORMAT,
            seed=SEED,
            drones=settings.drones,
            rounds_per_second=settings.rate / settings.drones,
            workers=settings.workers,
        )
        self.latency = Latency()
        self.lines: list[str] = []
        self._rate = Rate()
        self._began = time.monotonic()
        self._failure: BaseException | None = None
        self._watcher: Watcher | None = None
        self._cleanup = ExitStack()

    # Starting. What was started is ended by `close`, in the opposite order.

    def start(self) -> None:
        """1 the directory, 2 workers, 3 a reader, 4 the producer."""
        self.directory.begin(self.manifest)
        url, workers = self.directory.url, self.settings.workers
        engine = open_engine(url, fleet.name, create_partitions=workers)
        self._cleanup.callback(engine.close)
        if not isinstance(engine, SqliteEngine):
            raise UsageError(f"{url}: the demo runs on a directory")
        engine.holder.acquire()
        self._views = [engine.view(n) for n in engine.catalog.layout.numbers]  # new: from 0 on
        self._cleanup.callback(SupervisorLines(self.note).remove)
        self._launcher = Launcher(FLEET, url, workers, engine.catalog.layout.numbers)
        self._supervising = threading.Thread(target=self._supervise, name="demo-supervisor")
        self._supervising.start()
        self._cleanup.callback(self._stop_workers)
        self._live = self._cleanup.enter_context(fleet.connect(url))
        self._wait_for_workers()
        self._watcher = Watcher(self._live, self.latency, self._recovered)
        self._watcher.start()
        self._cleanup.callback(self._watcher.stop)
        self._producer = self._start_producer()
        self._cleanup.callback(self._end_producer)
        self._began = time.monotonic()

    def _supervise(self) -> None:
        try:
            self._launcher.run()
        except BaseException as error:
            self._failure = error

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not all(view.owner() for view in self._views):
            self.check()
            if time.monotonic() > deadline:
                raise TimedOut(f"the workers have not started within {START_SECONDS_MAX:g} s")
            time.sleep(0.02)

    def _start_producer(self) -> subprocess.Popen[bytes]:
        arguments = [str(self.directory.path), str(self.settings.rate), str(self.settings.seconds)]
        producer = subprocess.Popen(
            [sys.executable, "-m", "holdfast.demo.producer", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C comes to us, and we end it in good order
        )
        if producer.stdout is None:
            raise GiveUp("the producer has no standard output")
        self._listening = threading.Thread(target=self._listen, args=(producer.stdout,))
        self._listening.start()
        return producer

    def _listen(self, lines: IO[bytes]) -> None:
        for line in lines:
            report = msgspec.json.decode(line, type=Report)
            self.latency.sent(report.probes, report.sent_at)
        lines.close()

    # Under way.

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def running(self) -> bool:
        return self._producer.poll() is None

    def check(self) -> None:
        """Raise what went wrong in another thread."""
        if self._failure is not None:
            raise self._failure
        if self._watcher is not None and self._watcher.failure is not None:
            raise self._watcher.failure

    def note(self, text: str) -> None:
        self.lines.append(f"{self.elapsed:5.1f} s  {text}")

    def kill_worker(self) -> bool:
        """SIGKILL for the last worker; the supervisor is not told. False if none runs just now."""
        post = self._launcher.posts()[-1]
        if post.process is None or self._watcher is None:
            return False
        pid = post.process.pid
        kill = Kill(self.elapsed, pid, post.partitions)
        recovery = Recovery(kill, self._views)
        os.kill(pid, signal.SIGKILL)
        self.manifest.kill = kill
        self.note(f"kill -9 of worker {post.number}, process {pid}, {_named(post.partitions)}")
        self._watcher.recovery = recovery
        return True

    def _recovered(self, partition: int, seconds: float, owner: str) -> None:
        self.note(f"partition {partition} goes on in {owner}, after {seconds:.2f} s")

    def sample(self) -> Sample:
        heads = [view.head() for view in self._views]
        inboxes = [view.inbox_next() for view in self._views]
        partitions = [
            PartitionSample(number, view.owner(), head.position, max(0, following - head.position))
            for number, (view, head, following) in enumerate(
                zip(self._views, heads, inboxes, strict=True)
            )
        ]
        folded = sum(head.position for head in heads)
        recent = self.latency.recent()
        return Sample(
            elapsed=min(self.elapsed, self.settings.seconds),
            seconds=self.settings.seconds,
            events_per_second=self._rate.per_second(folded),
            latency=(percentile(recent, 0.5), percentile(recent, 0.99)) if recent else None,
            partitions=partitions,
            folded=folded,
            messages=sum(n - 1 for view in self._views for n in view.sent_next().values()),
            timers=sum(head.journal_next for head in heads),
            actions=sum(head.actions_next for head in heads),
            lines=list(self.lines),
        )

    # Ending: 1 no more events, 2 all folded, 3 nobody measures, 4 the workers, 5 the manifest.

    def end_sending(self) -> None:
        if self.running:
            self._producer.terminate()
        code = self._producer.wait()
        self._listening.join()
        if code == -signal.SIGTERM:
            return  # told to end while it started, before it could hear: it has sent nothing
        if code:
            raise GiveUp(f"the producer ended with code {code}: its message is above")

    def settle(self) -> None:
        """Until everything is folded and will stay so: what is charging ends, and tells so."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        self._live.settle(timeout=SETTLE_SECONDS_MAX)
        while charging := self._charging():
            self.check()
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"{charging} drones still charge {SETTLE_SECONDS_MAX:g} s after the last event"
                )
            time.sleep(0.02)
        self._live.settle(timeout=SETTLE_SECONDS_MAX)
        self._wait_for_recovery()

    def _charging(self) -> int:
        """Drones with a timer set, or a grant under way, that leads to a message."""
        busy = (Mode.WAITING, Mode.CHARGING)
        return sum(drone.mode in busy for _, drone in self._live.states(Drone))

    def _wait_for_recovery(self) -> None:
        recovery = self._watcher.recovery if self._watcher is not None else None
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while recovery is not None and recovery.waiting and time.monotonic() < deadline:
            self.check()
            recovery.idle = True
            time.sleep(0.01)

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
        self._stop_workers()
        self.check()
        self.directory.write(self.manifest)

    def close(self) -> None:
        """Whatever is still there goes; safe at any moment, also after a failed start."""
        self._cleanup.close()

    def _stop_workers(self) -> None:
        self._launcher.stop()
        self._supervising.join()

    def _end_producer(self) -> None:
        if self.running:
            self._producer.kill()
        self._producer.wait()
        self._listening.join()


class SupervisorLines(logging.Handler):
    """What the supervisor logs becomes lines of the screen, instead of running across it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._logger = logging.getLogger("holdfast.supervisor")
        self._logger.addHandler(self)
        self._propagated, self._logger.propagate = self._logger.propagate, False

    def emit(self, record: logging.LogRecord) -> None:
        self._note(record.getMessage())

    def remove(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated


def _named(partitions: list[int]) -> str:
    numbers = ", ".join(map(str, partitions))
    return f"partition {numbers}" if len(partitions) == 1 else f"partitions {numbers}"
