"""Goal: a directory that is rescaled has the old partitions or the new ones, never some of both;
what a killed attempt left is removed, and what somebody else left is not."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import open_existing
from holdfast.engine.sqlite.salvage import salvage
from holdfast.errors import DamagedData, DiskFull, Fenced, HoldfastError, NewerFormat, Rescaling
from holdfast.model.keys import Layout
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.rescales import close_and_fold, key_in, owners, rescale
from holdfast.testing.conformance.workbench import (
    HandClock,
    Owner,
    append,
    inbox,
    numbered,
    parcel,
    record,
    refusal,
)


class Faults:
    """Raises what a test has laid at a point."""

    def __init__(self) -> None:
        self.laid: dict[str, Exception] = {}

    def __call__(self, point: str) -> None:
        if point in self.laid:
            raise self.laid.pop(point)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def engine(tmp_path: Path, faults: Faults) -> Iterator[SqliteEngine]:
    SqliteEngine.create(tmp_path / "data", FLEET, 2)
    made = SqliteEngine(tmp_path / "data", clock=HandClock(), faults=faults)
    yield made
    made.close()


def filled(engine: SqliteEngine) -> list[Owner]:
    """Both partitions hold events and an agent, and are ready to be rescaled."""
    both = owners(engine)
    for owner, slots in zip(both, Layout.even(2).partitions, strict=True):
        append(engine, numbered("gcs", [owner.claim.partition + 1]), owner.claim.partition)
        owner.commit([record(key_in(slots), "kept")], events=1)
    close_and_fold(engine, both)
    return both


def folders(engine: SqliteEngine) -> list[str]:
    return sorted(path.name for path in engine.root.glob("p*"))


@pytest.mark.parametrize("point", ["rescale.before", "rescale.inside"])
def test_what_fails_before_the_switch_leaves_nothing(
    engine: SqliteEngine, faults: Faults, point: str
) -> None:
    both = filled(engine)
    faults.laid[point] = DiskFull("no room")
    with pytest.raises(DiskFull):
        engine.rescale([owner.claim for owner in both], 3)
    assert folders(engine) == ["p000", "p001"]
    assert engine.catalog.layout == Layout.even(2)
    both[0].commit([record("d-1", "goes on")])
    engine.rescale([owner.claim for owner in both], 3)
    assert engine.catalog.layout == Layout.even(3, first=2)


def test_what_fails_after_the_switch_does_not_undo_it(engine: SqliteEngine, faults: Faults) -> None:
    """The parents' epochs may not be raised any more; nobody can use them all the same."""
    both = filled(engine)
    faults.laid["rescale.after"] = DiskFull("no room")
    with pytest.raises(DiskFull):
        engine.rescale([owner.claim for owner in both], 3)
    assert engine.catalog.layout == Layout.even(3, first=2)
    with pytest.raises(Fenced):
        engine.open_intake(both[0].claim)
    other = SqliteEngine(engine.root)
    with pytest.raises(Fenced, match="p000: retired, the fleet was rescaled"):
        list(other.assignments([0], 1))
    assert isinstance(refusal(other, parcel(["late"])), Rescaling)
    assert [r.key for n in range(2, 5) for r in other.view(n).records()]
    other.close()


@pytest.mark.parametrize("cut", ["whole", "no state", "half a file", "empty"])
def test_the_folders_of_a_killed_attempt_are_made_again(
    engine: SqliteEngine, tmp_path: Path, cut: str
) -> None:
    """A crash leaves children without a catalog that knows them: taken from a rescaled copy."""
    both = filled(engine)
    shutil.copytree(engine.root, tmp_path / "copy", ignore=shutil.ignore_patterns("wake"))
    copy = SqliteEngine(tmp_path / "copy")
    rescale(copy, owners(copy), 3)
    copy.close()
    left = engine.root / "p002"
    shutil.copytree(tmp_path / "copy/p002", left)
    if cut in ("no state", "half a file"):
        (left / "state.db").unlink()
    if cut == "half a file":
        (left / "state.db.new").write_bytes(b"SQLite")
    if cut == "empty":
        shutil.rmtree(left / "inbox")
    assert salvage(engine.root).intact, "what no catalog knows is no damage"
    engine.rescale([owner.claim for owner in both], 2)
    assert engine.catalog.layout == Layout.even(2, first=2)
    kept = [r for n in (2, 3) for r in engine.view(n).records()]
    assert len(kept) == 2


