"""Topics full of single events, as JSON: what every contender on Kafka reads.

Partition `p` of `n` holds lane `p` of `n` lanes of bench/events.py, in its order: an agent's events
are all in one partition, and offset k of a partition is event k of a lane. So the committed offsets
of a group are the counts that bench/oracle.py wants, wherever the group was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.events import BATTERY, HEARTBEAT, POSITION, RESTS, Events, Stream, key_of

CHUNK = 1 << 16
WAITING_MAX = 8 * CHUNK  # records in the producer; more only take memory
ADMIN_SECONDS = 60.0


def make_topics(admin: AdminClient, partitions: int, *names: str) -> None:
    if RESTS % partitions:
        raise ValueError(f"{partitions} partitions: give a divisor of {RESTS}")
    made = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    for done in made.values():
        done.result(ADMIN_SECONDS)


def counts_of(events: int, partitions: int) -> list[int]:
    """How many of so many events are in each partition."""
    return [len(range(lane, events, partitions)) for lane in range(partitions)]


def preload(bootstrap: str, topic: str, partitions: int, stream: Stream, events: int) -> None:
    """Write the first `events` events of a stream."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,  # keeps the order over a retry
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 2 * WAITING_MAX,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    failed: list[Any] = []
    for lane, count in enumerate(counts_of(events, partitions)):
        for first in range(0, count, CHUNK):
            part = Events(stream, lane, partitions, first, min(CHUNK, count - first))
            while len(producer) > WAITING_MAX:
                producer.poll(0.05)
            messages = [{"key": key, "value": value} for key, value in records(part)]
            if producer.produce_batch(topic, messages, partition=lane) != len(messages):
                failed += [each["_error"] for each in messages if "_error" in each]
    if failed or producer.flush(ADMIN_SECONDS):
        raise RuntimeError(f"events were not written: {failed[:1] or 'no answer in time'}")


def records(part: Events) -> Iterator[tuple[str, str]]:
    """Keys and values. JSON writes a float so that reading gives the same bits."""
    agents, kinds = part.agent.tolist(), part.kind.tolist()
    rows = zip(part.lat.tolist(), part.lon.tolist(), part.alt.tolist(), strict=True)
    percents, beats = part.percent.tolist(), part.beat.tolist()
    for agent, kind, (lat, lon, alt), percent, beat in zip(
        agents, kinds, rows, percents, beats, strict=True
    ):
        if kind == POSITION:
            value = f'{{"type":"Position","lat":{lat!r},"lon":{lon!r},"alt":{alt!r}}}'
        elif kind == BATTERY:
            value = f'{{"type":"Battery","percent":{percent!r}}}'
        elif kind == HEARTBEAT:
            value = f'{{"type":"Heartbeat","number":{beat}}}'
        else:
            raise ValueError("a topic holds positions and mixed events, no messages")
        yield key_of(agent), value
