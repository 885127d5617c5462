"""A test that leaves something behind fails by name: a process, a thread, a descriptor (so a port
or a file that stays open), or a temporary file.

A pytest plugin. What a fixture of a module, a class or the run has made may stay until that fixture
ends; while one of a module or a class lives, all but files is judged at its end, since those who
share a fleet make it open files, and start processes anew, as they go. Whatever ends by itself is
waited for.

Processes are found by a variable that all children inherit, so those that were left to init are
found too. Not seen: descriptors of other processes (they go with the process), and threads that
are not Python's.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import obstore
import pytest
import uvloop
from obstore.store import MemoryStore

from tests.run.speed import patient

MARK = "GUARDED_BY"  # no name that tests leave out, as all that begin with HOLDFAST_
PATIENCE_SECONDS = patient(10.0)
EXEC_SECONDS = 1.0  # in the middle of an exec a process has no variables yet
KERNEL = (0, 2)  # the parents of its threads, which never have any
SHORT = ("function",)  # the scopes of fixtures that end with their test
NARROW = ("class", "module", "package")

Kind = dict[object, str]  # what identifies it, and how it is told


def _processes(known: dict[int, bool]) -> Kind:
    """Those that were started by this process, or by what it started. `known`: others, by id."""
    found: Kind = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or (pid := int(name)) == os.getpid():
            continue
        if pid not in known:
            known[pid] = _is_ours(pid)
        if known[pid] and (words := _words(pid)) is not None:
            found[pid] = f"process {pid}: {words}"
    for pid in known.keys() - {int(name) for name in os.listdir("/proc") if name.isdigit()}:
        del known[pid]
    return found


def _is_ours(pid: int) -> bool:
    mark = f"{MARK}={os.getpid()}".encode()
    deadline = time.monotonic() + EXEC_SECONDS
    try:
        while True:
            state, parent = _stat(pid)[:2]
            if int(parent) == os.getpid():
                return True
            variables = Path(f"/proc/{pid}/environ").read_bytes()
            none = state == "Z" or int(parent) in KERNEL
            if variables or none or time.monotonic() > deadline:
                return mark in variables.split(b"\0")
            time.sleep(0.0005)
    except OSError:  # it has ended, or is somebody else's
        return False


def _stat(pid: int) -> list[str]:
    """State, parent, …: what stands behind the name, which may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _words(pid: int) -> str | None:
    """The command, cut short; None for a process that has ended and only waits to be collected
    by a parent that is not ours."""
    try:
        state, parent = _stat(pid)[:2]
        words = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return None
    if state == "Z":
        return "a child that nobody has waited for" if int(parent) == os.getpid() else None
    return words.strip()[:200]


def _threads() -> Kind:
    return {each: f"thread {each.name!r}" for each in threading.enumerate()}


def _descriptors() -> Kind:
    found: Kind = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that lists
            continue
        if "/site-packages/" not in target:  # fonts, for example, stay open for the next plot
            found[int(name), target] = f"descriptor {name}: {target}{_address(target)}"
    return found


def _address(target: str) -> str:
    """Of a socket: where it listens, or is connected to."""
    if not target.startswith("socket:["):
        return ""
    inode = target[len("socket:[") : -1]
    for line in Path("/proc/self/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[9] == inode:
            own, peer = (int(each.rpartition(":")[2], 16) for each in fields[1:3])
            return f" (port {own}, {f'connected to {peer}' if peer else 'listening'})"
    return ""


def _files() -> Kind:
    folder = tempfile.gettempdir()
    names = (name for name in os.listdir(folder) if not name.startswith("pytest-of-"))
    return {name: f"temporary file {name}" for name in names}


def _what_libraries_keep() -> None:
    """They make it once per process, at their first use, and never give it back."""
    resource_tracker.ensure_running()
    uvloop.new_event_loop().close()  # a pipe that all loops use for signals
    obstore.put(MemoryStore(), "x", b"")  # threads of its own, that wait for sockets


class Guard:
    def __init__(self) -> None:
        os.environ[MARK] = str(os.getpid())
        _what_libraries_keep()
        self._foreign: dict[int, bool] = {}
        self._known: set[object] = set()
        self._wide: dict[object, set[object]] = {}  # by fixture: what it made
        self._narrow: set[object] = set()  # fixtures of a class or a module that live now
        self._known = set(self._look())

    def _look(self) -> Kind:
        """All that there is, but what is not judged now."""
        return _files() if self._narrow else self._everything()

    def begin(self) -> set[object]:
        return set(self._everything())

    def _everything(self) -> Kind:
        return {**_processes(self._foreign), **_files(), **_threads(), **_descriptors()}

    def made(self, fixture: object, narrow: bool, before: set[object]) -> None:
        self._wide[fixture] = set(self._everything()) - before
        if narrow:
            self._narrow.add(fixture)

    def ended(self, fixture: object) -> None:
        self._wide.pop(fixture, None)
        self._narrow.discard(fixture)

    def leftovers(self) -> list[str]:
        """What is there that was not, and that no living fixture has made; told once."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pause = 0.001
        while left := self._new():
            if time.monotonic() > deadline:
                self._known |= left.keys()
                return sorted(left.values())
            gc.collect()  # a descriptor that only the collector closes is told by other tests
            time.sleep(pause)
            pause = min(0.1, pause * 2)
        return []

    def _new(self) -> Kind:
        allowed = self._known.union(*self._wide.values())
        return {name: told for name, told in self._look().items() if name not in allowed}


_guard: Guard | None = None


def pytest_collection_finish() -> None:
    """What modules make as they are imported is there before the first test."""
    global _guard  # noqa: PLW0603
    _guard = Guard()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    if _guard is None or fixturedef.scope in SHORT:
        return (yield)
    before = _guard.begin()
    try:
        return (yield)
    finally:
        _guard.made(fixturedef, fixturedef.scope in NARROW, before)


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[object]) -> None:
    if _guard is not None:
        _guard.ended(fixturedef)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Outermost: all fixtures that end with this test have ended."""
    result = yield  # what it raises says more than what it may have left
    if _guard is not None and (left := _guard.leftovers()):
        pytest.fail(f"{item.nodeid} leaves behind:\n  " + "\n  ".join(left), pytrace=False)
    return result
