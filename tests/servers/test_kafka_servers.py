"""Goal: the Kafka of the tests is real: it keeps its word over kills, and its faults are faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.run.speed import patient
from tests.servers.kafka import KafkaCluster, running_kafka
from tests.servers.kafka_jars import jars
from tests.servers.kafka_secure import SecureKafkaCluster
from tests.servers.proxy import Proxy

PATIENCE_SECONDS = patient(30.0)
ROOT = Path(__file__).parents[2]
QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 300}


def produce(
    settings: Mapping[str, Any],
    topic: str,
    value: bytes,
    partition: int = 0,
    *,
    seconds: float = PATIENCE_SECONDS,
) -> int:
    """The offset, once all copies that are in sync have it."""
    patience = {"acks": "all", "message.timeout.ms": int(seconds * 1000)}
    producer = Producer({**QUICK, **patience, **settings})
    told: list[tuple[KafkaError | None, Any]] = []
    producer.produce(topic, value, partition=partition, on_delivery=lambda *each: told.append(each))
    producer.flush(seconds + 5)
    error, message = told[0]
    if error is not None:
        raise KafkaException(error)
    return int(message.offset())


def values(
    settings: Mapping[str, Any], topic: str, count: int, partition: int = 0
) -> list[bytes | None]:
    consumer = Consumer({"group.id": topic, **QUICK, **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        return [each.value() for each in messages if each.error() is None]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[KafkaCluster, Proxy]]:
    with (
        Proxy() as proxy,
        KafkaCluster(advertised=lambda _, port: proxy.in_front_of(port)) as cluster,
    ):
        yield cluster, proxy


@pytest.mark.kill
def test_a_confirmed_record_is_there_after_a_kill(proxied: tuple[KafkaCluster, Proxy]) -> None:
    cluster, _ = proxied
    settings = {"bootstrap.servers": cluster.bootstrap}
    cluster.create_topic("kept")
    assert produce(settings, "kept", b"before") == 0
    killed = cluster.broker(1).pid
    cluster.broker(1).kill()
    # A broker lives on when the thread that started it has ended.
    starter = threading.Thread(target=cluster.broker(1).start)
    starter.start()
    starter.join()
    cluster.wait_ready()
    assert cluster.broker(1).pid != killed
    assert produce(settings, "kept", b"after") == 1
    assert values(settings, "kept", 2) == [b"before", b"after"]


def test_clients_see_only_the_proxy(proxied: tuple[KafkaCluster, Proxy]) -> None:
    cluster, proxy = proxied
    settings = {"bootstrap.servers": cluster.bootstrap}
    cluster.create_topic("cut")
    assert produce(settings, "cut", b"1") == 0
    proxy.cut(cluster.broker(1).port)
    with pytest.raises(KafkaException, match="timed out"):
        produce(settings, "cut", b"2", seconds=1.0)
    proxy.heal()
    assert produce(settings, "cut", b"3") == 1
    assert values(settings, "cut", 2) == [b"1", b"3"]


@pytest.mark.kill
def test_three_brokers_go_on_without_the_one_that_leads_and_controls() -> None:
    with KafkaCluster(brokers=3) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap}
        cluster.create_topic("led", partitions=3)  # each broker leads one
        killed = cluster.controller()
        leaders = [cluster.leader_of("led", partition) for partition in range(3)]
        partition = leaders.index(killed)
        assert produce(settings, "led", b"1", partition) == 0
        cluster.broker(killed).kill()
        assert produce(settings, "led", b"2", partition) == 1
        assert cluster.leader_of("led", partition) not in {killed, -1}
        assert cluster.controller() != killed
        assert values(settings, "led", 2, partition) == [b"1", b"2"]


def test_rights_are_by_prefix_with_a_password_or_a_token() -> None:
    with SecureKafkaCluster() as cluster:
        for tenant in ("tenant-a", "tenant-b"):
            cluster.add_user(tenant)
            cluster.allow(tenant, f"{tenant}.")
            cluster.create_topic(f"{tenant}.topic")
        offsets = []
        for settings in (cluster.client_settings("tenant-a"), cluster.token_settings("tenant-a")):
            offsets.append(produce(settings, "tenant-a.topic", b"mine"))
            with pytest.raises(KafkaException, match="authorization failed"):
                produce(settings, "tenant-b.topic", b"not mine")
        assert offsets == [0, 1]
        stranger = {**cluster.client_settings("tenant-a"), "sasl.password": "wrong"}
        with pytest.raises(KafkaException, match="timed out"):
            produce(stranger, "tenant-a.topic", b"not mine", seconds=1.0)


@pytest.mark.kill
def test_a_full_disk_ends_a_broker_and_a_larger_one_helps() -> None:
    with KafkaCluster(disk_bytes=8 << 20) as cluster:
        assert cluster.disks is not None
        settings = {"bootstrap.servers": cluster.bootstrap}
        cluster.create_topic("full")
        written = 0
        with pytest.raises(KafkaException):
            for _ in range(20):
                written = 1 + produce(settings, "full", os.urandom(900_000), seconds=patient(5.0))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while cluster.broker(1).is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not cluster.broker(1).is_running
        cluster.disks.resize(32 << 20)
        cluster.broker(1).start()
        cluster.wait_ready()
        assert produce(settings, "full", b"more") == written > 0


@pytest.mark.kill
def test_brokers_end_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from tests.servers.kafka import KafkaCluster\n"
        f"cluster = KafkaCluster(folder=Path({str(tmp_path)!r}))\n"
        "cluster.start()\n"
        "cluster.broker(1).pause()\n"
        "print(cluster.broker(1).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert run.stdout is not None
    with run.stdout:
        broker = Path("/proc") / run.stdout.readline().decode().strip() / "cmdline"
    assert b"kafka.Kafka" in broker.read_bytes()
    run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while broker.exists() and broker.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)  # one that has ended, and that nobody has asked for, has an empty line
    assert not broker.exists() or not broker.read_bytes()


def test_a_broker_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_KAFKA", "kafka.example:9092")
    with running_kafka() as bootstrap:
        assert bootstrap == "kafka.example:9092"


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
@pytest.mark.parametrize("maven", ["there is none", "it fails"])
def test_what_maven_cannot_fetch_is_missing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maven: str, ci: str, outcome: type[Exception]
) -> None:
    (tmp_path / "bin").mkdir()
    if maven == "it fails":
        program = tmp_path / "bin" / "mvn"
        program.write_text("#!/bin/sh\nmkdir lib\necho half > lib/half.jar\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin" if maven == "it fails" else "")
    monkeypatch.setenv("HOLDFAST_SERVERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOLDFAST_CI", ci)
    with pytest.raises(outcome, match="Apache Kafka is missing"):
        jars()
    assert [each.name for each in (tmp_path / "cache").iterdir()] == ["kafka.lock"]
