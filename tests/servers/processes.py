"""Processes of servers: they end with the process that started them, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pwd import struct_passwd

# A server is started through this: it asks the kernel to end it when we die, also by SIGKILL. A
# small program and no `preexec_fn`, since that runs between fork and exec, where other threads'
# locks stay locked for ever.
_ENDS_WITH_US = """
import ctypes, os, signal, sys
kernel, (parent, user, group, *command) = ctypes.CDLL(None), sys.argv[1:]
if user:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))  # which would forget the wish
kernel.prctl(1, signal.SIGKILL)
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""
# "We" are to the kernel the thread that forked. So one that lives as long as this process forks
# all servers; else those that a test's thread starts would end with that thread.
_forks = ThreadPoolExecutor(1, "forks-servers")
_forks.submit(int).result()  # it is there before the first test: no test leaves it behind


def start(
    program: str | Path,
    *words: object,
    log: Path,
    cwd: Path | None = None,
    user: struct_passwd | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """What it says is added to `log`; `user` is somebody else than we are."""
    who = (user.pw_uid, user.pw_gid) if user else ("", "")
    guard = [sys.executable, "-ISc", _ENDS_WITH_US, os.getpid(), *who]
    command = [str(word) for word in (*guard, program, *words)]
    return _forks.submit(_fork, command, log, cwd, env).result()


def _fork(
    command: Sequence[str], log: Path, cwd: Path | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    with log.open("ab") as told:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            start_new_session=True,  # Ctrl-C is for the tests, which then stop their servers
        )
