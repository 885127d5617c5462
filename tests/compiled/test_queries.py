"""Goal: SQL says the same of compiled agents, whose states lie in blocks, as of any others."""

from __future__ import annotations

import json
import random
from enum import Enum
from pathlib import Path
from typing import Annotated

from holdfast import Agent, Context, Event, Fleet, Length, Width, on
from holdfast.engine.port import Engine
from holdfast.view.sql.picture import ClassSheets, Picture
from holdfast.view.sql.queries import Queries


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Measure(Event):
    value: float
    label: Annotated[str, Width(8)] = ""


class Later(Event):
    pass


class Probe(Agent, compiled=True):
    level: Level = Level.LOW
    count: int = 0
    on_air: bool = False
    value: float = 0.0
    label: Annotated[str, Width(8)] = ""
    last: Annotated[list[float], Length(3)] = []

    @on
    def measures(self, event: Measure, ctx: Context) -> None:
        self.count += 1
        self.value = event.value
        self.label = event.label
        self.on_air = not self.on_air
        self.level = Level.HIGH if event.value > 50.0 else Level.LOW
        if len(self.last) < 3:
            self.last.append(event.value)
        if event.value > 90.0:
            ctx.after(1000.0, Later(), name="later")

    @on
    def later(self, event: Later, ctx: Context) -> None:
        self.count = 0


FLEET = Fleet("probes", agents=[Probe])


def test_blocks_are_rows(tmp_path: Path) -> None:
    chance = random.Random(11)
    with FLEET.open(f"sqlite:{tmp_path / 'data'}", partitions=2) as live, Queries(live) as queries:
        for _ in range(8):
            live.send_many(
                [
                    (Probe, f"p-{chance.randrange(200)}", Measure(chance.uniform(0, 99), "é"))
                    for _ in range(chance.choice([1, 300]))
                ]
            )
            live.settle()
            sql = "SELECT key, level, count, on_air, value, label, last FROM probe"
            found = {row[0]: row[1:] for row in queries.answer(sql).rows}
            expected = {
                key: [s.level.value, s.count, s.on_air, s.value, s.label, s.last]
                for key, s in live.states(Probe)
            }
            assert {k: [*row[:5], json.loads(str(row[5]))] for k, row in found.items()} == expected
        blocks = [c for c in live.engine.view(0).changes(-1) if c.block]
        assert blocks, "nothing lay in blocks"
        assert len(_picture(live.engine)) == len(expected)


def _picture(engine: Engine) -> ClassSheets:
    picture = Picture(engine)
    picture.agents()
    picture.refresh(["Probe"])
    return picture.of("Probe")
