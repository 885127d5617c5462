"""Goal: brokers that go away are no reason to end: sends are told to try again, in time, and when
the brokers are back everything goes on, with nothing lost and nothing doubled."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import AccessDenied, TryAgain, Unreachable
from holdfast.runtime.live import Live
from tests.kafka.drones import Drone, Note, fleet
from tests.kafka.tenants import add_tenant, url_of
from tests.kafka.test_refusals import told
from tests.kafka.test_scaling import flows_on
from tests.run.speed import patient
from tests.servers.kafka import KafkaCluster
from tests.servers.kafka_secure import SecureKafkaCluster


def notes(live: Live, key: str) -> list[str]:
    """Every note that the agent has taken, in order."""
    return [each.event.text for each in live.history(Drone, key) if isinstance(each.event, Note)]


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize("secured", [False, True], ids=["plain", "secured"])
def test_a_fleet_outlives_its_broker(tmp_path: Path, secured: bool) -> None:
    with SecureKafkaCluster() if secured else KafkaCluster() as cluster:
        if isinstance(cluster, SecureKafkaCluster):
            add_tenant(cluster, "tenant")
            url = url_of(cluster, "tenant", tmp_path)
        else:
            url = f"kafka://{cluster.bootstrap}/tenant?cache={tmp_path}"
        with fleet.open(url) as live:
            sent = [f"before {n}" for n in range(20)]
            for text in sent:
                live.send(Drone, "d-1", Note(text=text))
            live.settle()
            kills = [cluster.broker(1).kill, cluster.broker(1).stop]
            for kill in kills[:1] if secured else kills:
                kill()
                event = Note(text=f"during {len(sent)}")
                with told(TryAgainExactly, "are the brokers up?", seconds=patient(4.0)):
                    _try(live, event, 2.0)
                with told(Unreachable, "Connection refused", "are the brokers up?"):
                    fleet.connect(url)
                found = live.state(Drone, "d-1")  # of what is committed an owner has a copy
                assert found is not None
                assert found.note == sent[-1]
                cluster.broker(1).start()
                cluster.wait_ready()
                live.send(Drone, "d-1", event, timeout=30.0)  # the same: it is taken once
                live.settle()
                sent.append(event.text)
                assert notes(live, "d-1") == sent


class TryAgainExactly(TryAgain):
    """So that `told` can ask for the family."""


def _try(live: Live, event: Note, timeout: float) -> None:
    try:
        live.send(Drone, "d-1", event, timeout=timeout)
    except TryAgain as refusal:
        raise TryAgainExactly(str(refusal)) from None


@pytest.mark.kill
@pytest.mark.slow
def test_senders_lose_and_double_nothing_over_restarts(tmp_path: Path) -> None:
    """Each of several senders goes on with the same event until it is told that it is taken."""
    with KafkaCluster() as cluster:
        url = f"kafka://{cluster.bootstrap}/restarts?cache={tmp_path}"
        with fleet.open(url, partitions=2) as live:
            ending = threading.Event()
            sent: dict[str, list[str]] = {f"d-{n}": [] for n in range(4)}

            def send(key: str) -> None:
                while not ending.is_set():
                    event = Note(text=f"{len(sent[key])}")
                    while True:
                        try:
                            live.send(Drone, key, event, timeout=1.0)
                            break
                        except TryAgain:
                            continue
                    sent[key].append(event.text)

            senders = [threading.Thread(target=send, args=(key,)) for key in sent]
            for each in senders:
                each.start()

            try:
                for stop in (cluster.broker(1).kill, cluster.broker(1).stop):
                    flows_on(sent)
                    stop()
                    time.sleep(1.5)  # longer than a send waits
                    cluster.broker(1).start()
                    cluster.wait_ready()
                flows_on(sent)
            finally:
                ending.set()
            for each in senders:
                each.join(60.0)
            live.settle()
            assert {key: notes(live, key) for key in sent} == sent


@pytest.mark.kill
@pytest.mark.slow
def test_a_password_that_is_changed_under_a_fleet(tmp_path: Path) -> None:
    """Connections that are open stay; after a restart of the broker nobody gets in with the old."""
    with SecureKafkaCluster() as cluster:
        add_tenant(cluster, "tenant")
        url = url_of(cluster, "tenant", tmp_path)
        with fleet.open(url) as live:
            live.send(Drone, "d-1", Note(text="before"))
            live.settle()
            cluster.add_user("tenant")
            cluster.broker(1).stop()
            cluster.broker(1).start()
            cluster.wait_ready()
            with pytest.raises(AccessDenied, match="refuse our credentials"):
                live.send(Drone, "d-1", Note(text="after"), timeout=patient(10.0))
        with told(AccessDenied, "refuse our credentials"):
            fleet.open(url)
