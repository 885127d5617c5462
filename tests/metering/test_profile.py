"""Goal: `holdfast profile` finds a running worker by itself and draws what it does, down to the
user's handler; whoever may not look, or names nothing that runs, is told so in one line."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import AccessDenied, Missing, TryAgain
from holdfast.runtime.metering import profiling
from holdfast.runtime.untyped import UntypedLive
from tests.cli.commands import holdfast, holdfast_here, refused
from tests.metering.running import drive, running
from tests.runtime.semantics import until


@contextmanager
def under_load(live: UntypedLive) -> Iterator[None]:
    stopping = threading.Event()

    def load() -> None:
        while not stopping.is_set():
            drive(live, 4_000)

    driver = threading.Thread(target=load)
    driver.start()
    try:
        yield
    finally:
        stopping.set()
        driver.join()


def test_the_picture_names_the_handler(tmp_path: Path) -> None:
    with running(tmp_path, "--snapshots", "none") as (_, live), under_load(live):
        until(lambda: b'process="worker-1"' in live.metrics(), "both workers tell of themselves")
        words = ["profile", "--data", "data", "--seconds", 1]

        def drawn() -> bool:
            done = holdfast(*words, "--worker", 1, cwd=tmp_path, code=None)
            if done.returncode == 3:  # try again: it stood still for too long
                return False
            assert done.stdout.startswith("flame.svg: process ")
            picture = (tmp_path / "flame.svg").read_text("utf-8")
            assert picture.startswith("<?xml")
            return "moved (program.py" in picture and "distance (program.py" in picture

        def written() -> bool:
            asked = ("--format", "speedscope", "--output", "s.json")
            done = holdfast(*words, *asked, cwd=tmp_path, code=None)
            if done.returncode == 3:
                return False
            frames = json.loads((tmp_path / "s.json").read_text("utf-8"))["shared"]["frames"]
            return "distance" in {frame["name"] for frame in frames}

        # A second in which a busy machine has no time for the worker, or none for its producer,
        # shows one that waits.
        until(drawn, "a second in which the worker folds")
        until(written, "a second in which the worker folds")
        none = holdfast_here(*words, "--worker", 2, cwd=tmp_path, code=None)
        refused(none, "no process 'worker-2'", "supervisor, worker-0, worker-1")
        nowhere = holdfast_here(*words, "--output", "no/where.svg", cwd=tmp_path, code=None)
        refused(nowhere, "there is no folder no")
    rests = holdfast_here(*words, cwd=tmp_path, code=2)
    refused(rests, "nothing runs here now", "holdfast run")


def test_what_is_missing_or_not_permitted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "py-spy"
    if os.getuid() == 0:
        rights = "setpriv --reuid 65534 --clear-groups"  # the real one, as a stranger
    else:
        rights = "exec"
    real = profiling._program()
    program.write_text(f'#!/bin/sh\n{rights} {real} "$@"\n')
    program.chmod(0o755)
    stranger = os.getpid() if os.getuid() == 0 else 1
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(AccessDenied, match="ptrace_scope=0; in a container"):
        profiling.record(stranger, 1, 100, tmp_path / "x.svg", "svg")
    program.write_text(
        "#!/bin/sh\necho 'the process stood still' >&2\necho '6: main' >&2\nexit 101\n"
    )
    with pytest.raises(TryAgain, match=r"profiled: the process stood still$"):
        profiling.record(os.getpid(), 1, 100, tmp_path / "x.svg", "svg")
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"holdfast\[profile\]"):
        profiling.record(os.getpid(), 1, 100, tmp_path / "x.svg", "svg")
