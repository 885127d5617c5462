"""Goal: on Kafka too nothing is lost, doubled or out of order, whatever is killed, cut off or late.

Real brokers, two machines with workers, two producers; then the states, the actions and the topics
themselves are compared with the oracle. More seeds: HOLDFAST_KAFKA_SEEDS=7,8 or `make chaos-kafka`,
whose runs are longer too. A run without any fault is in test_verdict.py.
"""

import os
from collections.abc import Callable

import pytest

from tests.kafka.chaos import run
from tests.kafka.faults import MIXED, WORKERS_ONLY, Fault, plan

SEEDS = [int(seed) for seed in os.environ.get("HOLDFAST_KAFKA_SEEDS", "1").split(",")]
FULL_DISK = [
    Fault("fill the disk", after_seconds=1.0, lasts_seconds=4.0, pick=0),
    Fault("kill a worker", after_seconds=0.5, lasts_seconds=0.0, pick=1),
]
pytestmark = [pytest.mark.kill, pytest.mark.slow]

Record = Callable[[str, object], None]


@pytest.fixture
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand meet as many faults as fifty thousand, which `make chaos-kafka` sends."""
    monkeypatch.setenv("SWARM_ROWS_PER_SECOND", "75")


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_are_killed(seed: int, record_property: Record) -> None:
    result = run(seed, plan(seed, WORKERS_ONLY, 6), brokers=1)
    assert result.faults.total() == 6
    record_property("summary", str(result))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("few_events")
@pytest.mark.parametrize("seed", SEEDS)
def test_everything_fails_at_some_time(seed: int, record_property: Record) -> None:
    result = run(seed, plan(seed, MIXED, len(MIXED)), brokers=3)
    assert result.faults.keys() == MIXED.keys(), "every kind had its turn"
    record_property("summary", str(result))


def test_the_disk_of_a_broker_is_full(record_property: Record) -> None:
    """Of three: one alone may forget which of its transactions were committed (docs/kafka.md)."""
    result = run(SEEDS[0], FULL_DISK, brokers=3, disk_bytes=32 << 20)
    record_property("summary", str(result))
