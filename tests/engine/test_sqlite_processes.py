"""Goal: processes share one directory, and none loses, doubles, starves or blocks another."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.port import Limits
from holdfast.engine.sqlite import files, locks
from holdfast.engine.sqlite import state as state_module
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.locks import HolderLock
from holdfast.engine.sqlite.segment import list_segments
from holdfast.engine.urls import open_engine
from holdfast.errors import Busy, InUse
from holdfast.testing.conformance.workbench import (
    FLEET,
    Owner,
    append,
    inbox,
    numbered,
    parcel,
    record,
    soon,
    tags_of,
)

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    return tmp_path / "data"


@pytest.fixture
def engine(root: Path) -> Iterator[SqliteEngine]:
    made = SqliteEngine(root)
    yield made
    made.close()


def appenders(url: str, names: list[str], count: int) -> dict[str, int]:
    """Producers that begin together; how many events each has appended."""
    script = str(Path(__file__).with_name("appender.py"))
    processes = {
        name: subprocess.Popen(
            [sys.executable, script, url, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        for name in names
    }
    for name, process in processes.items():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", name
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {}
    for name, process in processes.items():
        printed, _ = process.communicate(timeout=280)
        assert process.returncode == 0, f"{name} failed"
        found[name] = int(printed)
    return found


def check_all_there_once(engine: SqliteEngine, sent: dict[str, int]) -> None:
    found = inbox(engine)
    assert len(found) == sum(sent.values()) + len(sent)
    for name, count in sent.items():
        mine = [tag for tag in found if tag.startswith(f"{name}.")]
        assert mine == [f"{name}.{i}" for i in range(count + 1)], f"{name}: lost, doubled or moved"


def test_who_waits_to_append_comes_next(root: Path, engine: SqliteEngine) -> None:
    """And not whoever has just appended, however quick it is."""
    quick, patient = engine._inbox(0)._turnstile, SqliteEngine(root)
    (queue,) = root.rglob("append.queue")
    quick.acquire(1.0)
    waiting = threading.Thread(target=append, args=(patient, parcel(["waited"])))
    waiting.start()
    soon(lambda: locks._holder_of(queue) is not None)
    quick.release()
    append(engine, parcel(["again"]))
    waiting.join()
    assert inbox(engine) == ["waited", "again"]
    patient.close()


def test_segments_rotate_under_two_producers(root: Path, engine: SqliteEngine) -> None:
    sent = appenders(f"sqlite:{root}?segment_bytes=100000", ["one", "two"], 60)
    assert sent == {"one": 60, "two": 60}
    names = list_segments(root / "p000/inbox")
    assert len(names) > 10, "too few segments to have rotated under both"
    assert [name.number for name in names] == list(range(1, len(names) + 1))
    check_all_there_once(engine, sent)
    assert not list((root / "p000/inbox").glob("*.new*"))


def test_a_leftover_of_a_killed_rotation_is_in_nobodys_way(root: Path) -> None:
    folder = root / "p000/inbox"
    engine = open_engine(f"sqlite:{root}?segment_bytes=1", FLEET)
    assert isinstance(engine, SqliteEngine)
    append(engine, parcel(["a"]))
    for ending in ("", "-wal", "-shm"):
        (folder / f"00000003-00000000000000000002.seg.new{ending}").write_bytes(b"half a file")
    append(engine, parcel(["b"]))
    append(engine, parcel(["c"]))
    assert inbox(engine) == ["a", "b", "c"]
    assert [name.first for name in list_segments(folder)] == [0, 1, 2, 3]
    engine.close()


def test_the_newest_segment_is_found_by_whoever_had_the_one_before(root: Path) -> None:
    one = SqliteEngine(root, Limits(segment_bytes=1))
    two = SqliteEngine(root)
    for i in range(5):
        assert append(two, parcel([f"two {i}"])).next == 2 * i + 1
        assert append(one, parcel([f"one {i}"])).next == 2 * i + 2
    assert inbox(two) == [f"{who} {i}" for i in range(5) for who in ("two", "one")]
    one.close()
    two.close()


def test_a_reader_blocks_no_writer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read transaction stays open all the time; appends, commits and upkeep do not wait: who did
    would wait longer than a test may take."""
    for module in (files, state_module):
        monkeypatch.setattr(module, "BUSY_MILLISECONDS", 3_600_000)
    engine = SqliteEngine(root)
    owner = Owner.of(engine)
    append(engine, parcel(["first"]))
    owner.commit([record("d-1", "old")], events=1)
    reader = SqliteEngine(root)
    state = reader.view(0)._connection
    segment = reader._inbox(0)._latest()[0].connection
    for connection, table in ((state, "head"), (segment, "frames")):
        connection.execute("BEGIN")
        connection.execute(f"SELECT * FROM {table}").fetchall()
    for i in range(20):
        append(engine, parcel([f"{i}"]))
        owner.commit([record("d-1", f"new {i}", i + 2)], events=1)
        engine.maintain()
    engine._inbox(0).rotate()
    engine.maintain()
    assert segment.execute("SELECT count(*) FROM frames").get == 1, "the reader sees its moment"
    for connection in (state, segment):
        connection.execute("COMMIT")
    assert len(inbox(reader)) == 21
    reader.close()
    engine.close()


