"""Goal: a view is a table of SQL, beside the classes of agents, with the rows it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import UsageError
from holdfast.view.sql.queries import Queries
from tests.view.zones import Battery, Drone, ZoneLoad, fleet


def test_a_view_is_asked_and_joined(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live:
        rows = [(Drone, f"d-{n}", Battery(zone=f"z-{n % 3}", percent=n)) for n in range(30)]
        receipt = live.send_many(rows)
        wanted = live.view(ZoneLoad).rows(after=receipt)
        with Queries(live) as queries:
            found = queries.answer("SELECT key, events, low, landed FROM zoneload")
            names = [name for name, _ in found.columns]
            told = {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in found.rows}
            assert told == {key: {n: getattr(r, n) for n in names[1:]} for key, r in wanted.items()}
            assert len(told) == 3
            joined = queries.answer("SELECT count(*) FROM zoneload, drone")
            assert joined.rows == [[90]]
            assert "zoneload" in queries.tables()
            with pytest.raises(UsageError, match="views are asked as they are now"):
                queries.answer("SELECT * FROM zoneload", at=1.0)
