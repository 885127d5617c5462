"""Goal: blocks in a state file: where they are, when they are written, and that neither damage to
one nor a crash on the way is read as anything but what was committed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.engine.port import no_images
from holdfast.engine.sqlite import deltas as deltas_module
from holdfast.engine.sqlite import state as state_module
from holdfast.engine.sqlite.blocks import list_blocks
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.salvage import salvage
from holdfast.errors import DamagedData, HoldfastError
from holdfast.stepping.blocks import Block, bucket_of
from holdfast.stepping.commit import Record
from holdfast.testing.conformance.blocks import KEYS, Keeper, block_of
from holdfast.testing.conformance.rescales import owners, rescale
from holdfast.testing.conformance.workbench import (
    FLEET,
    Crash,
    Faults,
    Owner,
    gone,
    record,
    states_in,
)
from tests.engine.test_sqlite_processes import ENVIRONMENT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    return tmp_path / "data"


@pytest.fixture
def engine(root: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(root)
    yield engine
    engine.close()


def everyone(version: int = 1) -> list[Record]:
    return [record(key, f"v{version}", version) for key in KEYS]


def count(engine: SqliteEngine, table: str) -> int:
    found = engine._states[0]._connection.execute(f"SELECT count(*) FROM {table}").get
    assert isinstance(found, int)
    return found


def compacted(engine: SqliteEngine) -> tuple[Owner, Keeper]:
    """All agents in blocks of the base, and nowhere else."""
    owner, keeper = Owner.of(engine), Keeper({each.key: each for each in everyone()})
    owner.commit(blocks=[block_of(everyone())])
    engine._states[0].compact(owner.claim, keeper.images)
    return owner, keeper


def changed(root: Path, query: str, *values: object) -> None:
    connection = apsw.Connection(str(root / "p000" / "state.db"))
    connection.execute(query, values)
    connection.close()


# Where they are.


def test_compaction_makes_a_block_per_bucket_and_no_row(engine: SqliteEngine) -> None:
    owner, _ = compacted(engine)
    assert (count(engine, "delta"), count(engine, "base")) == (0, 0)
    places = list_blocks(engine._states[0]._connection, Path())
    assert places == sorted({("Drone", bucket_of(key)) for key in KEYS})
    loaded = list(engine.load(owner.claim).records)
    assert [type(each) for each in loaded] == [Block] * len(places), "as they are"


def test_an_agent_that_changes_its_form_is_in_one_place(engine: SqliteEngine) -> None:
    owner, keeper = compacted(engine)
    odd = record("k-005", "paused", 2)
    owner.commit([odd, gone("k-006", 2)])
    keeper.records |= {"k-005": odd}
    keeper.in_columns -= {"k-005", "k-006"}
    del keeper.records["k-006"]
    state = engine._states[0]
    state.compact(owner.claim, keeper.images)
    assert (count(engine, "delta"), count(engine, "base")) == (0, 1)
    assert states_in(engine.load(owner.claim)) == sorted(keeper.records.values())
    back = record("k-005", "back", 3)
    owner.commit(blocks=[block_of([back])])
    keeper.records["k-005"] = back
    keeper.in_columns.add("k-005")
    state.compact(owner.claim, keeper.images)
    assert (count(engine, "delta"), count(engine, "base")) == (0, 0)
    assert engine.view(0).record("Drone", "k-005") == back


def test_rows_that_the_owner_keeps_in_columns_by_now_become_blocks(engine: SqliteEngine) -> None:
    """A class that was interpreted: its rows go when their buckets are written."""
    owner = Owner.of(engine)
    owner.commit(everyone())
    engine._states[0].compact(owner.claim)
    assert count(engine, "base") == len(KEYS)
    keeper = Keeper({each.key: each for each in everyone()})
    keeper.records["k-000"] = record("k-000", "compiled", 2)
    owner.commit(blocks=[block_of([keeper.records["k-000"]])])
    engine._states[0].compact(owner.claim, keeper.images)
    same_bucket = [key for key in KEYS if bucket_of(key) == bucket_of("k-000")]
    assert count(engine, "base") == len(KEYS) - len(same_bucket)
    assert states_in(engine.load(owner.claim)) == sorted(keeper.records.values())


@pytest.mark.parametrize("seed", range(3))
def test_compaction_changes_nothing_that_can_be_seen(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random changes of form, with a compaction every few commits, against a plain dictionary."""
    monkeypatch.setattr(deltas_module, "DELTAS_MAX", 4)
    chance = random.Random(seed)
    owner, keeper, reader = Owner.of(engine), Keeper(), SqliteEngine(root)
    more = [reader]
    for version in range(1, 50):
        keys = chance.sample(KEYS[:40], chance.randrange(1, 20))
        forms = {key: chance.choice(["block", "block", "row", "gone"]) for key in keys}
        made = {key: record(key, f"{chance.random()}", version) for key in keys}
        keeper.records |= made
        keeper.in_columns -= forms.keys()
        keeper.in_columns |= {key for key in keys if forms[key] == "block"}
        for key in [key for key in keys if forms[key] == "gone"]:
            del keeper.records[key]
        rows = [made[k] if forms[k] == "row" else gone(k, version) for k in keys]
        rows = [each for each in rows if forms[each.key] != "block"]
        blocks = [made[key] for key in keys if forms[key] == "block"]
        owner.images = no_images if chance.random() < 0.2 else keeper.images
        owner.commit(rows, blocks=[block_of(blocks)] if blocks else [])
        right = sorted(keeper.records.values())
        for view in (engine.view(0), reader.view(0)):
            assert list(view.records()) == right
            for key in KEYS[:42]:
                assert view.record("Drone", key) == keeper.records.get(key)
        if version % 15 == 0:  # another owner, who inherits deltas
            engine = SqliteEngine(root)
            more.append(engine)
            owner = Owner.of(engine)
        assert states_in(engine.load(owner.claim)) == right
    assert count(engine, "delta") <= 5
    assert count(engine, "blocks") > 0
    for each in more:
        each.close()


