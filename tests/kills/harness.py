"""Real processes around one data directory, and the means to end, stop and find them.

All output goes to files beside the data. A failing test keeps the folder and says where it is.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.model.keys import Layout

ROOT = Path(__file__).parents[2]
SWARM = "tests.kills.swarm:fleet"
# For whatever must happen in the end. A machine with much else to do takes seconds to start Python,
# and a test that passes does not wait for it.
PATIENCE_SECONDS = 120.0
ENDS_EXPECTED = ("-9", "4")  # killed; fenced by a successor


def wait_until(look: Callable[[], object], seconds: float, what: str) -> float:
    """Poll until `look` says yes; how long that took. A clear failure when it does not."""
    start = time.monotonic()
    while not look():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.01)
    return time.monotonic() - start


def eventually(look: Callable[[], object], what: str) -> float:
    return wait_until(look, PATIENCE_SECONDS, what)


def key_in(partition: int, of: int) -> str:
    """A key that lives in a partition."""
    layout = Layout.even(of)
    return next(k for i in range(1000) if layout.partition_of(k := f"k-{i}") == partition)


def process_state(pid: int) -> str:
    """The letter the kernel gives: R, S, D, T (stopped), Z (ended, not waited for), or nothing."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text[text.rindex(")") + 2]


def gone(pids: Sequence[int]) -> bool:
    """None of them runs; who should wait for an orphan is not our business."""
    return all(process_state(pid) in ("", "Z") for pid in pids)


def children(pid: int, program: str = "") -> list[int]:
    """Living processes that `pid` has started, and whose command line has this word."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            started = task.read_text().split()
        except OSError:
            continue  # the thread has ended
        for child in started:
            try:
                words = Path(f"/proc/{child}/cmdline").read_text(errors="replace")
            except OSError:
                continue
            if program in words and process_state(int(child)) not in ("", "Z"):
                found.append(int(child))
    return sorted(found)


def strike(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """A signal to somebody's child, which may have ended by itself a moment ago."""
    with suppress(ProcessLookupError):
        os.kill(pid, how)


class Site:
    """One data directory and the processes that work on it."""

    def __init__(self, folder: Path, settings: str, fleet: str = SWARM) -> None:
        self.folder = folder
        self.fleet = fleet
        self.url = f"sqlite:{folder / 'data'}?{settings}"
        self.environment: dict[str, str] = {}
        self._running: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._stopped: list[int] = []

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        environment: dict[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        everything = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            **self.environment,
            **(environment or {}),
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=everything,
                cwd=ROOT,
                pass_fds=pass_fds,
            )
        self._running.append(process)
        return process

    def keeper(self, workers: int, memory: int = 0) -> subprocess.Popen[bytes]:
        arguments = ["tests.kills.keeper", self.fleet, self.url, str(workers), str(memory)]
        return self.start("keeper", arguments)

    def laid_out(self) -> None:
        """Until a keeper has made the directory."""
        eventually((self.folder / "data" / "fleet.db").exists, "the directory is laid out")

    def worker(self, partitions: str, fault: str = "") -> subprocess.Popen[bytes]:
        """A worker without a supervisor: nobody ends it, and this process hears its heart."""
        ours, theirs = os.pipe()
        try:
            return self.start(
                "worker",
                ["holdfast.runtime.process", self.fleet, self.url, "0", partitions, str(theirs)],
                {"HOLDFAST_FAULT": fault},
                pass_fds=[theirs],
            )
        finally:
            os.close(theirs)
            self._pipes.append(ours)

    def stop(self, pid: int) -> None:
        """SIGSTOP to somebody's child. Its parent may die, and then nobody else would end it."""
        self._stopped.append(pid)
        strike(pid, signal.SIGSTOP)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def surprises(self) -> list[str]:
        """Lines of any log that nobody's death explains: tracebacks, and those that gave up."""
        found = []
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                end = re.search(r"(?:worker|caller) \d+ ended \((.*)\)", line)
                if "Traceback" in line or (end and end[1] not in ENDS_EXPECTED):
                    found.append(f"{path.name}: {line}")
        return found

    def close(self) -> None:
        """End what is left, workers of a supervisor first asked by its SIGTERM."""
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + PATIENCE_SECONDS
        for process in self._running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._stopped:
            if process_state(pid) == "T":
                strike(pid)
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes.clear()


def ended(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, and wait until the kernel is done with it."""
    process.kill()
    process.wait()


@contextmanager
def site(settings: str, fleet: str = SWARM) -> Iterator[Site]:
    """A fresh folder; it goes with a test that passes and stays with one that fails."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-kills-"))
    made = Site(folder, settings, fleet)
    try:
        yield made
    except BaseException:
        made.close()
        print(f"the data and the logs of all processes are kept in {folder}")
        raise
    made.close()
    shutil.rmtree(folder)
