"""What a contender on Kafka has committed, for bench/oracle.py, as any consumer would read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from numpy.typing import NDArray

from bench.events import Floats
from bench.oracle import ACTIONS, COUNTS, FLOATS, Outcome, Tally, states_outcome

# Gives a drone's number and its state, in the order of STATE, from a record of a changelog.
ReadState = Callable[[bytes, bytes], tuple[int, Sequence[float]]]

STATE = (*FLOATS, *COUNTS)
VALUES = {"Descend": "to"}  # the field of an action that is compared; others have none
READ_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.2  # `consume` waits so long for its whole number


def committed_records(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """All there are now, without those of transactions that are open or were aborted."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    ended: set[int | None] = set()
    heard = time.monotonic()
    try:
        while len(ended) < partitions:
            if time.monotonic() > heard + READ_SECONDS_MAX:
                raise TimeoutError(f"{topic} gave nothing for {READ_SECONDS_MAX:g} s")
            for message in consumer.consume(10_000, LOOK_SECONDS):
                heard = time.monotonic()
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise RuntimeError(f"{topic}: {error}")
    finally:
        consumer.close()


def number_in(key: str) -> int:
    return int(key.removeprefix("d-"))


def actions_in(
    bootstrap: str, topic: str, partitions: int, key_of: Callable[[bytes], str]
) -> dict[str, tuple[int, int]]:
    """Count and hash of each class of action."""
    agents: dict[str, list[int]] = {name: [] for name in ACTIONS}
    values: dict[str, list[float]] = {name: [] for name in ACTIONS}
    for message in committed_records(bootstrap, topic, partitions):
        action = msgspec.json.decode(message.value() or b"")
        name = action["action"]
        agents[name].append(number_in(key_of(message.key() or b"")))
        values[name].append(action[VALUES[name]] if name in VALUES else 0.0)
    tally = Tally()
    for name in ACTIONS:
        tally.add(name, agents[name], np.asarray(values[name], dtype=np.float64))
    return tally.outcome()


def outcome(
    bootstrap: str,
    output: str,
    changelog: str,
    partitions: int,
    agents: int,
    key_of: Callable[[bytes], str],
    read_state: ReadState,
) -> Outcome:
    """Actions from the output topic; states from the last record per drone of the changelog, which
    is what a new worker would begin with."""
    latest: dict[int, Sequence[float]] = {}
    for message in committed_records(bootstrap, changelog, partitions):
        number, state = read_state(message.key() or b"", message.value() or b"")
        latest[number] = state
    columns: Mapping[str, Floats | NDArray[np.int64]] = {
        **{name: np.zeros(agents) for name in FLOATS},
        **{name: np.zeros(agents, dtype=np.int64) for name in COUNTS},
    }
    for number, state in latest.items():
        for name, value in zip(STATE, state, strict=True):
            columns[name][number] = value
    there = np.asarray(sorted(latest), dtype=np.uint64)
    actions = actions_in(bootstrap, output, partitions, key_of)
    return Outcome(len(there), states_outcome(columns, there), actions)