def test_new_partitions_get_the_blocks_of_their_slots(engine: SqliteEngine) -> None:
    """3 and 5 cut through buckets; on the way back two parents have a part of some bucket each."""
    crowd = {f"k-{n}": record(f"k-{n}", "x") for n in range(2_000)}
    owner = Owner.of(engine)
    owner.commit(blocks=[block_of(list(crowd.values()))])
    engine._states[0].compact(owner.claim, Keeper(dict(crowd)).images)
    crowd["k-7"] = record("k-7", "newer", 2)
    owner.commit([crowd["k-7"], gone("k-8", 2)])
    del crowd["k-8"]
    all_owners = [owner]
    for number in (3, 5, 1):
        layout = rescale(engine, all_owners, number)
        all_owners = owners(engine)
        found = [(n, r) for n in layout.numbers for r in engine.view(n).records()]
        assert sorted(r for _, r in found) == sorted(crowd.values())
        assert all(layout.partition_of(r.key) == n for n, r in found)
        loaded = [each for o in all_owners for each in engine.load(o.claim).records]
        in_blocks = sum(each.count for each in loaded if isinstance(each, Block))
        assert in_blocks > 0.9 * len(crowd), "only few become rows"
        for key in ("k-7", "k-8", "k-9"):
            assert engine.view(layout.partition_of(key)).record("Drone", key) == crowd.get(key)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))]
)
def test_a_sweep_goes_some_buckets_at_a_time_and_nobody_sees_it(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Read after every commit, by somebody else and by a successor that loads in the middle."""
    monkeypatch.setattr(deltas_module, "DELTAS_MAX", 16)
    monkeypatch.setattr(deltas_module, "SWEEP_BYTES_MIN", 1)
    chance = random.Random(seed)
    owner, keeper = compacted(engine)
    reader, between, done = SqliteEngine(root), 0, 0
    for version in range(2, 120):
        made = [record(key, f"{chance.random()}", version) for key in chance.sample(KEYS, 8)]
        keeper.records |= {each.key: each for each in made}
        owner.images = keeper.images
        if version == 60:  # a row in the middle of a sweep: all at once, then sweeps again
            odd = made.pop()
            keeper.in_columns.discard(odd.key)
            owner.commit([odd], blocks=[block_of(made)])
        else:
            keeper.in_columns |= {each.key for each in made}
            owner.commit(blocks=[block_of(made)])
        sweep = engine._states[0]._deltas._sweep
        between += sweep is not None
        done += sweep is None and count(engine, "delta") < 16
        everybody = sorted(keeper.records.values())
        assert list(reader.view(0).records()) == everybody
        assert states_in(reader.load(owner.claim)) == everybody
        for each in chance.sample(everybody, 5):
            assert reader.view(0).record("Drone", each.key) == each
    assert min(between, done) > 20, "both moments were seen"
    reader.close()
    successor = Owner.of(SqliteEngine(root))
    assert states_in(successor.engine.load(successor.claim)) == sorted(keeper.records.values())
    successor.engine.close()


def test_a_missing_image_is_noticed_and_loses_nothing(
    engine: SqliteEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas_module, "DELTAS_MAX", 0)
    owner = Owner.of(engine)
    owner.images = lambda agent, buckets: []
    owner.commit(blocks=[block_of(everyone())])
    assert "no image of bucket" in caplog.text
    assert list(engine.view(0).records()) == everyone()


# Crashes.


def test_a_crash_inside_a_compaction_leaves_what_was_there(root: Path) -> None:
    faults = Faults()
    engine = SqliteEngine(root, faults=faults)
    owner, keeper = compacted(engine)
    newer = everyone(2)[:50]
    owner.commit(blocks=[block_of(newer)])
    keeper.records |= {each.key: each for each in newer}
    faults.crash_at("compact.inside")
    with pytest.raises(Crash):
        engine._states[0].compact(owner.claim, keeper.images)
    again = SqliteEngine(root)
    assert list(again.view(0).records()) == sorted(keeper.records.values())
    successor = Owner.of(again)
    assert states_in(again.load(successor.claim)) == sorted(keeper.records.values())
    again._states[0].compact(successor.claim, keeper.images)
    assert count(again, "delta") == 0
    assert list(again.view(0).records()) == sorted(keeper.records.values())
    for each in (engine, again):
        each.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.engine.sqlite.engine import SqliteEngine
from tests.engine.test_sqlite_blocks import compacted, everyone
from holdfast.testing.conformance.blocks import block_of
def end(point):
    if point == "compact.inside" and armed:
        os.kill(os.getpid(), signal.SIGKILL)
armed = False
engine = SqliteEngine(Path(sys.argv[1]), faults=end)
owner, keeper = compacted(engine)
newer = everyone(2)[:50]
owner.commit(blocks=[block_of(newer)])
keeper.records |= {each.key: each for each in newer}
armed = True
engine._states[0].compact(owner.claim, keeper.images)
"""


def test_a_kill_inside_a_compaction_leaves_what_was_there(root: Path) -> None:
    program = [sys.executable, "-c", KILLED, str(root)]
    done = subprocess.run(program, env=ENVIRONMENT, timeout=60, check=False, cwd=os.getcwd())
    assert done.returncode == -signal.SIGKILL
    right = {each.key: each for each in everyone()} | {r.key: r for r in everyone(2)[:50]}
    engine = SqliteEngine(root)
    assert list(engine.view(0).records()) == sorted(right.values())
    assert states_in(engine.load(Owner.of(engine).claim)) == sorted(right.values())
    engine.close()


# Damage.


def refused(root: Path, match: str) -> None:
    engine = SqliteEngine(root)
    try:
        for read in (
            lambda: list(engine.view(0).records()),
            lambda: engine.view(0).record("Drone", "k-000"),
            lambda: list(engine.load(Owner.of(engine).claim).records),
        ):
            with pytest.raises(DamagedData, match=match):
                read()
    finally:
        engine.close()


PLACE = bucket_of("k-000")


@pytest.mark.parametrize(
    ("query", "match"),
    [
        (
            "UPDATE blocks SET frame=zeroblob(99) WHERE bucket=?",
            f"Drone in bucket {PLACE} does not",
        ),
        ("UPDATE blocks SET sum=sum+1 WHERE bucket=?", f"Drone in bucket {PLACE} does not match"),
        ("DELETE FROM blocks WHERE bucket=?", "a block of states is missing"),
        ("UPDATE blocks SET bucket=77 WHERE bucket=?", "a block of states is missing or not where"),
        ("UPDATE blocks SET agent='Drome' WHERE bucket=?", "a block of states is missing or not"),
    ],
)
def test_damage_to_a_block_is_named(root: Path, query: str, match: str) -> None:
    engine = SqliteEngine(root)
    compacted(engine)
    engine.close()
    changed(root, query, PLACE)
    refused(root, match)
    report = salvage(root)
    lines = "\n".join(report.lines())
    assert not report.intact
    assert match in lines


def test_salvage_counts_agents_in_blocks(root: Path) -> None:
    engine = SqliteEngine(root)
    owner, _ = compacted(engine)
    owner.commit([record("k-000", "row", 2), gone("k-001", 2)])
    engine.close()
    (report,) = [file for file in salvage(root).files if file.path.name == "state.db"]
    assert (report.states_intact, report.damages) == (len(KEYS) - 1, [])


def test_a_release_that_knows_no_blocks_is_refused(root: Path) -> None:
    """It would not see the agents in them."""
    connection = apsw.Connection(str(root / "p000" / "state.db"))
    assert connection.execute("PRAGMA user_version").get == 5
    connection.close()


def test_images_of_a_stranger_are_refused(engine: SqliteEngine, root: Path) -> None:
    owner, keeper = compacted(engine)
    owner.commit(blocks=[block_of(everyone(2))])
    other = SqliteEngine(root)
    Owner.of(other)
    with pytest.raises(HoldfastError, match="another worker took over"):
        engine._states[0].compact(owner.claim, keeper.images)
    other.close()


def test_a_read_that_fails_in_a_compaction_leaves_what_was_there(
    root: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, keeper = compacted(engine)
    for version in (2, 3):
        owner.commit(blocks=[block_of(everyone(version))])
    keeper.records |= {each.key: each for each in everyone(3)}

    def failing(connection: apsw.Connection) -> dict[str, int]:
        raise apsw.IOError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(state_module, "sizes_of_blocks", failing)
        engine._states[0].try_to_compact(owner.claim, keeper.images)
    owner.commit(blocks=[block_of(everyone(4))])
    reader = SqliteEngine(root)
    assert list(reader.view(0).records()) == everyone(4)
    reader.close()
