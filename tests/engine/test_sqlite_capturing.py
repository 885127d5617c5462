"""Goal: a directory is captured at one moment, holds nobody up for longer than that, and what it
has captured stays readable whatever upkeep does meanwhile."""

from pathlib import Path

import pytest

from holdfast.engine.port import Limits
from holdfast.engine.sqlite.capturing import CapturedPartition
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.errors import Busy, Rescaling
from holdfast.testing.conformance.workbench import (
    FLEET,
    HandClock,
    Owner,
    append,
    numbered,
    record,
    tags_of,
)


def directory(root: Path, **settings: float) -> SqliteEngine:
    SqliteEngine.create(root, FLEET, 2)
    return SqliteEngine(root, Limits(**settings))  # type: ignore[arg-type]


def test_nothing_is_appended_between_the_first_and_the_last_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits may go on, but no message can move: so the cut is one, and its states need not be."""
    engine = directory(tmp_path / "data")
    other = SqliteEngine(tmp_path / "data")
    owner = Owner.of(other)
    fix = CapturedPartition.fix
    refused = 0

    def watched(self: CapturedPartition) -> None:
        nonlocal refused
        for partition in (0, 1):
            with pytest.raises(Busy):
                other.append(partition, [numbered("gcs", [1])], wait_seconds=0.01)
            refused += 1
        owner.commit([record("d-1", "goes on")])
        fix(self)

    monkeypatch.setattr(CapturedPartition, "fix", watched)
    contents = engine.capture()
    assert refused == 4
    assert append(other, numbered("gcs", [1])).new == 1  # before anything of it was read
    contents.close()
    engine.close()
    other.close()


def test_a_lock_that_is_held_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = directory(tmp_path / "data")
    contents = engine.capture()
    holder = contents.partitions[1]
    assert isinstance(holder, CapturedPartition)
    monkeypatch.setattr("holdfast.engine.sqlite.capturing.APPEND_SECONDS", 0.05)
    holder.lock()
    with pytest.raises(Busy):
        engine.capture()
    holder.unlock()
    for partition in (0, 1):  # nothing is locked any more
        assert append(engine, numbered("gcs", [1]), partition).new == 1
    contents.close()
    engine.close()


def test_what_was_captured_outlives_retention(tmp_path: Path) -> None:
    clock = HandClock()
    root = tmp_path / "data"
    SqliteEngine.create(root, FLEET, 1)
    engine = SqliteEngine(root, Limits(segment_bytes=1, retain_bytes=1), clock)
    owner = Owner.of(engine)
    for number in range(5):
        append(engine, numbered("gcs", [number]))  # each in a segment of its own
    contents = engine.capture()
    owner.fold_all()
    engine.maintain()
    assert len(list((root / "p000" / "inbox").glob("*.seg"))) < 3
    (part,) = contents.partitions
    assert [tag for stored in part.frames() for tag in tags_of(stored)] == [
        f"gcs.{number}" for number in range(5)
    ]
    contents.close()
    engine.close()


def test_a_rescaling_cut_short_is_waited_for(tmp_path: Path) -> None:
    engine = directory(tmp_path / "data")
    owner = Owner.of(engine)
    engine.close_intake(owner.claim)
    with pytest.raises(Rescaling):
        engine.capture()
    assert append(engine, numbered("gcs", [1]), 1).new == 1
    engine.close()
