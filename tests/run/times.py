"""What each test costs: wall seconds, processor seconds, and so the seconds in which it waits.

A pytest plugin: `pytest -p tests.run.times`, with HOLDFAST_TEST_TIMES=FILE, writes a line of JSON
per test, from every process of a run. `python -m tests.run.times FILE` makes the table of
docs/TESTING.md of it (`make test-times` does both).

Processor seconds are those of the test's process, all its threads, and of the children that ended
during the test, with theirs. A server that all tests of a run share counts where it is stopped.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

FILE = "HOLDFAST_TEST_TIMES"
DEAREST = 25


def _processor_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    wall, processor = time.monotonic(), _processor_seconds()
    try:
        return (yield)
    finally:
        cost = Cost(
            item.nodeid,
            time.monotonic() - wall,
            _processor_seconds() - processor,
        )
        with Path(os.environ[FILE]).open("a", encoding="utf-8") as out:  # one write: whole lines
            out.write(json.dumps([cost.test, cost.wall, cost.processor]) + "\n")


@dataclass(frozen=True)
class Cost:
    test: str
    wall: float
    processor: float

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def folder(self) -> str:
        return "/".join(self.file.split("/")[:2])


def read(path: Path) -> list[Cost]:
    return [Cost(*json.loads(line)) for line in path.read_text("utf-8").splitlines()]


@dataclass(frozen=True)
class Row:
    """What several tests cost together."""

    name: str
    tests: int
    wall: float
    processor: float
    waits: float

    @classmethod
    def of(cls, name: str, costs: list[Cost]) -> Row:
        return cls(
            name,
            len(costs),
            sum(each.wall for each in costs),
            sum(each.processor for each in costs),
            sum(max(0.0, each.wall - each.processor) for each in costs),
        )

    def __str__(self) -> str:
        seconds = " | ".join(f"{each:.1f}" for each in (self.wall, self.processor, self.waits))
        return f"| `{self.name}` | {self.tests} | {seconds} |"


def _rows(costs: list[Cost], name: Callable[[Cost], str]) -> list[Row]:
    groups: dict[str, list[Cost]] = defaultdict(list)
    for cost in costs:
        groups[name(cost)].append(cost)
    rows = [Row.of(*group) for group in groups.items()]
    return sorted(rows, key=lambda row: -row.wall)


def table(costs: list[Cost]) -> str:
    """Markdown: each folder, and behind them the files that take longest."""
    head = "| {} | tests | wall s | processor s | waits s |\n|---|---|---|---|---|"
    lines = [head.format("folder"), *map(str, _rows(costs, lambda cost: cost.folder))]
    lines += [str(Row.of("all", costs)), "", head.format("dearest files")]
    lines += map(str, _rows(costs, lambda cost: cost.file)[:DEAREST])
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]))))