def test_readers_of_other_handles_see_only_what_is_committed(
    root: Path, engine: SqliteEngine
) -> None:
    """While one handle appends and rotates, another reads: always a gapless beginning."""
    done = threading.Event()

    def produce() -> None:
        small = SqliteEngine(root, Limits(segment_bytes=150_000))
        for i in range(60):
            append(small, numbered("gcs", [2 * i, 2 * i + 1]))
        small.close()
        done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    seen = 0
    while not (done.is_set() and seen == 120):
        finished = done.is_set()
        following = engine.view(0).inbox_next()
        tags: list[str] = []
        position = 0
        while batch := engine.read(0, position, 50):
            tags += [tag for stored in batch for tag in tags_of(stored)]
            position = batch[-1].first + batch[-1].count
        assert tags == [f"gcs.{i}" for i in range(len(tags))]
        assert len(tags) >= following >= seen
        assert len(tags) % 2 == 0, "half a parcel"
        seen = len(tags)
        assert not finished or seen == 120
    producer.join()


def test_who_waits_too_long_is_told_who_holds_the_lock(root: Path, engine: SqliteEngine) -> None:
    append(engine, parcel(["a"]))
    holder = SqliteEngine(root)
    turnstile = holder._inbox(0)._turnstile
    turnstile.acquire(1.0)
    with pytest.raises(Busy, match=f"process {os.getpid()} has held"):
        engine.append(0, [parcel(["b"])], 0.2)
    turnstile.release()
    append(engine, parcel(["c"]))
    assert inbox(engine) == ["a", "c"]
    holder.close()


def test_a_second_holder_is_refused_and_the_next_one_is_not(root: Path) -> None:
    first, second = SqliteEngine(root), SqliteEngine(root)
    first.holder.acquire()
    with pytest.raises(InUse, match=f"{root}: process {os.getpid()} runs this fleet"):
        second.holder.acquire()
    assert second.holder.holder() == os.getpid()
    first.close()
    second.holder.acquire()
    second.close()


HOLDER = """
import os, signal, sys
from pathlib import Path
from holdfast.engine.sqlite.locks import HolderLock
HolderLock(Path(sys.argv[1])).acquire()
child = os.fork()  # between fork and exec a child has all that its parent has
if child == 0:
    sys.stdin.read()
else:
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def orphan(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A holder that was killed while it started a process; that one ends with its input."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root / "holder.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    ) as process:
        process.wait()
        yield process


def test_what_a_dead_holder_left_behind_is_waited_for(
    root: Path, orphan: subprocess.Popen[str]
) -> None:
    assert orphan.stdin is not None
    ending = threading.Timer(0.5, orphan.stdin.close)
    ending.start()
    lock = HolderLock(root / "holder.lock")
    lock.acquire()
    assert lock.holder() == os.getpid()
    lock.release()
    ending.join()


def test_what_a_dead_holder_left_behind_for_good_is_named(
    root: Path, orphan: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_LEFTOVER_SECONDS", 0.2)
    assert orphan.stdout is not None
    child = orphan.stdout.readline().strip()
    with pytest.raises(InUse, match=f"process {orphan.pid} ran .* held by process {child}, which"):
        HolderLock(root / "holder.lock").acquire()


def test_asking_who_holds_refuses_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes the lock for a moment; whoever starts in that moment must not be refused."""
    # Whoever looks may lose the CPU while it has the lock, as often as it asks here.
    monkeypatch.setattr(locks, "_LOOK_SECONDS", 20.0)
    engine, asker = SqliteEngine(root), SqliteEngine(root)
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            asker.holder.holder()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(200):
            engine.holder.acquire()
            engine.holder.release()
    finally:
        stop.set()
        thread.join()
    engine.close()
    asker.close()


def test_an_append_wakes_the_owner_in_another_process(root: Path, engine: SqliteEngine) -> None:
    Owner.of(engine)
    waited: list[float] = []

    def wait() -> None:
        start = time.monotonic()
        while not engine.read(0, 0, 1) and time.monotonic() - start < 200:
            engine.wait(200.0)
        waited.append(time.monotonic() - start)

    thread = threading.Thread(target=wait)
    thread.start()
    appenders(f"sqlite:{root}", ["one"], 1)
    thread.join()
    assert waited[0] < 190
    soon(lambda: len(inbox(engine)) == 2)
