"""Real Apache Kafka for tests: one or three brokers (KRaft) as Java processes on loopback ports.

HOLDFAST_TEST_KAFKA=host:port uses a broker that is there, in tests that need only a plain one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_jars import jars
from tests.servers.kafka_settings import LEFT_ALONE, broker_settings, java_options
from tests.servers.ports import free_ports
from tests.servers.small_disks import SmallDisks

READY_SECONDS = 90.0
CLUSTER_ID = "holdfast-tests-cluster"  # 22 characters, as Kafka's own


class KafkaCluster:
    """Brokers are numbered from 1, as Kafka names them in what it tells about leaders.

    `advertised(broker, port)` gives the port that clients are told in place of `port`: that of a
    proxy. `settings` are added to, or replace, those of kafka_settings.py. With `disk_bytes` each
    broker's data is on a filesystem of that size. A benchmark says `tests=False` for a usual JVM.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        folder: Path | None = None,
        advertised: Callable[[int, int], int] | None = None,
        settings: Mapping[str, object] | None = None,
        disk_bytes: int | None = None,
        heap_mb: int = 256,
        tests: bool = True,
    ) -> None:
        self._own_folder = folder is None
        self._tests = tests
        self.folder = folder or Path(tempfile.mkdtemp(prefix="holdfast-kafka-"))
        ports = iter(free_ports(3 * brokers))
        self.brokers = [
            KafkaBroker(
                number,
                self.folder / f"broker-{number}",
                *(next(ports), next(ports), next(ports)),
                java_options(heap_mb, tests),
            )
            for number in range(1, brokers + 1)
        ]
        told = advertised or (lambda _, port: port)
        self._advertised = {each.number: told(each.number, each.port) for each in self.brokers}
        self._settings = dict(settings or {})
        self.disks = SmallDisks(disk_bytes) if disk_bytes else None
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._advertised.values())

    def broker(self, number: int) -> KafkaBroker:
        return self.brokers[number - 1]

    def start(self) -> None:
        if self._tests:
            archive = jars().with_name("classes.jsa")
            if not archive.exists():
                _write_classes(archive)
            for each in self.brokers:
                each.java_options.append(f"-XX:SharedArchiveFile={archive}")
        self._launch()

    def _launch(self) -> None:
        self._format()
        for each in self.brokers:
            each.start()
        self.wait_ready()

    def stop(self) -> None:
        """Without a goodbye: nobody needs the data any more."""
        for each in self.brokers:
            each.kill()
        if self.disks:
            self.disks.unmount()
        if self._own_folder:
            shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _settings_of(self, broker: KafkaBroker) -> dict[str, object]:
        told = self._advertised[broker.number]
        return {**broker_settings(broker, self.brokers, told), **self._settings}

    def _format_options(self) -> list[str]:
        return ["--cluster-id", CLUSTER_ID]

    def _format(self) -> None:
        formatting = []
        for each in self.brokers:
            for folder in (each.data, each.metadata):
                folder.mkdir(parents=True)
            if self.disks:
                self.disks.mount(each.data)
            formatting.append(each.format(self._settings_of(each), self._format_options()))
        for each, process in zip(self.brokers, formatting, strict=True):
            assert process.wait(READY_SECONDS) == 0, each.log_tail()

    def admin(self) -> AdminClient:
        """With all rights, and beside any proxy."""
        return _admin(",".join(f"127.0.0.1:{each.internal_port}" for each in self._alive()))

    def _alive(self) -> list[KafkaBroker]:
        return [each for each in self.brokers if each.is_running and not each.paused]

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
        admin = self.admin()  # one that nothing holds ends before it has done anything
        admin.create_topics([topic])[name].result(READY_SECONDS)
        self.wait_ready()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Until the brokers that run, and only they, serve, and every copy of theirs is in sync."""
        deadline = time.monotonic() + seconds
        while (trouble := self._trouble()) is not None:
            dead = [each for each in self.brokers if each.has_failed]
            if dead or time.monotonic() > deadline:
                tails = [f"{each.number}: {each.log_tail()}" for each in dead or self.brokers]
                raise AssertionError("\n".join([f"Kafka is not ready: {trouble}", *tails]))
            time.sleep(0.1)

    def _trouble(self) -> str | None:
        """Each is asked for itself: one that was just started again may still count as there."""
        expected = {each.number for each in self._alive()}
        for each in self._alive():
            try:
                seen = _admin(f"127.0.0.1:{each.internal_port}").list_topics(timeout=2)
            except KafkaException as error:
                return f"broker {each.number} does not answer: {error}"
            if set(seen.brokers) != expected:
                return f"broker {each.number} sees the brokers {set(seen.brokers)}"
            for topic in seen.topics.values():
                for partition in topic.partitions.values():
                    if set(partition.isrs) != set(partition.replicas) & expected:
                        return f"of {topic.topic} only {partition.isrs} are in sync"
                    if partition.leader not in expected:
                        return f"nobody leads partition {partition.id} of {topic.topic}"
        return None

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker's number; -1 while nobody leads."""
        seen = self.admin().list_topics(topic, timeout=READY_SECONDS)
        return seen.topics[topic].partitions[partition].leader

    def controller(self, seconds: float = READY_SECONDS) -> int:
        """The number of the active controller, from what each wrote down about the last election.

        Clients are not told: what `describe_cluster` calls controller is any broker.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            elections = []
            for each in self._alive():
                file = each.metadata / "__cluster_metadata-0" / "quorum-state"
                told = json.loads(file.read_text("utf-8"))
                elections.append((told["leaderEpoch"], told["leaderId"]))
            leader = max(elections)[1]
            if leader in {each.number for each in self._alive()}:
                return int(leader)
            time.sleep(0.1)
        raise AssertionError(f"no controller within {seconds:g} s")


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _write_classes(archive: Path) -> None:
    """One broker writes down the classes that it has loaded, at its end.

    Java reads them from there at every later start, and is ready in half the time. A file that
    does not fit (after an update of Java) it leaves alone.
    """
    half = archive.with_name(f"half-{os.getpid()}.jsa")
    cluster = KafkaCluster()
    cluster.broker(1).java_options.append(f"-XX:ArchiveClassesAtExit={half}")
    try:
        cluster._launch()
        cluster.broker(1).stop()
    finally:
        cluster.stop()
    half.rename(archive)  # a run that is killed before leaves nothing that looks whole


@contextmanager
def running_kafka() -> Iterator[str]:
    """Where to connect to a plain broker, for tests that leave it alone."""
    given = os.environ.get("HOLDFAST_TEST_KAFKA")
    if given:
        yield given
        return
    with KafkaCluster(settings=LEFT_ALONE) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """One plain broker for all tests of a run; whoever kills brokers has a cluster of their own."""
    with running_kafka() as bootstrap:
        yield bootstrap
