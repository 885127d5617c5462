"""Goal: whatever keeps a fleet on Kafka from being opened is one line that says what and what to
do, of the right class and within seconds, from a program and on the command line."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from holdfast import Fleet
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.troubles import explain
from holdfast.errors import AccessDenied, HoldfastError, Unreachable, UsageError, WrongFleet
from tests.cli.commands import holdfast_here, refused
from tests.kafka.drones import FILE, Battery, Drone, fleet
from tests.kills.harness import wait_until
from tests.run.speed import patient
from tests.servers.kafka_secure import SecureKafkaCluster
from tests.servers.ports import free_ports

# Five for brokers that take no connection, and the start of a process.
SECONDS_MAX = patient(9.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureKafkaCluster]:
    with SecureKafkaCluster() as cluster:
        cluster.add_user("user")
        yield cluster


@pytest.fixture
def prefix() -> str:
    return f"refused-{uuid.uuid4().hex[:8]}"


@contextmanager
def told(kind: type[HoldfastError], *parts: str, seconds: float = SECONDS_MAX) -> Iterator[None]:
    """One line with all the parts, of exactly this class, and soon."""
    started = time.monotonic()
    with pytest.raises(kind) as raised:
        yield
    assert time.monotonic() - started < seconds
    assert type(raised.value) is kind
    text = str(raised.value)
    assert "\n" not in text
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


def refused_everywhere(url: str, kind: type[HoldfastError], *parts: str, cwd: Path) -> None:
    """By `open`, `connect` and the commands `run`, `send` and `state`."""
    for enter in (fleet.open, fleet.connect):
        with told(kind, *parts):
            enter(url)
    code = 2 if issubclass(kind, UsageError) else 3
    send = ["send", "Drone/d-1", "Battery", "percent=9"]
    for words in (["run", FILE], send, ["state", "Drone/d-1"]):
        refused(holdfast_here(*words, "--engine", url, cwd=cwd, code=code), *parts)


# Connections.


@pytest.fixture
def down_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are taken for down after one second. That it is five is not tested each time."""
    monkeypatch.setattr("holdfast.engine.kafka.troubles.DOWN_SECONDS", 1.0)


@pytest.mark.usefixtures("down_soon")
def test_nobody_listens(tmp_path: Path) -> None:
    url = f"kafka://127.0.0.1:{free_ports(1)[0]}/x"
    refused_everywhere(url, Unreachable, "Connection refused", "are the brokers up?", cwd=tmp_path)


def test_a_host_that_nobody_knows() -> None:
    with told(Unreachable, "resolve 'nowhere.invalid:9092'", "check the names of the hosts"):
        fleet.open("kafka://nowhere.invalid:9092/x")


def test_a_wrong_password(cluster: SecureKafkaCluster, tmp_path: Path) -> None:
    url = f"kafka://user:guess@{cluster.bootstrap}/x?ssl.ca.location={cluster.certificate}"
    parts = ["refuse our credentials", "invalid credentials", "check user, password"]
    refused_everywhere(url, AccessDenied, *parts, cwd=tmp_path)


@pytest.mark.usefixtures("down_soon")
@pytest.mark.parametrize(
    ("settings", "kind", "part"),
    [
        ("", Unreachable, "does this port want TLS or a password"),
        ("security.protocol=SSL&ssl.ca.location={ca}", Unreachable, "does this port want TLS"),
        ("security.protocol=SSL", AccessDenied, "certificate verify failed"),
        ("{who}&ssl.ca.location={ca}", AccessDenied, "supported mechanisms: SCRAM-SHA-512"),
        ("{who}&ssl.ca.location=/nowhere.pem", UsageError, "ssl.ca.location failed"),
    ],
    ids=["plain", "no password", "unknown certificate", "another mechanism", "no such file"],
)
def test_other_security_than_the_brokers(
    cluster: SecureKafkaCluster, settings: str, kind: type[HoldfastError], part: str
) -> None:
    who = "security.protocol=SASL_SSL&sasl.mechanism=PLAIN&sasl.username=user&sasl.password=x"
    query = settings.format(ca=quote(str(cluster.certificate)), who=who)
    with told(kind, part):
        fleet.connect(f"kafka://{cluster.bootstrap}/x?{query}")


