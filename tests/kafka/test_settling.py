"""Goal: settle() means that nothing waits anywhere, also not where nobody can read it yet; and it
takes no longer than it is given."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from holdfast.errors import TimedOut, TryAgain
from tests.kafka.drones import Drone, Note, fleet
from tests.run.speed import patient
from tests.servers.kafka import KafkaCluster


@contextmanager
def commit_under_way(bootstrap: str, prefix: str) -> Iterator[None]:
    """A transaction in the inbox, as an owner leaves it behind that dies in its commit."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}.dead"})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(f"{prefix}.inbox.0", b"never seen", partition=0)
    assert producer.flush(30.0) == 0
    yield
    producer.abort_transaction(30.0)


def test_what_stands_behind_a_commit_that_has_not_ended_waits(kafka: str, tmp_path: Path) -> None:
    prefix = f"settling-{uuid.uuid4().hex[:8]}"
    url = f"kafka://{kafka}/{prefix}?cache={tmp_path}"
    with fleet.open(url) as live, fleet.connect(url) as beside:
        live.send(Drone, "d-1", Note(text="before"))
        live.settle()
        beside.settle()  # so that it has a copy, or it is told of that in the two seconds below
        with commit_under_way(kafka, prefix):
            beside.send(Drone, "d-1", Note(text="acknowledged"))
            for handle in (live, beside):
                with pytest.raises(TimedOut, match="hidden"):
                    handle.settle(timeout=2.0)
                assert handle.state(Drone, "d-1").note == "before"
        beside.settle()
        assert beside.state(Drone, "d-1").note == "acknowledged"


@pytest.mark.kill
@pytest.mark.slow
def test_it_takes_no_longer_than_it_is_given_while_brokers_are_down(tmp_path: Path) -> None:
    with KafkaCluster() as cluster:
        url = f"kafka://{cluster.bootstrap}/settling?cache={tmp_path}"
        with fleet.open(url) as live:
            live.send(Drone, "d-1", Note(text="before"))
            live.settle()
            cluster.broker(1).kill()
            begun = time.monotonic()
            with pytest.raises(TryAgain):
                live.settle(timeout=1.5)
            assert time.monotonic() - begun < patient(3.5)
