"""Goal: what was compensated under a release that knew no other fate of actions is not compensated
again under this one, and its actions can be acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from holdfast import UsageError
from holdfast.engine.kafka.mirrored import MirroredState
from holdfast.engine.kafka.records import Committed
from holdfast.engine.urls import open_engine
from holdfast.stepping.commit import Commit, Fate
from tests.olddata.old_doors import COMPENSATED, FIRST, WHY
from tests.runtime.doors import fleet

FOREVER = "retain_seconds=1e12"


@pytest.fixture
def url(tmp_path: Path) -> str:
    shutil.copytree(COMPENSATED, tmp_path / "data")
    return f"sqlite:{tmp_path / 'data'}?{FOREVER}"


def known(url: str) -> list[Fate]:
    engine = open_engine(url, None)
    view = engine.view(0)
    found = view.fates()
    assert view.fates_of([FIRST, "doors/Door/d-2/1/0"]) == found
    engine.close()
    return found


def test_a_copy_of_then_is_brought_up_to_date_on_kafka(url: str, tmp_path: Path) -> None:
    """Mirrors are never claimed: they are filled as soon as they are there."""
    state = MirroredState(tmp_path / "data" / "p000")
    engine = open_engine(url, None)
    view = engine.view(0)
    head = view.head()
    assert (head.position, head.ground_stop) == (3, "")
    new = Fate("doors/Door/d-2/1/0", "d-2", 5.0, "", "acknowledged", "gateway")
    moved = head._replace(commits=head.commits + 1)
    state.put_commit(0, state.epoch, Commit(head, moved, fates=[new]), 7)
    assert [one.kind for one in view.fates()] == ["compensated", "acknowledged"]
    assert view.fates_of([new.id]) == [new]
    engine.close()
    state.close()


def test_a_changelog_of_then_is_read() -> None:
    """Heads had seven numbers, and what was compensated four values."""
    before = [3, 5.0, 3, 1, 0, 2, 1]
    packed = msgspec.msgpack.encode(
        [
            "commit",
            4,
            before,
            before,
            b"",
            [],
            {},
            None,
            [],
            [],
            [],
            None,
            [],
            [],
            [[FIRST, "d-1", 5.0, WHY]],
            "",
        ]
    )
    entry = msgspec.msgpack.decode(packed, type=Committed)
    assert entry.commit().fates == [Fate(FIRST, "d-1", 5.0, WHY)]
    assert entry.head.ground_stop == ""


def test_it_is_read_before_and_after_the_first_claim(url: str) -> None:
    before = known(url)
    assert [(one.id, one.key, one.why, one.kind) for one in before] == [
        (FIRST, "d-1", WHY, "compensated")
    ]
    with fleet.open(url) as live, pytest.raises(UsageError, match=f"compensated before: {WHY}"):
        live.compensate(FIRST, "again")
    assert known(url) == before
