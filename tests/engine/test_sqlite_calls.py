"""Goal: a directory of before there were calls gets what it lacks with its first claim, and no call
is lost or left behind in silence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import FORMAT, STATE_FORMAT, open_existing
from holdfast.engine.sqlite.salvage import salvage
from holdfast.errors import DamagedData, NewerFormat
from holdfast.testing.conformance.calls import opened
from holdfast.testing.conformance.commits import call
from holdfast.testing.conformance.workbench import FLEET, Owner, record
from tests.olddata.first_classes import WRITTEN


@pytest.fixture
def old(tmp_path: Path) -> Iterator[SqliteEngine]:
    """As an older release left it."""
    place = tmp_path / "data"
    shutil.copytree(WRITTEN, place)
    engine = SqliteEngine(place)
    yield engine
    engine.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    SqliteEngine.create(tmp_path / "data", FLEET, 1)
    engine = SqliteEngine(tmp_path / "data")
    yield engine
    engine.close()


def test_old_data_has_no_calls_and_takes_some(old: SqliteEngine) -> None:
    view = old.view(0)
    before = view.head()
    assert (before.calls_next, view.calls(0, 10)) == (1, [])
    states = list(view.records())
    owner = Owner.of(old, 0, 1_000)
    assert view.head() == before, "whoever looks while it is claimed sees the same"
    calls = opened(owner, 2)
    owner.commit(closed=[calls[0].id])
    assert view.calls(0, 10) == calls[1:]
    again = SqliteEngine(old.root)
    assert again.view(0).calls(0, 10) == calls[1:]
    assert list(again.view(0).records()) == states
    assert again.view(1).calls(0, 10) == []
    again.close()


def test_a_claim_brings_the_tables_up_to_date_once(old: SqliteEngine) -> None:
    path = old.root / "p000" / "state.db"
    open_existing(path, newest=FORMAT).close()
    Owner.of(old, 0, 1_000)
    with pytest.raises(NewerFormat, match=rf"state\.db: format {STATE_FORMAT}, this release"):
        open_existing(path, newest=FORMAT)
    other = SqliteEngine(old.root)
    Owner.of(other, 0, 1_000).commit([record("d-1", "goes on")])
    other.close()
    open_existing(old.root / "p001" / "state.db", newest=FORMAT).close()  # nobody has claimed it


def test_a_claim_that_is_refused_leaves_the_old_tables(old: SqliteEngine) -> None:
    with pytest.raises(Exception, match="newer classes have folded here"):
        Owner.of(old, 0, 0)
    open_existing(old.root / "p000" / "state.db", newest=FORMAT).close()


def test_salvage_reads_both(old: SqliteEngine) -> None:
    assert salvage(old.root).intact
    opened(Owner.of(old, 0, 1_000), 3)
    report = salvage(old.root)
    assert report.intact
    assert [file.facts[-1] for file in report.files if file.path.name == "state.db"] == [
        "3 calls",
        "1 letters",
    ]


def spoil(engine: SqliteEngine, sql: str) -> None:
    connection = apsw.Connection(str(engine.root / "p000" / "state.db"))
    connection.execute(sql)
    connection.close()


def test_a_call_that_is_not_where_it_was_is_not_closed_in_silence(engine: SqliteEngine) -> None:
    """Left behind in the table it would be run for ever, lost from it never."""
    owner = Owner.of(engine)
    opened(owner, 3)
    spoil(engine, "DELETE FROM calls WHERE number=2")
    with pytest.raises(DamagedData, match=r"call .*/2/call1 is not where it was"):
        owner.commit(closed=[call(2).id])
    assert engine.view(0).calls(0, 10) == [call(1), call(3)]


def test_a_call_that_was_changed_is_not_run(engine: SqliteEngine) -> None:
    opened(Owner.of(engine), 2)
    spoil(engine, "UPDATE calls SET number=7 WHERE number=2")
    assert engine.view(0).calls(0, 1) == [call(1)]
    with pytest.raises(DamagedData, match="call 7 does not match its checksum"):
        engine.view(0).calls(0, 2)
    assert not salvage(engine.root).intact
