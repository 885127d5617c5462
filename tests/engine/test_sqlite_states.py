"""Goal: a commit happens wholly or not at all, compaction changes nothing that can be seen, and a
worker that was replaced changes nothing any more, at whatever moment it notices.
"""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.engine.sqlite import deltas as deltas_module
from holdfast.engine.sqlite import engine as engine_module
from holdfast.engine.sqlite import state as state_module
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import wal_bytes
from holdfast.errors import Busy, Fenced
from holdfast.stepping.commit import Record
from holdfast.testing.conformance.commits import full_commit, visible
from holdfast.testing.conformance.workbench import (
    FLEET,
    Owner,
    append,
    gone,
    inbox,
    numbered,
    parcel,
    record,
    states_in,
)
from tests.engine.test_sqlite_processes import ENVIRONMENT


class Interrupted(Exception):
    pass


class Faults:
    """Fault points that do what a test has put there."""

    def __init__(self) -> None:
        self.acts: dict[str, Callable[[], None]] = {}

    def __call__(self, name: str) -> None:
        self.acts.get(name, lambda: None)()

    def interrupt(self, name: str) -> None:
        def raise_once() -> None:
            del self.acts[name]
            raise Interrupted(name)

        self.acts[name] = raise_once


@pytest.fixture
def root(tmp_path: Path) -> Path:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    return tmp_path / "data"


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def engine(root: Path, faults: Faults) -> Iterator[SqliteEngine]:
    made = SqliteEngine(root, faults=faults)
    yield made
    made.close()


# All or nothing.


@pytest.mark.parametrize("point", ["commit.before", "commit.inside"])
def test_an_interrupted_commit_leaves_nothing(
    root: Path, engine: SqliteEngine, faults: Faults, point: str
) -> None:
    owner = Owner.of(engine)
    owner.commit([record("d-1", "one")])
    before = visible(engine)
    faults.interrupt(point)
    with pytest.raises(Interrupted):
        owner.commit([record("d-1", "two", 2)], 0, **full_commit(owner))
    other = SqliteEngine(root)
    assert visible(engine) == visible(other) == before
    other.close()
    owner.commit([record("d-1", "two", 2)], 0, **full_commit(owner))
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "two", 2)


@pytest.mark.parametrize("point", ["append.before", "append.inside"])
def test_an_interrupted_append_leaves_nothing(
    engine: SqliteEngine, faults: Faults, point: str
) -> None:
    append(engine, numbered("gcs", [1]))
    faults.interrupt(point)
    with pytest.raises(Interrupted):
        engine.append(0, [numbered("gcs", [2, 3]), parcel(["x"])])
    assert inbox(engine) == ["gcs.1"]
    assert append(engine, numbered("gcs", [2, 3])).new == 2


def test_an_append_interrupted_after_it_is_durable_is_a_repeat(
    engine: SqliteEngine, faults: Faults
) -> None:
    """The port: what raised may have happened; send it again."""
    faults.interrupt("append.after")
    with pytest.raises(Interrupted):
        append(engine, numbered("gcs", [1, 2]))
    assert append(engine, numbered("gcs", [1, 2])).new == 0
    assert inbox(engine) == ["gcs.1", "gcs.2"]


# Fencing.


def test_a_claim_made_just_before_the_transaction_fences_it(
    root: Path, engine: SqliteEngine, faults: Faults
) -> None:
    owner = Owner.of(engine)
    other = SqliteEngine(root)
    claims: list[Owner] = []
    faults.acts["commit.before"] = lambda: claims.append(Owner.of(other))
    with pytest.raises(Fenced):
        owner.commit([record("d-1", "late")])
    assert list(other.view(0).records()) == []
    claims[0].commit([record("d-1", "new")])
    assert other.view(0).record("Drone", "d-1") == record("d-1", "new")
    other.close()


def test_a_claim_waits_for_a_commit_under_way_and_sees_it(
    root: Path, engine: SqliteEngine, faults: Faults
) -> None:
    """The commit has begun: it is finished first, and the new owner continues behind it."""
    owner = Owner.of(engine)
    inside, claimed = threading.Event(), threading.Event()
    other = SqliteEngine(root)
    heads = []

    def claim() -> None:
        assert inside.wait(60)
        claimed.set()
        heads.append(Owner.of(other).head)

    thread = threading.Thread(target=claim)
    thread.start()

    def wait_inside() -> None:
        inside.set()
        assert claimed.wait(60)

    faults.acts["commit.inside"] = wait_inside
    owner.commit([record("d-1", "in time")])
    thread.join()
    assert heads == [owner.head]
    with pytest.raises(Fenced):
        owner.commit([record("d-1", "late", 2)])
    other.close()