@pytest.mark.usefixtures("down_soon")
def test_tls_where_there_is_none(kafka: str) -> None:
    with told(Unreachable, "connecting to a PLAINTEXT broker listener?"):
        fleet.open(f"kafka://user:password@{kafka}/x")


def test_of_several_reasons_the_best_is_told() -> None:
    """The client library tells all of them, in any order."""
    guess = "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?"
    settings = KafkaSettings("host:1", "x")
    for code, text in (
        (KafkaError._TRANSPORT, guess),
        (KafkaError._TRANSPORT, "Disconnected: SSL connection closed by peer"),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"),
    ):
        settings.complaints.append((time.monotonic(), KafkaError(code, text)))
    trouble = explain(KafkaError(KafkaError._TIMED_OUT), settings, "connecting")
    assert str(trouble) == f"kafka://host:1/x: connecting: {guess}"


# URLs.


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("kafka://", "is no broker: write kafka://host:port"),
        ("kafka://:9092", "is no broker: write kafka://host:port"),
        ("kafka://host:port", "is no broker: write kafka://host:port"),
        ("kafka://host:1,", "is no broker: write kafka://host:port"),
        ("kafka://host:1/bad prefix!", "prefix 'bad prefix!': give letters"),
        ("kafka://user@host:1/x", "give a password too"),
        ("kafka://host:1/x?replication=x", "engine setting replication='x': give a whole number"),
        ("kafka://host:1/x?replication=0", "engine setting replication='0': give a whole number"),
        ("kafka://host:1/x?session_seconds=nan", "engine setting session_seconds='nan'"),
        ("kafka://host:1/x?unknown=1", "unknown engine setting 'unknown'"),
        ("kafka://host:1/x?config=/nowhere/file", "config /nowhere/file: cannot be read"),
        ("kafka://host:1/x?foo.bar=1", 'No such configuration property: "foo.bar"'),
        ("kafka://host:1/x?retry.backoff.ms=soon", 'property "retry.backoff.ms"'),
        ("kafka://host:1/x?bootstrap.servers=other:1", "Holdfast sets it itself"),
        ("kafka://host:1/x?group.id=mine", "Holdfast sets it itself"),
    ],
)
def test_a_wrong_url(url: str, part: str, tmp_path: Path) -> None:
    for enter in (fleet.open, fleet.connect):
        with told(UsageError, part, seconds=patient(4.0)):
            enter(url)
    done = holdfast_here("state", "Drone/d-1", "--engine", url, cwd=tmp_path, code=2)
    refused(done, part)


def test_a_file_of_settings_with_a_line_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("# ours\n\nsasl.username=a\nsasl.password\n")
    with told(UsageError, "client:4: write name=value"):
        fleet.open(f"kafka://host:1/x?config={tmp_path / 'client'}")


def test_the_client_library_is_missing(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from holdfast.cli.main import main\n"
        "sys.argv = ['holdfast', 'state', 'Drone', '--engine', 'kafka://host:1/x']\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    refused(done, "kafka:// needs its client: pip install 'holdfast[kafka]'")


# Topics.


def made(kafka: str, prefix: str, cache: Path) -> str:
    """The URL of a fleet that has folded an event."""
    url = f"kafka://{kafka}/{prefix}?cache={cache}"
    with fleet.open(url) as live:
        live.send(Drone, "d-1", Battery(percent=50.0))
        live.settle()
    return url


def alter(kafka: str, topic: str, name: str, value: str) -> None:
    wish = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wish])
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(10.0)

    def is_known() -> bool:
        """The broker learns of it later than the controller."""
        asked = ConfigResource(ResourceType.TOPIC, topic)
        return bool(admin.describe_configs([asked])[asked].result(10.0)[name].value == value)

    wait_until(is_known, 30.0, f"{topic} has {name}={value}")


