"""Our own contender as processes: a supervisor with workers, and producers, each one killable."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.program import Drone, Heartbeat, fleet
from bench.workloads import Workload
from holdfast import Live
from holdfast.engine.urls import open_engine
from holdfast.runtime.launching import Launcher

RETAIN_BYTES = 256 * 1024 * 1024  # per inbox: small enough that retention has work in a minute
# Per inbox. A commit writes every agent it changes once: of a million, the more events the better.
BACKLOG_EVENTS = 8_000_000
WARM_KEYS = 64  # agents outside of the stream, so many that every partition has one


class Workers:
    """`holdfast run` without its command line: one partition per worker."""

    def __init__(self, url: str, workers: int, pinned: bool = False) -> None:
        open_engine(url, fleet.name, create_partitions=workers).close()
        program = str(Path(__file__).parents[1] / "program.py")
        self.launcher = Launcher(program, url, workers, range(workers), pin=pinned)
        self._thread = threading.Thread(target=self.launcher.run)
        self._thread.start()
        with fleet.connect(url) as live:
            self._wait(live)

    def _wait(self, live: Live) -> None:
        """Until every worker has folded something, and has compiled what it compiles."""
        rows = [(Drone, f"warm-{n}", Heartbeat(number=n)) for n in range(WARM_KEYS)]
        live.send_many(rows, timeout=60.0)
        live.settle(timeout=300.0)

    def pids(self) -> list[int]:
        posts = self.launcher.posts()
        return [post.process.pid for post in posts if post.process is not None]

    def kill(self) -> None:
        """kill -9, all of them, and nobody starts them again."""
        self.launcher.stop()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self._thread.join()

    def stop(self) -> None:
        self.launcher.stop()
        self._thread.join()


class Counters:
    """How many events of each lane are acknowledged, in memory that outlives a killed producer."""

    def __init__(self, path: Path, lanes: int) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * lanes))
        self._file = open(path, "r+b")  # noqa: SIM115 - for as long as this object lives
        self._map = mmap.mmap(self._file.fileno(), 8 * lanes)
        self.lanes = lanes

    def __getitem__(self, lane: int) -> int:
        value: int = struct.unpack_from("<q", self._map, 8 * lane)[0]
        return value

    def __setitem__(self, lane: int, count: int) -> None:
        struct.pack_into("<q", self._map, 8 * lane, count)

    def all(self) -> tuple[int, ...]:
        return tuple(self[lane] for lane in range(self.lanes))


class Producers:
    """Producer processes. They connect, say so, and begin when told, all at one moment."""

    def __init__(self, spec: Path, producers: int) -> None:
        words = [sys.executable, "-m", "bench.ours.producing", str(spec)]
        self._processes = [
            subprocess.Popen([*words, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for n in range(producers)
        ]
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("a producer did not come up")

    def begin(self) -> float:
        now = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{now!r}\n".encode())
            process.stdin.flush()
        return now

    def over(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def join(self) -> None:
        for process in self._processes:
            if process.wait():
                raise RuntimeError(f"a producer ended with {process.returncode}")

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@contextmanager
def told(workload: Workload, counters: Counters, every: float = 5.0) -> Iterator[None]:
    """A line of progress now and then while this is open."""
    over = threading.Event()
    begin = time.monotonic()

    def tell() -> None:
        while not over.wait(every):
            sent = sum(counters.all())
            seconds = time.monotonic() - begin
            print(
                f"    {workload.name}: {seconds:3.0f} s, {sent / 1e6:.2f} M events sent",
                file=sys.stderr,
                flush=True,
            )

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
