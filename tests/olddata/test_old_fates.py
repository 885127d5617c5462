"""Goal: what was compensated under a release that knew no other fate of actions is not compensated
again under this one, and its actions can be acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast import UsageError
from holdfast.engine.urls import open_engine
from holdfast.stepping.commit import Fate
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


def test_it_is_read_before_and_after_the_first_claim(url: str) -> None:
    before = known(url)
    assert [(one.id, one.key, one.why, one.kind) for one in before] == [
        (FIRST, "d-1", WHY, "compensated")
    ]
    with fleet.open(url) as live, pytest.raises(UsageError, match=f"compensated before: {WHY}"):
        live.compensate(FIRST, "again")
    assert known(url) == before
