"""Goal: a directory from before sources were counted opens, counts what it has, forgets the idle
ones of it; and what a flood of anonymous sources leaves does not go from segment to segment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.port import Limits
from holdfast.engine.sources import ANONYMOUS_SECONDS, FORGOTTEN_SECONDS
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import (
    FORMAT,
    SEGMENT_FORMAT,
    extend,
    open_existing,
    transaction,
)
from holdfast.engine.sqlite.salvage import salvage
from holdfast.errors import NewerFormat, TooManySources
from holdfast.testing.conformance.workbench import FLEET, HandClock, append, numbered, refusal
from tests.olddata.first_classes import WRITTEN

BOUNDS = Limits(sources_max=2, anonymous_sources_max=3)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def old(tmp_path: Path, clock: HandClock) -> Iterator[SqliteEngine]:
    """As an older release left it, with sources of both kinds."""
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    before = SqliteEngine(tmp_path / "data", clock=clock)
    for source in ("a", "b", "~x", "~y"):
        append(before, numbered(source, [1]))
    before.close()
    connection = open_existing(newest(tmp_path / "data"))
    with transaction(connection):
        extend(connection, "DROP TABLE tally; DROP TABLE by_age;", FORMAT)
    connection.close()
    engine = SqliteEngine(tmp_path / "data", BOUNDS, clock=clock)
    yield engine
    engine.close()


def newest(root: Path, partition: int = 0) -> Path:
    return sorted((root / f"p{partition:03d}" / "inbox").glob("*.seg"))[-1]


def count(path: Path, table: str) -> int:
    connection = open_existing(path)
    found = int(connection.execute(f"SELECT count(*) FROM {table}").get)
    connection.close()
    return found


def test_old_data_is_counted_with_the_first_append(old: SqliteEngine) -> None:
    open_existing(newest(old.root), newest=FORMAT).close()
    assert isinstance(refusal(old, numbered("c", [1])), TooManySources)
    assert append(old, numbered("~z", [1])).new == 1
    assert isinstance(refusal(old, numbered("~zz", [1])), TooManySources)
    for source in ("a", "b", "~x", "~y", "~z"):
        assert append(old, numbered(source, [1])).new == 0
    with pytest.raises(NewerFormat, match=rf"format {SEGMENT_FORMAT}, this release reads 1"):
        open_existing(newest(old.root), newest=FORMAT)
    assert salvage(old.root).intact


def test_idle_sources_of_old_data_are_forgotten(old: SqliteEngine, clock: HandClock) -> None:
    clock.pass_time(ANONYMOUS_SECONDS * 1.2)
    for n in range(3):
        assert append(old, numbered(f"~new {n}", [1])).new == 1
    assert append(old, numbered("a", [1])).new == 0
    assert count(newest(old.root), "windows") == 5


def test_who_only_reads_leaves_old_data_as_it_is(old: SqliteEngine) -> None:
    assert len(old._inbox(0).dedupe().sources) == 4
    assert salvage(old.root).intact
    open_existing(newest(old.root), newest=FORMAT).close()


def test_data_of_the_first_release_takes_events(tmp_path: Path) -> None:
    shutil.copytree(WRITTEN, tmp_path / "data")
    engine = SqliteEngine(tmp_path / "data", Limits(sources_max=1))
    assert append(engine, numbered("plan", [21])).new == 1
    assert isinstance(refusal(engine, numbered("another", [1])), TooManySources)
    assert append(engine, numbered("~handle", [1])).new == 1
    engine.close()


def test_a_new_segment_begins_without_forgotten_sources(tmp_path: Path, clock: HandClock) -> None:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data", clock=clock)
    for n in range(20):
        append(engine, numbered(f"~{n}", [1]))
    clock.pass_time(FORGOTTEN_SECONDS * 1.1)
    append(engine, numbered("named", [1]))
    first = newest(engine.root)
    engine._inbox(0).rotate()
    assert newest(engine.root) != first
    for table in ("sources", "windows"):
        assert count(newest(engine.root), table) == 1
    assert count(newest(engine.root), "by_age") == 0
    assert append(engine, numbered("named", [1])).new == 0
    assert append(engine, numbered("~0", [1])).new == 1
    engine.close()
