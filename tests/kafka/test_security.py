"""Goal: a fleet runs on a secured cluster with the rights of its prefix and no others, tenants do
not reach each other, and nobody sees a password."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from holdfast.engine.kafka.engine import KafkaEngine
from holdfast.engine.urls import parse
from holdfast.errors import AccessDenied, HoldfastError, UsageError
from holdfast.runtime.live import Live
from holdfast.runtime.sourcing.starting import SourceOptions, brokers_of
from tests.cli.commands import Running, children_of, eventually, holdfast_here, refused
from tests.kafka.drones import FILE, Battery, Drone, fleet
from tests.kafka.tenants import (
    RIGHTS,
    Right,
    TokenService,
    add_tenant,
    password_of,
    token_url,
    url_of,
    url_with_file,
)
from tests.run.speed import patient
from tests.servers.kafka_secure import SecureKafkaCluster

A, B = "tenant-a", "tenant-b"
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureKafkaCluster]:
    """With a fleet of tenant A on it, and a tenant B who has rights of its own."""
    with SecureKafkaCluster() as cluster:
        for tenant in (A, B):
            add_tenant(cluster, tenant)
        with fleet.open(url_of(cluster, A, cluster.folder / "cache")) as live:
            work(live)
        yield cluster


def work(live: Live, key: str = "d-1") -> None:
    """Everything that a fleet asks of brokers, deleting what base copies make superfluous too."""
    live.send(Drone, key, Battery(percent=9.0))
    live.settle()
    found = live.state(Drone, key)
    assert found is not None
    assert found.battery == 9.0
    assert [each.key for each in live.actions()].count(key) == found.events
    engine = live._engine
    assert isinstance(engine, KafkaEngine)
    for _ in range(2):  # the second one deletes the first
        engine.make_base_copies()


# Rights.


def test_a_fleet_needs_these_rights(
    cluster: SecureKafkaCluster, tmp_path: Path, record_property: Any
) -> None:
    add_tenant(cluster, "minimal", RIGHTS)
    with fleet.open(url_of(cluster, "minimal", tmp_path)) as live:
        work(live)
    record_property("summary", f"with its prefix a fleet needs {', '.join(map(str, RIGHTS))}")


@pytest.mark.parametrize("missing", RIGHTS, ids=str)
def test_it_needs_each_of_them_and_says_which(
    cluster: SecureKafkaCluster, tmp_path: Path, missing: Right
) -> None:
    user = "no-" + str(missing).lower().replace(" ", "-")
    add_tenant(cluster, user, [each for each in RIGHTS if each != missing])
    started = time.monotonic()
    with (
        pytest.raises(AccessDenied) as denied,
        fleet.open(url_of(cluster, user, tmp_path)) as live,
    ):
        work(live)
    assert f"allow this user {missing} whose names begin with '{user}'" in str(denied.value)
    assert "\n" not in str(denied.value)
    assert time.monotonic() - started < patient(10.0)


# Tenants.


def test_brokers_keep_tenants_apart(cluster: SecureKafkaCluster) -> None:
    """With the plain client: what Holdfast would never try is refused too."""
    stranger = {**QUIET, **cluster.client_settings(B)}
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    for topic in ("inbox.0", "changelog.0", "catalog", "bases.0"):
        assert _error_of_producing(stranger, f"{A}.{topic}") == denied
        consumer = Consumer({"group.id": f"{B}.readers", **stranger})
        consumer.subscribe([f"{A}.{topic}"])
        assert _error_of_polling(consumer) == denied
    member = Consumer({"group.id": f"{A}.workers", **stranger})
    member.subscribe([f"{B}.inbox.0"])
    assert _error_of_polling(member) == KafkaError.GROUP_AUTHORIZATION_FAILED
    writer = Producer({"transactional.id": f"{A}.p0", **stranger})
    with pytest.raises(KafkaException) as refused:
        writer.init_transactions(patient(10.0))
    code = refused.value.args[0].code()
    assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _error_of_producing(settings: dict[str, Any], topic: str) -> int | None:
    told: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(topic, b"not mine", on_delivery=lambda error, _: told.append(error))
    producer.flush(patient(10.0))
    return told[0].code() if told[0] else None


def _error_of_polling(consumer: Consumer) -> int | None:
    try:
        record = consumer.poll(patient(10.0))
        assert record is not None
        error = record.error()
        return error.code() if error else None
    finally:
        consumer.close()


def test_another_tenant_gets_one_line(cluster: SecureKafkaCluster, tmp_path: Path) -> None:
    url = url_of(cluster, B, tmp_path, prefix=A)
    for enter in (fleet.open, fleet.connect):
        with pytest.raises(AccessDenied, match="DESCRIBE on topics whose names begin with"):
            enter(url)
    for words in (["send", "Drone/d-1", "Battery", "percent=1"], ["state", "Drone/d-1"]):
        done = holdfast_here(*words, cwd=tmp_path, code=3, variables={"HOLDFAST_ENGINE": url})
        refused(done, f"/{A}: the brokers do not permit")


# Tokens.


@pytest.mark.slow
def test_tokens_of_a_service_are_renewed(cluster: SecureKafkaCluster, tmp_path: Path) -> None:
    with TokenService(seconds=8.0).running() as service:
        with fleet.open(service.url(cluster, A, A, tmp_path)) as live:
            clients = service.given
            ends = time.monotonic() + 12.0  # every token of the beginning is void by then
            while time.monotonic() < ends:
                work(live, "token")
                time.sleep(0.5)
            assert service.given > clients
        with pytest.raises(AccessDenied, match="do not permit"):
            fleet.open(service.url(cluster, B, A, tmp_path))
        wrong = service.url(cluster, A, A, tmp_path).replace(service.SECRET, "guessed")
        # The client library tells of a token that it does not get when it has tried for a while.
        late = "are the brokers up"
        with pytest.raises(HoldfastError, match=f"check the address of the service|{late}") as told:
            fleet.open(wrong)
        assert "guessed" not in str(told.value)


def test_tokens_without_a_signature_are_for_trying_things_out(
    cluster: SecureKafkaCluster, tmp_path: Path
) -> None:
    """They are not renewed, so they have to live as long as the process."""
    given = "enable.sasl.oauthbearer.unsecure.jwt=true"
    claims = {"sasl_oauthbearer_config": f"principal={A} lifeSeconds=3600"}
    with fleet.open(f"{token_url(cluster, A, tmp_path, **claims)}&{given}") as live:
        work(live, "unsigned")
    with pytest.raises(UsageError, match="say where tokens come from"):
        fleet.open(token_url(cluster, A, tmp_path))


# Passwords.


def test_a_password_stands_in_no_message_and_in_no_log(
    cluster: SecureKafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with fleet.open(url_of(cluster, A, tmp_path)) as live:
        work(live, "secret")
    settings = parse(url_of(cluster, A, tmp_path)).kafka
    assert password_of(cluster, A) not in f"{settings!r} {settings} {caplog.text}"
    for bad in ("hunter2", "hun/ter2", "hun?ter2", "hun@ter2", "hun#ter:2%&=+"):
        with pytest.raises(AccessDenied, match="refuse our credentials") as denied:
            fleet.open(url_of(cluster, A, tmp_path, password=bad))
        assert "ter2" not in f"{denied.value} {caplog.text}"
        assert "ter:2" not in f"{denied.value} {caplog.text}"


@pytest.mark.parametrize(
    "url", ["kafka://u:hun/ter2@h:1/x", "kafka://u:hun?ter2@h:1/x", "kafka://u:hunter2@h:p/x"]
)
def test_nor_in_what_is_said_of_a_wrong_url(url: str) -> None:
    with pytest.raises(UsageError) as told:
        parse(url)
    assert "hun" not in str(told.value)
    assert "ter2" not in str(told.value)


def everything_shown(running: Running) -> str:
    """The command lines of the supervisor and all it has started, and what they have printed."""
    everybody = [running.process.pid, *running.workers()]
    everybody += [each for worker in running.workers() for each in children_of(worker)]
    lines = [Path(f"/proc/{each}/cmdline").read_bytes().decode() for each in everybody]
    assert len(lines) > 1
    return "\n".join([*lines, running.start_line, running.errors.read_text()])


@pytest.mark.kill
def test_a_file_keeps_the_password_from_all_eyes(
    cluster: SecureKafkaCluster, tmp_path: Path
) -> None:
    url = url_with_file(cluster, A, tmp_path)
    with Running(FILE, "--engine", url, "--workers", "2", cwd=tmp_path) as running:
        sent = holdfast_here(
            *("send", "Drone/cli", "Battery", "percent=3", "--engine", url), cwd=tmp_path
        )
        receipt = sent.stdout.strip()
        words = ("state", "Drone/cli", "--after", receipt, "--engine", url)
        assert "battery" in holdfast_here(*words, cwd=tmp_path).stdout
        assert password_of(cluster, A) not in everything_shown(running)
        assert running.stop() == 0
        assert password_of(cluster, A) not in running.errors.read_text()


@pytest.mark.kill
def test_a_url_from_the_environment_is_not_shown(
    cluster: SecureKafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(cluster, A, tmp_path / "cache")
    monkeypatch.setattr(
        "tests.cli.commands.environment", lambda *_: {**os.environ, "HOLDFAST_ENGINE": url}
    )
    store = tmp_path / "store"
    with Running(FILE, "--archive", f"file:{store}", cwd=tmp_path) as running:
        made = (store / "snapshots").glob
        eventually("rights suffice for a snapshot", lambda: any(made("*")), 60.0)
        shown = everything_shown(running)
        assert running.stop() == 0
    assert "holdfast.runtime.archiving.process" in shown
    assert "holdfast.runtime.snapshots.running" in shown
    assert password_of(cluster, A) not in shown


def test_a_parsed_url_does_not_show_the_password(
    cluster: SecureKafkaCluster, tmp_path: Path
) -> None:
    assert password_of(cluster, A) not in repr(parse(url_of(cluster, A, tmp_path)))


def test_a_misspelled_scheme_does_not_show_the_password() -> None:
    with pytest.raises(UsageError) as told:
        parse("kafak://user:hunter2@host:9092/x")
    assert "hunter2" not in str(told.value)


def test_brokers_of_source_topics_do_not_show_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go to the process that reads the topics by its environment, as engine URLs do."""
    monkeypatch.setattr("holdfast.runtime.sourcing.starting.check_topics", lambda *_: None)
    monkeypatch.delenv("HOLDFAST_HIDDEN_BROKERS", raising=False)
    options = SourceOptions(["telemetry=Drone/Battery"], "user:secret@broker:9093")
    (helper,) = options.helpers(fleet, "sqlite:data")
    assert "secret" not in " ".join(helper.arguments)
    assert brokers_of("sqlite:data", helper.arguments[1], "f").client["sasl.password"] == "secret"
