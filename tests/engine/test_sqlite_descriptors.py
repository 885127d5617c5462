"""Goal: every descriptor is given back when its owner is closed or could not be opened, at once:
not when the garbage collector comes by, which in a large process is seldom."""

import gc
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.engine.bell import Bell
from holdfast.engine.port import Limits
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import HoldfastError
from holdfast.testing.conformance.workbench import FLEET, Owner, append, inbox, parcel
from tests.engine import specimen

DAMAGED = ["fleet.db", "p000/state.db-wal", "p000/inbox/00000003-00000000000000000208.seg-wal"]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the folder itself
    return sorted(found)


def used(root: Path) -> SqliteEngine:
    """An engine that has opened all that there is to open."""
    engine = SqliteEngine(root, Limits(segment_bytes=1))
    try:
        append(engine, parcel(["a"]))
        append(engine, parcel(["b"]))
        Owner.of(engine).commit(events=1)
        assert inbox(engine) == ["a", "b"]
        engine.capture().close()
        engine.maintain()
    except BaseException:
        engine.close()
        raise
    return engine


def test_a_closed_engine_has_none(tmp_path: Path) -> None:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    before = descriptors()
    engine = used(tmp_path / "data")
    assert len(descriptors()) > len(before)
    engine.close()
    assert descriptors() == before
    engine.wake()  # a signal may come late


@pytest.mark.parametrize("name", DAMAGED)
def test_who_meets_damage_again_and_again_has_no_more(tmp_path: Path, name: str) -> None:
    specimen.make(tmp_path, settled=False)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = descriptors()
    answers: list[object] = []  # errors that are kept, and with them their frames
    for _ in range(3):
        answers += specimen.everything(tmp_path).values()
        answers += specimen.repeats(tmp_path).values()
        assert any(isinstance(each, HoldfastError) for each in answers)
        assert descriptors() == before


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """No descriptor past the lowest free ones, so many of them."""
    spare = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(more)]
    end = max(spare, default=2) + 1
    for each in spare:
        os.close(each)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (end, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refusal(root: Path) -> str | None:
    try:
        used(root).close()
    except HoldfastError as error:
        return str(error)
    return None


def test_who_runs_out_of_them_is_told_and_loses_none(tmp_path: Path) -> None:
    """However many there are, whatever is opened last: either it works or all is closed again."""
    worked = []
    for more in range(40):
        root = tmp_path / f"data-{more}"
        SqliteEngine.create(root, FLEET, 1)
        before = descriptors()
        with at_most(more):
            told = refusal(root)
        if told is None:
            worked.append(more)
        else:
            assert "`ulimit -n` tells how many" in told
        assert descriptors() == before, more
    assert worked
    assert worked == list(range(worked[0], 40))


def test_a_bell_that_is_closed_is_silent() -> None:
    bell = Bell()
    number = bell.descriptor
    bell.close()
    bell.close()
    reader, writer = os.pipe()
    try:
        os.dup2(reader, number)  # somebody else has it now
        bell.ring()
    finally:
        for each in {reader, writer, number}:
            os.close(each)


def test_a_bell_is_rung_by_a_handler_that_interrupts_whoever_rings_it() -> None:
    bell, done = Bell(), threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: bell.ring())
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        for _ in range(20_000):
            bell.ring()
        done.set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert done.is_set()
    assert os.eventfd_read(bell.descriptor) >= 20_000
    bell.close()