def test_a_folder_that_somebody_has_used_is_not_removed(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    both = filled(engine)
    (engine.root / "p003").mkdir()
    (engine.root / "p003/holiday.jpg").write_text("sea")
    with pytest.raises(DamagedData, match=r"does not know this partition, though .*holiday\.jpg"):
        engine.rescale([owner.claim for owner in both], 2)
    assert (engine.root / "p003/holiday.jpg").read_text() == "sea"
    assert engine.catalog.layout == Layout.even(2)
    assert not (engine.root / "p002").exists()


def test_a_catalog_that_has_lost_a_rescaling_is_noticed(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    """An older copy of the catalog would give the agents their old states back, in silence."""
    both = filled(engine)
    engine.catalog._checkpoint()
    shutil.copy(engine.root / "fleet.db", tmp_path / "fleet.db")
    engine.rescale([owner.claim for owner in both], 3)
    engine.close()
    for path in engine.root.glob("fleet.db*"):
        path.unlink()
    shutil.copy(tmp_path / "fleet.db", engine.root / "fleet.db")
    other = SqliteEngine(engine.root)
    with pytest.raises(DamagedData, match=r"fleet\.db: damaged .a rescaling is missing in it"):
        list(other.assignments([0], 1))
    assert isinstance(refusal(other, parcel(["late"])), Rescaling)
    other.close()


def test_damage_in_an_old_partition_stops_it(engine: SqliteEngine) -> None:
    both = filled(engine)
    connection = open_existing(engine.root / "p001/state.db")
    connection.execute("UPDATE delta SET frame = zeroblob(length(frame))")
    connection.close()
    with pytest.raises(DamagedData, match="p001"):
        engine.rescale([owner.claim for owner in both], 3)
    assert folders(engine) == ["p000", "p001"]


def test_an_agent_in_the_wrong_partition_is_not_dropped_in_silence(engine: SqliteEngine) -> None:
    both = filled(engine)
    both[0].commit([record(key_in(Layout.even(2).partitions[1], 5), "astray")])
    with pytest.raises(DamagedData, match="does not belong here"):
        engine.rescale([owner.claim for owner in both], 2)
    assert engine.catalog.layout == Layout.even(2)


def test_only_rescaled_data_is_refused_to_older_releases(engine: SqliteEngine) -> None:
    open_existing(engine.root / "fleet.db").close()
    rescale(engine, filled(engine), 3)
    with pytest.raises(NewerFormat, match=r"fleet\.db: format 2, this release reads 1"):
        open_existing(engine.root / "fleet.db")


def test_an_older_release_that_appends_is_refused_too(engine: SqliteEngine) -> None:
    """It has the catalog of before in its memory; to it a closed inbox looks sealed."""
    rescale(engine, filled(engine), 3)
    connection = open_existing(next((engine.root / "p000/inbox").glob("*.seg")))
    assert connection.execute("SELECT sealed FROM head").get == 2
    connection.close()


def test_a_closed_inbox_that_starts_a_segment_stays_closed(engine: SqliteEngine) -> None:
    (owner, _) = filled(engine)
    engine._inbox(0).rotate()
    assert isinstance(refusal(engine, parcel(["late"])), Rescaling)
    engine.open_intake(owner.claim)
    append(engine, parcel(["a"]))
    assert inbox(engine) == ["gcs.1", "a"]


def test_retired_events_go_with_age(tmp_path: Path) -> None:
    clock = HandClock()
    SqliteEngine.create(tmp_path / "data", FLEET, 2)
    engine = SqliteEngine(tmp_path / "data", clock=clock)
    rescale(engine, filled(engine), 1)
    owners(engine)
    engine._forgot = -1e9
    engine.maintain()
    assert inbox(engine) == ["gcs.1"]
    clock.wall = 4_000_000_000.0  # files are as old as the machine's clock says
    engine._forgot = -1e9
    engine.maintain()
    engine._forgot = -1e9
    engine.maintain()
    assert engine.view(0).inbox_first() == 1
    assert engine.view(0).head().position == engine.view(0).inbox_next() == 1
    assert isinstance(refusal(engine, parcel(["late"])), Rescaling)
    engine.close()


def test_it_needs_few_open_files(tmp_path: Path) -> None:
    """Hundreds of partitions may be made: they cannot all be open at once."""
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data")
    (owner,) = owners(engine)
    owner.commit([record(f"k-{i}", "x") for i in range(200)])
    close_and_fold(engine, [owner])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 12, hard))
    try:
        engine.rescale([owner.claim], 16)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(1 for n in range(1, 17) for _ in engine.view(n).records()) == 200
    engine.close()


def test_refusals_are_one_line(engine: SqliteEngine) -> None:
    both = filled(engine)
    for partitions in (0, 257):
        with pytest.raises(HoldfastError, match=f"{partitions} partitions: give 1 to 256"):
            engine.rescale([owner.claim for owner in both], partitions)
    text = str(refusal(engine, parcel(["late"])))
    assert text.endswith("p000: the fleet is being given other partitions: try again in a moment")


def test_upkeep_keeps_no_files_of_retired_partitions_open(engine: SqliteEngine) -> None:
    rescale(engine, filled(engine), 3)
    Owner.of(engine, engine.catalog.layout.first)
    engine._forgot = float("-inf")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        engine._views.clear()
        engine.maintain()
        engine._forgot = float("-inf")
    assert engine._inboxes.keys() & engine.catalog.retired.keys() <= {0, 1}
    assert len(os.listdir("/proc/self/fd")) <= before