def test_a_transaction_held_past_the_lease_by_ourselves_kills_nobody(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder is this very process: ending it would end the one who asks."""
    monkeypatch.setattr(state_module, "LEASE_SECONDS", 0.05)
    Owner.of(engine)
    connection = engine._states[0]._connection
    connection.execute("BEGIN IMMEDIATE")
    other = SqliteEngine(root)
    with pytest.raises(Busy, match=r"state\.db"):
        Owner.of(other)
    connection.execute("ROLLBACK")
    assert Owner.of(other).claim.epoch > 1
    other.close()


HOLDER = """
import sys, time
from pathlib import Path
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.testing.conformance.workbench import Owner, record
def hang(point):
    if point == "commit.inside":
        print("inside", flush=True)
        time.sleep(600)
owner = Owner.of(SqliteEngine(Path(sys.argv[1]), faults=hang))
owner.commit([record("d-1", "hung")])
"""


def test_a_process_that_hangs_in_its_commit_is_ended_by_the_next_claim(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "LEASE_SECONDS", 0.5)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)],
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    engine = SqliteEngine(root)
    owner = Owner.of(engine)
    assert process.wait(60) == -9
    assert list(engine.view(0).records()) == [], "half a commit"
    owner.commit([record("d-1", "new")])
    engine.close()
    process.stdout.close()


# Compaction.


@pytest.mark.parametrize("at_once", [2, 100])
def test_compaction_changes_nothing_that_can_be_seen(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Random changes, with a compaction every few commits, against a plain dictionary."""
    monkeypatch.setattr(deltas_module, "DELTAS_MAX", 4)
    monkeypatch.setattr(deltas_module, "DELTAS_AT_ONCE", at_once)
    chance = random.Random(20)
    owner = Owner.of(engine)
    reader = SqliteEngine(root)
    more = [reader]
    right: dict[str, Record] = {}
    compactions = deltas = 0
    for version in range(1, 60):
        changed = []
        for number in chance.sample(range(40), chance.randrange(1, 8)):
            key = f"d-{number:02}"
            if key in right and chance.random() < 0.3:
                changed.append(gone(key, version))
                del right[key]
            else:
                changed.append(record(key, f"{chance.random()}", version))
                right[key] = changed[-1]
        owner.commit(changed)
        connection = engine._states[0]._connection
        before, deltas = deltas, connection.execute("SELECT count(*) FROM delta").get
        compactions += deltas <= before
        for view in (engine.view(0), reader.view(0)):
            assert list(view.records()) == sorted(right.values())
            for number in range(40):
                assert view.record("Drone", f"d-{number:02}") == right.get(f"d-{number:02}")
        if version % 20 == 0:  # another owner, who inherits deltas
            engine = SqliteEngine(root)
            more.append(engine)
            owner = Owner.of(engine)
            assert states_in(engine.load(owner.claim)) == sorted(right.values())
    assert compactions > 8, "too few compactions to have tested anything"
    for each in more:
        each.close()


def test_a_compaction_that_fails_does_not_fail_the_commit(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands. Told otherwise its worker would repeat it, against a head that moved."""
    owner = Owner.of(engine)
    connection = engine._states[0]._connection
    owner.commit([record(f"d-{n}", "x" * 2000) for n in range(50)])
    # Room for one more commit, and none for the pages that compaction needs.
    monkeypatch.setattr(deltas_module, "DELTAS_MAX", 1)
    pages = connection.execute("PRAGMA page_count").get
    connection.execute(f"PRAGMA max_page_count={pages + 1}")
    owner.commit([record("d-1", "small", 2)])
    assert connection.execute("SELECT count(*) FROM delta").get == 2, "it did compact"
    connection.execute("PRAGMA max_page_count=1000000")
    owner.commit([record("d-1", "last", 3)])
    assert connection.execute("SELECT count(*) FROM delta").get == 0
    assert len(list(engine.view(0).records())) == 50
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "last", 3)


def test_deltas_stay_bounded(engine: SqliteEngine) -> None:
    owner = Owner.of(engine)
    most = 0
    for version in range(1, deltas_module.DELTAS_MAX + 20):
        owner.commit([record("d-1", "x", version)])
        count = engine._states[0]._connection.execute("SELECT count(*) FROM delta").get
        most = max(most, count)
    assert most <= deltas_module.DELTAS_MAX + 1
    assert engine.view(0).record("Drone", "d-1") == record("d-1", "x", version)


def test_the_wal_stays_bounded_beside_a_busy_worker(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep runs all the time, and commits too: the WAL must not outgrow its bound by much."""
    monkeypatch.setattr(engine_module, "WAL_BYTES_BEFORE_CHECKPOINT", 256 * 1024)
    monkeypatch.setattr(engine_module, "WAL_BYTES_MAX", 1024 * 1024)
    owner = Owner.of(engine)
    done = threading.Event()
    failures: list[BaseException] = []
    turns = threading.Semaphore(0)

    def keep_house() -> None:
        try:
            while not done.wait(0.02):
                engine.maintain()
                turns.release()
        except BaseException as error:
            failures.append(error)

    upkeep = threading.Thread(target=keep_house)
    upkeep.start()
    written = most = 0
    for version in range(1, 250):
        commit = [record(f"d-{n}", "x" * 500, version) for n in range(100)]
        written += 100 * 500
        owner.commit(commit)
        most = max(most, wal_bytes(root / "p000/state.db"))
        if version % 20 == 0:  # however busy the machine is, upkeep has its turns meanwhile
            while turns.acquire(blocking=False):
                pass  # those of long ago
            assert turns.acquire(timeout=120.0)
    done.set()
    upkeep.join()
    assert failures == []
    assert written > 10 * 1024 * 1024
    assert most < 6 * 1024 * 1024, f"the WAL grew to {most:,} bytes"
    assert {r.version for r in engine.view(0).records()} == {version}
