"""Foreign producers for the tests of source topics, the fleet they mean, and what it has to hold.

The producers know nothing of Holdfast. The oracle is told by the brokers where each record went.
"""

from __future__ import annotations

import json
import random
import signal
import time
import uuid
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from os import kill
from pathlib import Path
from typing import cast

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.commands import Running, holdfast_here

FLEET = """
from holdfast import Agent, Context, Event, Fleet, on

class Position(Event):
    lane: str
    n: int

class Battery(Event):
    percent: float

class Drone(Agent):
    seen: dict[str, int] = {}
    chain: dict[str, int] = {}  # differs if anything is lost, doubled or out of order
    percent: float = 100.0

    @on(Position)
    def moved(self, event: Position, ctx: Context) -> None:
        self.seen[event.lane] = self.seen.get(event.lane, 0) + 1
        self.chain[event.lane] = (self.chain.get(event.lane, 7) * 31 + event.n) % 1000003

    @on(Battery)
    def battery(self, event: Battery, ctx: Context) -> None:
        self.percent = event.percent

fleet = Fleet("NAME", [Drone])
"""
KEYS = [f"d-{number}" for number in range(40)]
PATIENCE_SECONDS = 120.0
SESSION = "session_seconds=2"


@dataclass
class Site:
    """A broker, a folder, and names that nobody else has."""

    bootstrap: str
    folder: Path
    name: str = field(default_factory=lambda: f"src-{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        (self.folder / "fleet.py").write_text(FLEET.replace("NAME", self.name))

    def topic(self, word: str, partitions: int = 3) -> str:
        name = f"{word}-{self.name}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(30)
        return name

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(30)
        while topic in admin.list_topics(timeout=30).topics:
            time.sleep(0.1)

    def url(self, engine: str) -> str:
        if engine == "sqlite":
            return "sqlite:data"
        cache = self.folder / "cache"
        return f"kafka://{self.bootstrap}/{self.name}?{SESSION}&cache={cache}"

    def run(self, engine: str, *sources: str) -> Running:
        words = [word for source in sources for word in ("--source", source)]
        if engine == "sqlite":
            words += ["--source-brokers", f"{self.bootstrap}?{SESSION}", "--snapshots", "none"]
        return Running(
            *("fleet.py", "--engine", self.url(engine), "--workers", 2, "--partitions", 3),
            *words,
            cwd=self.folder,
        )

    def states(self, engine: str) -> dict[str, dict[str, object]]:
        words = ("state", "Drone", "--engine", self.url(engine), "--json", "--limit", 1000)
        said = holdfast_here(*words, cwd=self.folder)
        found = [json.loads(line) for line in said.stdout.splitlines()]
        return {each["key"]: each["state"] for each in found}

    def wait_for(self, engine: str, wanted: dict[str, dict[str, object]]) -> None:
        """Until the agents hold this, in the fields that are named. What is there is folded soon;
        a difference that stays is one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = self.states(engine)
            fields = {
                key: {name: found.get(key, {}).get(name) for name in values}
                for key, values in wanted.items()
            }
            if fields == wanted:
                return
            assert time.monotonic() < deadline, (fields, wanted)
            time.sleep(0.3)

    def letters(self, engine: str) -> str:
        words = ("dead-letters", "--engine", self.url(engine))
        return holdfast_here(*words, cwd=self.folder).stdout

    def rejected(self) -> list[Message]:
        """Everything in the topic of rejected records."""
        topic = f"{self.name}.rejected"
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex})
        with closing(consumer):
            _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            consumer.assign([TopicPartition(topic, 0, 0)])
            return consumer.consume(high, 30) if high else []

    def committed(self, topic: str, partitions: int = 3) -> list[int]:
        group = {"bootstrap.servers": self.bootstrap, "group.id": f"{self.name}.sources"}
        with closing(Consumer(group)) as consumer:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            return [each.offset for each in consumer.committed(places, timeout=30)]

    def ends(self, topic: str, partitions: int = 3) -> list[int]:
        group = {"bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex}
        with closing(Consumer(group)) as consumer:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            return [consumer.get_watermark_offsets(each, timeout=30)[1] for each in places]

    def reading(self, topic: str) -> list[str]:
        """The members of the group of readers that have partitions of a topic."""
        group = f"{self.name}.sources"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found = admin.describe_consumer_groups([group])[group].result(30)
        return [
            member.member_id
            for member in found.members
            if any(each.topic == topic for each in member.assignment.topic_partitions)
        ]

    def wait_committed(self, *topics: str, partitions: int = 3) -> None:
        """Until everything that is in the topics is in the inboxes, and committed as read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for topic in topics:
            while self.committed(topic, partitions) != self.ends(topic, partitions):
                assert time.monotonic() < deadline, (topic, self.committed(topic, partitions))
                time.sleep(0.3)


class Telemetry:
    """Positions of drones, and what their agents hold when each arrived once and in order."""

    def __init__(self, site: Site, topic: str, form: str, partitioner: str | None) -> None:
        """Without a partitioner each record goes to any partition, whatever its key."""
        self._topic = topic
        self._form = form
        self._spread = partitioner is None
        self._lane = topic.partition("-")[0]
        self._chance = random.Random(topic)
        self._next = 0
        self._records: list[tuple[int, int, str, int]] = []  # partition, offset, key, n
        self._producer = Producer(
            {
                "bootstrap.servers": site.bootstrap,
                "enable.idempotence": True,  # or its retries change the order in the topic
                "partitioner": partitioner or "random",
                "linger.ms": 2,
            }
        )

    def produce(self, count: int) -> None:
        for _ in range(count):
            key, n = self._chance.choice(KEYS), self._next
            self._next += 1
            where = self._chance.randrange(3) if self._spread else -1
            fields = {"lane": self._lane_of(where), "n": n}
            value = json.dumps(fields) if self._form == "json" else msgspec.msgpack.encode(fields)

            def delivered(
                error: KafkaError | None, record: Message, key: str = key, n: int = n
            ) -> None:
                assert error is None, error
                self._records.append((record.partition() or 0, record.offset() or 0, key, n))

            self._producer.produce(
                self._topic, value, key=key, partition=where, on_delivery=delivered
            )
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _lane_of(self, partition: int) -> str:
        return f"{self._lane}{partition}" if self._spread else self._lane

    def expected(self) -> dict[str, dict[str, dict[str, int]]]:
        """`seen` and `chain` by key."""
        found: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: {"seen": {}, "chain": {}})
        for partition, _, key, n in sorted(self._records):
            lane = self._lane_of(partition)
            seen, chain = found[key]["seen"], found[key]["chain"]
            seen[lane] = seen.get(lane, 0) + 1
            chain[lane] = (chain.get(lane, 7) * 31 + n) % 1000003
        return found


def headers_of(record: Message) -> dict[str, str]:
    headers = cast("list[tuple[str, bytes]]", record.headers() or [])
    return {name: value.decode() for name, value in headers}


def reader_of(running: Running) -> int | None:
    """The process that reads source topics, if it runs just now."""
    for pid in running.workers():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"holdfast.runtime.sourcing.process" in words:
            return pid
    return None


def kill_reader(running: Running) -> int:
    """Without a chance to say goodbye."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (pid := reader_of(running)) is None:
        assert time.monotonic() < deadline, running.errors.read_text()
        time.sleep(0.05)
    kill(pid, signal.SIGKILL)
    return pid
