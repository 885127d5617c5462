"""Goal: SQL over a fleet on Kafka, from a process that has no copy of it: owners are asked, and
what they say is of one commit per partition."""

from __future__ import annotations

import uuid
from pathlib import Path

from holdfast.runtime.untyped import connect_untyped
from holdfast.view.sql.queries import Queries
from tests.kafka.drones import Drone, Note, fleet


def test_owners_are_asked(kafka: str, tmp_path: Path) -> None:
    place = f"kafka://{kafka}/queries-{uuid.uuid4().hex[:8]}"
    with fleet.open(f"{place}?cache={tmp_path / 'owner'}", partitions=2) as live:
        live.send_many([(Drone, f"d-{i}", Note(text="first")) for i in range(50)])
        live.settle()
        with (
            connect_untyped(f"{place}?cache={tmp_path / 'reader'}") as reader,
            Queries(reader) as queries,
        ):
            sql = "SELECT note, count(*) FROM drone GROUP BY note ORDER BY note"
            found = queries.answer(sql)
            assert found.rows == [["first", 50]]
            assert sum(found.positions.values()) == 50
            live.send_many([(Drone, f"d-{i}", Note(text="second")) for i in range(20)])
            live.settle()
            found = queries.answer(sql)
            assert found.rows == [["first", 30], ["second", 20]]
            assert sum(found.positions.values()) == 70
            logs = queries.answer("SELECT count(*), count(DISTINCT key) FROM events")
            assert logs.rows == [[70, 50]]
            owners = queries.answer("SELECT count(*) FROM partitions WHERE owner != ''")
            assert owners.rows == [[2]]
        assert not list((tmp_path / "reader").rglob("state.db")), "it has made no copy"