def test_topics_with_wrong_settings(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = made(kafka, prefix, tmp_path)
    for topic, name, value, right in (
        ("inbox.0", "cleanup.policy", "compact", "delete"),
        ("inbox.0", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("inbox.0", "retention.ms", "600000", "-1"),
        ("changelog.0", "retention.bytes", "1000000", "-1"),
        ("catalog", "cleanup.policy", "compact,delete", "delete"),
        ("bases.0", "unclean.leader.election.enable", "true", "false"),
    ):
        alter(kafka, f"{prefix}.{topic}", name, value)
        change = f"--topic {prefix}.{topic} --add-config {name}={right}"
        with told(UsageError, f"{prefix}.{topic} has {name}={value}, and {right} is", change):
            fleet.open(url)
        alter(kafka, f"{prefix}.{topic}", name, right)
    fleet.open(url).close()


def test_a_topic_with_other_partitions(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = made(kafka, prefix, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.create_partitions([NewPartitions(f"{prefix}.inbox.0", 3)]).values():
        done.result(10.0)
    topic = f"{prefix}.inbox.0"
    wait_until(
        lambda: len(admin.list_topics(timeout=10.0).topics[topic].partitions) == 3,
        patient(30.0),
        "the broker knows the partitions too",
    )
    with told(UsageError, "inbox.0 has 3 partitions, the fleet has 1", "holdfast rescale"):
        fleet.open(url)


def test_a_topic_that_is_gone(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = made(kafka, prefix, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.delete_topics([f"{prefix}.changelog.0"]).values():
        done.result(10.0)
    wait_until(
        lambda: f"{prefix}.changelog.0" not in admin.list_topics(timeout=10.0).topics,
        patient(30.0),
        "the broker knows that it is gone too",
    )
    with told(UsageError, f"topic {prefix}.changelog.0 is missing: restore it"):
        fleet.open(url)


def test_more_copies_than_brokers(kafka: str, prefix: str) -> None:
    with told(UsageError, "cannot be reached because only 1 broker", "another ?replication="):
        fleet.open(f"kafka://{kafka}/{prefix}?replication=3")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("max.in.flight.requests.per.connection=10", "the client library refuses its settings"),
        ("acks=1", "unknown engine setting 'acks'"),
        ("request.required.acks=1", "Holdfast sets it itself: leave it out"),
        ("cache=/dev/null/x", "no copies can be kept here (Not a directory): name a folder"),
        ("session_seconds=1e9", "give seconds, from 0 to a million"),
    ],
)
def test_settings_that_cannot_be(kafka: str, prefix: str, setting: str, part: str) -> None:
    with told(UsageError, part):
        fleet.open(f"kafka://{kafka}/{prefix}?{setting}")


def test_topics_of_another_fleet(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = made(kafka, prefix, tmp_path)
    others = Fleet("others", agents=[Drone])
    for enter in (others.open, others.connect):
        with told(WrongFleet, "are of fleet 'delivery', this is 'others'", "give another prefix"):
            enter(url)


def test_a_group_of_somebody_else(kafka: str, prefix: str, tmp_path: Path) -> None:
    """Told before it starts where the stranger has partitions already; else when it joins."""
    url = made(kafka, prefix, tmp_path)
    stranger = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": f"{prefix}.workers",
            "client.id": "stranger",
            "partition.assignment.strategy": "range",
        }
    )
    stranger.subscribe([f"{prefix}.owners"])
    try:
        deadline = time.monotonic() + patient(30.0)
        while not stranger.assignment() and time.monotonic() < deadline:
            stranger.poll(0.1)
        parts = ("has a member that is no worker of this fleet (stranger on", "another prefix")
        with told(UsageError, *parts):
            fleet.open(url)
        refused(holdfast_here("run", FILE, "--engine", url, cwd=tmp_path, code=2), *parts)
        settings = KafkaSettings(kafka, prefix, cache=tmp_path)
        member = Membership(settings, f"{prefix}.inbox.0", None, lambda: None)
        with closing(member), told(UsageError, "no workers of this fleet", seconds=patient(30.0)):
            while time.monotonic() < deadline + patient(30.0):
                member.assigned()
                stranger.poll(0.1)
    finally:
        stranger.close()


def test_no_fleet_there(kafka: str, prefix: str, tmp_path: Path) -> None:
    url = f"kafka://{kafka}/{prefix}"
    with told(UsageError, "no fleet here: start one with `holdfast run"):
        fleet.connect(url)
    done = holdfast_here("state", "Drone", "--engine", url, cwd=tmp_path, code=2)
    refused(done, "no fleet here", "or name the right prefix")
