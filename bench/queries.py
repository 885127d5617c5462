"""What SQL over 100,000 agents costs: the first question, others, and others while agents change.

    python -m bench.queries [--agents N] [--rounds R] [--compiled]

A fleet is folded in this process; the questions are asked from a handle beside it, as a gateway
does. Every question groups all agents. Figures are milliseconds: the median, and the slowest.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from enum import Enum

from holdfast import Agent, Context, Event, Fleet, on
from holdfast.runtime.untyped import connect_untyped
from holdfast.view.sql.picture import Picture
from holdfast.view.sql.queries import Queries

BATCH = 10_000
SQL = "SELECT mode, count(*), avg(battery) FROM drone WHERE alt >= 0 GROUP BY mode"


class Mode(Enum):
    FLYING = "flying"
    LANDING = "landing"


class Report(Event):
    alt: float
    battery: float


def fleet_of(compiled: bool) -> tuple[Fleet, type[Agent]]:
    class Drone(Agent, compiled=compiled):
        mode: Mode = Mode.FLYING
        lat: float = 0.0
        lon: float = 0.0
        alt: float = 0.0
        battery: float = 100.0
        reports: int = 0

        @on
        def report(self, event: Report, ctx: Context) -> None:
            self.alt = event.alt
            self.battery = event.battery
            self.reports += 1
            self.mode = Mode.LANDING if event.battery < 15.0 else Mode.FLYING

    return Fleet("queries", agents=[Drone]), Drone


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def show(what: str, taken: list[float]) -> None:
    print(f"{what:<46} {statistics.median(taken):8.1f} {max(taken):8.1f}")


def measure(root: str, agents: int, rounds: int, compiled: bool) -> None:
    fleet, drone = fleet_of(compiled)
    chance = random.Random(1)

    def change(count: int) -> None:
        keys = chance.sample(range(agents), count)
        live.send_many(
            [(drone, f"d-{key}", Report(chance.random(), chance.random() * 100)) for key in keys]
        )
        live.settle(timeout=120.0)

    url = f"sqlite:{root}/data"
    with fleet.open(url, partitions=2) as live:
        for first in range(0, agents, BATCH):
            keys = range(first, min(first + BATCH, agents))
            live.send_many([(drone, f"d-{key}", Report(1.0, key % 100)) for key in keys])
        live.settle(timeout=300.0)
        with connect_untyped(url) as reader:
            print(f"{agents:,} agents, {'compiled' if compiled else 'interpreted'}")
            print(f"{'':<46} {'median':>8} {'slowest':>8}   ms")
            cold = Queries(reader)
            show("the first question of a process", [milliseconds(lambda: cold.answer(SQL))])
            cold.close()
            picture = Picture(reader.engine)
            picture.agents()
            show(
                "  of that, reading all agents", [milliseconds(lambda: picture.refresh(["Drone"]))]
            )
            with Queries(reader) as queries:
                queries.answer(SQL)
                ask = [milliseconds(lambda: queries.answer(SQL)) for _ in range(rounds)]
                show("again, nothing changed", ask)
                for changed in (1, agents // 1000, agents // 100, agents // 10):
                    taken = []
                    for _ in range(rounds):
                        change(changed)
                        taken.append(milliseconds(lambda: queries.answer(SQL)))
                    show(f"after {changed:,} agents have changed", taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--compiled", action="store_true")
    wanted = parser.parse_args()
    root = tempfile.mkdtemp(prefix="holdfast-bench-")
    try:
        measure(root, wanted.agents, wanted.rounds, wanted.compiled)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
