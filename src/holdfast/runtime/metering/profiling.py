"""Profiles of running processes, by py-spy: it reads the stacks of another process from outside."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from holdfast.engine.port import Engine
from holdfast.errors import AccessDenied, Missing, TryAgain, UsageError
from holdfast.runtime.metering.board import board_of, bulletins

FORMATS = {"svg": "flamegraph", "speedscope": "speedscope", "raw": "raw"}
ENDINGS = {"svg": ".svg", "speedscope": ".speedscope.json", "raw": ".txt"}
GRACE_SECONDS = 60.0  # beyond what was asked for: it reads symbols first and draws afterwards


def pid_of(engine: Engine, process: str) -> int:
    """Of a live process of this machine, by the name that metrics and logs have for it."""
    board = board_of(engine)
    running = {each.process: each.pid for each in bulletins(board)} if board is not None else {}
    if process in running:
        return running[process]
    if not running:
        raise UsageError(
            "nothing runs here now: start it with `holdfast run fleet.py`, or name the data of one "
            "that runs with --engine"
        )
    raise UsageError(f"no process {process!r} runs here: there is {', '.join(sorted(running))}")


def record(pid: int, seconds: int, rate: int, output: Path, kind: str) -> None:
    """Look at a process for so long, and write what was seen."""
    if not output.parent.is_dir():
        raise UsageError(f"{output}: there is no folder {output.parent}: make it first")
    command = [
        *(_program(), "record", "--pid", str(pid), "--duration", str(seconds)),
        *("--rate", str(rate), "--format", FORMATS[kind], "--output", str(output)),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TryAgain(f"py-spy was not done after {seconds + GRACE_SECONDS:g} s") from None
    if done.returncode == 0 and output.exists():
        return
    text = done.stderr.strip()
    if "ermission" in text or "not permitted" in text:
        raise AccessDenied(
            f"no right to look into process {pid}: run this as root or as the same user with "
            "kernel.yama.ptrace_scope=0; in a container allow CAP_SYS_PTRACE"
        )
    first = (text.splitlines() or [f"exit {done.returncode}"])[0]  # a stack may follow
    raise TryAgain(f"process {pid} could not be profiled: {first}")


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise Missing("py-spy is not here: pip install 'holdfast[profile]'")
    return found
