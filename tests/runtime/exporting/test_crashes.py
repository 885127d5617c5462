"""Goal: an export that ends at any point of a write, and one that goes on after it, leave each row
once, whatever the target; what was never finished is removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.runtime.exporting import reading
from holdfast.runtime.exporting.target import Kind
from tests.runtime.exporting.fleets import Drone, Tick, Visitor, fleet
from tests.runtime.exporting.sinks import Sink, export, sink_named
from tests.runtime.exporting.test_states import committed
from tests.runtime.semantics import World, opened

POINTS = ["export.before", "export.inside", "export.after"]


class Died(BaseException):
    """No handler of ours takes it for an error: as little runs after it as after a kill."""


def dying(point: str, passes: int) -> Callable[[str], None]:
    left = passes

    def reach(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                raise Died

    return reach


def fill(world: World, first: int) -> None:
    world.live.send_many([(Drone, f"d-{i}", Tick(n=i)) for i in range(first, first + 7)])
    world.live.send_many([(Visitor, f"v-{i}", Tick(n=i)) for i in range(first, first + 3)])
    world.pass_time(30.0)


@pytest.mark.parametrize("kind", ["events", "actions", "states"])
@pytest.mark.parametrize("point", POINTS)
def test_deaths_in_every_write_of_an_export(
    sink: Sink, point: str, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ROWS_PER_BATCH", 3)
    deaths = 0
    with opened(fleet, "memory", tmp_path, partitions=2) as world:
        for round_number in range(6):
            fill(world, round_number * 5)
            try:
                export(world.engine, kind, sink, reach=dying(point, 1 + round_number % 3))
            except Died:
                deaths += 1
        export(world.engine, kind, sink)
        if kind == "states":
            assert sink.states() == committed(world.engine)
        else:
            rows = sink.rows(kind)
            names = [
                (row["partition"], row.get("position", row.get("number")), row.get("fired"))
                for row in rows
            ]
            assert len(set(names)) == len(names)
            view = world.engine.view
            if kind == "events":
                total = sum(view(n).head().position + view(n).head().journal_next for n in (0, 1))
            else:
                total = sum(view(n).head().actions_next for n in (0, 1))
            assert len(names) == total > 20
    # Only folders have a step between the commit and the end of a write.
    never = point == "export.inside" and sink.name in ("file", "postgres")
    assert (deaths == 0) == never
    assert list(tmp_path.rglob(".*.part")) == []


def test_a_death_while_a_first_file_is_written_is_cut_off(tmp_path: Path) -> None:
    sink = sink_named("file", tmp_path, "")
    with opened(fleet, "memory", tmp_path) as world:
        fill(world, 0)
        with pytest.raises(Died):
            export(world.engine, "events", sink, reach=dying("export.before", 1))
        assert (tmp_path / "events.ndjson").stat().st_size > 0
        with open(tmp_path / "events.ndjson", "ab") as file:
            file.write(b'{"half a li')
        assert export(world.engine, "events", sink) == 10
        assert len(sink.rows("events")) == 10
