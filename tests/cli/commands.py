"""Running the real `holdfast` script, and what the tests want to know about its processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import pytest

from holdfast.cli.main import main

SCRIPT = Path(sys.executable).parent / "holdfast"
PATIENCE_SECONDS = 120.0  # for what a machine that does little else does in a few


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
    *words: object, cwd: Path, code: int = 0, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The same within this process, where a new one would only cost time."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(cwd)
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(sys, "argv", ["holdfast", *map(str, words)])
        patch.setattr(os, "environ", environment(variables))
        with pytest.raises(SystemExit) as ended:
            main()
    done = subprocess.CompletedProcess(
        list(map(str, words)), int(str(ended.value.code)), out.getvalue(), err.getvalue()
    )
    assert done.returncode == code, done
    return done


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
