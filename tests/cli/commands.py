"""Running the real `holdfast` script, and what the tests want to know about its processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TextIO

import pytest

from holdfast import Live
from holdfast.cli.main import main
from holdfast.runtime.loading import load_fleet

SCRIPT = Path(sys.executable).parent / "holdfast"
PATIENCE_SECONDS = 120.0  # a deadline for machines that do much else


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would point a command at somebody's data, and without a gateway."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    return {**kept, "HOLDFAST_PORT": "none", **(more or {})}


def holdfast(
    *words: object,
    cwd: Path,
    given: str = "",
    code: int | None = 0,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; its exit code has to be `code` (None: any)."""
    done = subprocess.run(
        [SCRIPT, *map(str, words)],
        cwd=cwd,
        env=environment(variables),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert code is None or done.returncode == code, f"{words}: {done}"
    return done


def holdfast_here(
    *words: object,
    cwd: Path,
    given: str = "",
    code: int | None = 0,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The same within this process, where a new one would only cost time: not for a command that
    goes on until a signal stops it."""
    with ExitStack() as opened:
        streams = [opened.enter_context(_stream(text)) for text in (given, "", "")]
        opened.enter_context(_as_there(cwd, variables))
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["holdfast", *map(str, words)])
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = map(_said, streams[1:])
    done = subprocess.CompletedProcess(list(map(str, words)), int(str(ended.value.code)), out, err)
    assert code is None or done.returncode == code, done
    return done


@contextmanager
def folding(program: str, *, cwd: Path, data: str = "data", partitions: int = 1) -> Iterator[Live]:
    """What `holdfast run` does with data, within this process: for commands beside a fleet, where
    its processes are not what a test is about."""
    with _as_there(cwd):
        fleet = load_fleet(program)
    with fleet.open(f"sqlite:{cwd / data}", partitions=partitions) as live:
        yield live


def fold(program: str, *, cwd: Path, data: str = "data", partitions: int = 1) -> None:
    """Fold what was sent, until nothing waits."""
    with folding(program, cwd=cwd, data=data, partitions=partitions) as live:
        live.settle()


@contextmanager
def _as_there(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[None]:
    """As a process that is started in `folder` sees it. Programs that are loaded there are
    forgotten: the next one may have another text under the same name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        ours, modules = dict(os.environ), set(sys.modules)
        os.environ.clear()
        os.environ.update(environment(variables))
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(ours)
            for name in set(sys.modules) - modules:
                file = getattr(sys.modules[name], "__file__", None)
                if file and Path(file).resolve().is_relative_to(folder.resolve()):
                    del sys.modules[name]


@contextmanager
def _stream(given: str) -> Iterator[TextIO]:
    """A file, as some commands ask for its descriptor."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as file:
        file.write(given)
        file.seek(0)
        yield file


def _said(stream: TextIO) -> str:
    stream.seek(0)
    return stream.read()


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """One line on standard error that says what is wrong, nothing else, no traceback."""
    assert done.returncode in (2, 3), done
    assert done.stdout == "", done
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("holdfast: "), done.stderr
    for part in parts:
        assert part in lines[0], f"{part!r} is not in {lines[0]!r}"


def event_line(key: str, event: str, **data: object) -> str:
    """One line of a file for `send --file`, for a Drone."""
    return json.dumps({"agent": "Drone", "key": key, "type": event, "data": data}) + "\n"


def json_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def eventually(what: str, look: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> float:
    """Wait until `look()`; how long that took."""
    started = time.monotonic()
    while not look():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return time.monotonic() - started


def copied(place: Path, to: Path) -> Path:
    """A copy of a folder with data, without the pipes that owners leave behind."""
    return Path(shutil.copytree(place, to, ignore=shutil.ignore_patterns("wake")))


class Running:
    """`holdfast run …` in a process of its own, from its start line to its end."""

    def __init__(self, *words: object, cwd: Path) -> None:
        self.errors = cwd / f"run-{time.monotonic_ns()}.err"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [SCRIPT, "run", *map(str, words)],
                cwd=cwd,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.start_line = self.process.stdout.readline()
        assert " runs on " in self.start_line, self.errors.read_text()

    def workers(self) -> list[int]:
        """Those that are programs of their own: just forked, one still has all that we have."""
        own = _words(self.process.pid)
        return [pid for pid in children_of(self.process.pid) if _words(pid) not in (own, b"")]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def rest_of_output(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields


def alive(pid: int) -> bool:
    return _stat(pid) is not None


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has gone


def children_of(pid: int) -> list[int]:
    everybody = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    stats = {each: _stat(each) for each in everybody}
    return sorted(each for each, stat in stats.items() if stat is not None and int(stat[1]) == pid)


def wakeups(pid: int) -> int:
    """How often its threads have waited for something, which is how often they were woken."""
    counted = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has ended
            told = (thread / "status").read_text()
            counted += int(told.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return counted


def cpu_seconds(pid: int) -> float:
    stat = _stat(pid)
    assert stat is not None, f"process {pid} is gone"
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
