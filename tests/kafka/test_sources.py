"""Goal: events of foreign producers reach their agents once and in order, whatever dies meanwhile;
what is no event is kept with the reason, and holds nobody up."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from tests.cli.commands import holdfast_here, refused
from tests.kafka.sourced import KEYS, Site, Telemetry, headers_of, kill_reader, reader_of
from tests.kills.harness import wait_until

ENGINES = ["sqlite", "kafka"]


@pytest.fixture
def site(kafka: str, tmp_path: Path) -> Site:
    return Site(kafka, tmp_path)


def produce(
    site: Site, topic: str, *records: tuple[str | bytes | None, str | bytes | None]
) -> None:
    """Keys and values, to partition 0."""
    producer = Producer({"bootstrap.servers": site.bootstrap, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key=key, partition=0)
    assert producer.flush(30) == 0


def position(lane: str, n: int) -> str:
    return json.dumps({"lane": lane, "n": n})


def together(*parts: Telemetry) -> dict[str, dict[str, object]]:
    """What the agents hold when all of it has arrived."""
    found: dict[str, dict[str, object]] = {}
    for key in KEYS:
        seen: dict[str, int] = {}
        chain: dict[str, int] = {}
        for part in parts:
            expected = part.expected()[key]
            seen |= expected["seen"]
            chain |= expected["chain"]
        found[key] = {"seen": seen, "chain": chain}
    return found


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_event_arrives_once_and_in_order_though_the_reader_is_killed(
    site: Site, engine: str
) -> None:
    topics = hashed, spread = site.topic("hashed"), site.topic("spread")
    parts = [
        Telemetry(site, hashed, "json", "murmur2_random"),
        Telemetry(site, spread, "msgpack", None),
    ]
    for part in parts:
        part.produce(5_000)  # so that there is much to do from the beginning
    chance = random.Random(f"kills of {engine}")
    stopping = threading.Event()

    def flow() -> None:
        while not stopping.is_set():
            for part in parts:
                part.produce(chance.randrange(50, 400))
            time.sleep(0.05)

    producing = threading.Thread(target=flow)
    sources = [f"{hashed}=Drone/Position", f"{spread}=Drone/Position:msgpack"]
    with site.run(engine, *sources) as running:
        producing.start()
        try:
            killed = set()
            for _ in range(5):
                # From its start to the middle of its work: the group gives it partitions when the
                # session of the dead one is over.
                time.sleep(chance.uniform(1.5, 6.0))
                killed.add(kill_reader(running))
            assert len(killed) == 5
        finally:
            stopping.set()
            producing.join()
        site.wait_committed(*topics)
        wanted = together(*parts)
        site.wait_for(engine, wanted)
        assert site.letters(engine) == ""
        assert site.rejected() == []
        assert running.stop() == 0
    # A busy machine may let one be silent for so long that the supervisor ends it too.
    ends = re.findall(r"source reader 0 ended \((.+?)\)", running.errors.read_text())
    assert ends.count("-9") >= 5
    assert set(ends) <= {"-9", "1"}


@pytest.mark.kill
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_no_event_is_kept_with_the_reason(site: Site, engine: str) -> None:
    topic = site.topic("odd", 1)
    bad: list[tuple[str | None, bytes | None, str]] = [
        (None, position("a", 1).encode(), "the record has no key"),
        ("no key/", position("a", 1).encode(), "cannot be a key"),
        ("d-1", b"{nonsense", "no json of fields"),
        ("d-1", b"[1, 2]", "no json of fields"),
        ("d-1", b"\xff\xfe", "no json of fields"),
        ("d-1", b'{"lane": "a"}', "needs the field 'n'"),
        ("d-1", b'{"lane": "a", "n": "many"}', "Position.n cannot be 'many'"),
        ("d-1", b'{"lane": "a", "n": 1, "m": 2}', "no field 'm'"),
        ("d-1", b"[" * 100_000, "no json of fields"),
        ("d-1", None, "no value"),
    ]
    good = ("d-1", position("a", 5))
    produce(site, topic, good, *[(key, value) for key, value, _ in bad], good)
    with site.run(engine, f"{topic}=Drone/Position") as running:
        site.wait_committed(topic, partitions=1)
        site.wait_for(engine, {"d-1": {"seen": {"a": 2}}})
        bad.append((None, b"one more", "the record has no key"))
        produce(site, topic, *[(key, value) for key, value, _ in bad[-1:]])
        site.wait_committed(topic, partitions=1)
        assert running.stop() == 0
        said = running.errors.read_text()
    rejected = site.rejected()
    assert len(rejected) == len(bad)
    offsets = [*range(1, len(bad)), len(bad) + 1]  # between the last two is a good one
    for offset, record, (key, value, reason) in zip(offsets, rejected, bad, strict=True):
        headers = headers_of(record)
        assert reason in headers.pop("reason")
        assert headers == {"topic": topic, "partition": "0", "offset": str(offset)}
        assert (record.key(), record.value()) == (key and key.encode(), value)
    assert f"10 records rejected, to topic {site.name}.rejected: {topic}[0] at 1: " in said
    assert f"1 record rejected, to topic {site.name}.rejected: {topic}[0] at 12: " in said


@pytest.mark.kill
def test_every_record_may_name_its_own_event(site: Site) -> None:
    topic = site.topic("mixed", 1)
    producer = Producer({"bootstrap.servers": site.bootstrap})
    packed = msgspec.msgpack.encode
    producer.produce(topic, packed({"type": "Position", "lane": "a", "n": 1}), key="d-1")
    producer.produce(topic, packed({"percent": 7.5}), key="d-1", headers={"type": "Battery"})
    producer.produce(topic, packed({"percent": 8.5}), key="d-1")
    producer.produce(topic, packed({"type": "Batery", "percent": 8.5}), key="d-1")
    assert producer.flush(30) == 0
    with site.run("sqlite", f"{topic}=Drone:msgpack"):
        site.wait_for("sqlite", {"d-1": {"seen": {"a": 1}, "percent": 7.5}})
        site.wait_committed(topic, partitions=1)
    reasons = [headers_of(record)["reason"] for record in site.rejected()]
    assert "names no event" in reasons[0]
    assert "did you mean Battery?" in reasons[1]


@pytest.mark.kill
def test_earliest_and_latest_say_where_to_begin(site: Site) -> None:
    """Also a reader that dies before its first record begins where it began."""
    old, new = site.topic("old", 1), site.topic("new", 1)
    for topic in (old, new):
        produce(site, topic, *[("d-1", position(topic, n)) for n in range(3)])
    sources = [f"{old}=Drone/Position@earliest", f"{new}=Drone/Position@latest"]
    with site.run("sqlite", *sources) as running:
        site.wait_committed(old, new, partitions=1)
        kill_reader(running)
        for topic in (old, new):
            produce(site, topic, *[("d-1", position(topic, n)) for n in range(4)])
        site.wait_committed(old, new, partitions=1)
        site.wait_for("sqlite", {"d-1": {"seen": {old: 7, new: 4}}})
    with site.run("sqlite", *sources):  # it was read before: where to begin is settled
        produce(site, new, ("d-1", position(new, 9)))
        site.wait_for("sqlite", {"d-1": {"seen": {old: 7, new: 5}}})


@pytest.mark.kill
def test_several_readers_share_the_partitions(site: Site) -> None:
    topic = site.topic("shared")
    telemetry = Telemetry(site, topic, "json", "murmur2_random")
    telemetry.produce(300)
    source = f"{topic}=Drone/Position"
    with site.run("kafka", source) as first, site.run("kafka", source) as second:
        telemetry.produce(2_000)
        wait_until(lambda: len(site.reading(topic)) == 2, 60.0, "both have partitions of the topic")
        telemetry.produce(2_000)
        first.stop()
        telemetry.produce(300)
        site.wait_committed(topic)
        site.wait_for("kafka", together(telemetry))
        assert reader_of(second) is not None
        assert site.letters("kafka") == ""


@pytest.mark.kill
def test_a_topic_that_was_made_anew_is_read_anew(site: Site) -> None:
    """Its offsets begin at 0 again: they are no repeats."""
    topic = site.topic("anew", 1)
    produce(site, topic, *[("d-1", position("a", n)) for n in range(3)])
    with site.run("sqlite", f"{topic}=Drone/Position") as running:
        site.wait_for("sqlite", {"d-1": {"seen": {"a": 3}}})
        site.wait_committed(topic, partitions=1)
        assert running.stop() == 0
    site.delete(topic)
    assert site.topic("anew", 1) == topic
    produce(site, topic, *[("d-1", position("b", n)) for n in range(5)])
    with site.run("sqlite", f"{topic}=Drone/Position"):
        site.wait_for("sqlite", {"d-1": {"seen": {"a": 3, "b": 5}}})


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--source", "TOPIC=Dron/Position"], ["no agent 'Dron'", "did you mean Drone?"]),
        (["--source", "TOPIC=Drone/Positon"], ["handles no 'Positon'", "did you mean Position?"]),
        (["--source", "TOPIC=Drone/Position:xml"], ["no format 'xml'", "json, msgpack"]),
        (["--source", "TOPIC=Drone/Position@noon"], ["@earliest or @latest, not @noon"]),
        (["--source", "TOPIC:Drone"], ["write TOPIC=Agent/Event"]),
        (["--source", "TOPIC=Drone", "--source", "TOPIC=Drone"], ["twice"]),
        (["--source", "nobody=Drone/Position"], ["nobody", "has no such topic"]),
        (["--source", "TOPIC=Drone:protobuf"], ["protobuf(FILE.desc,package.Message)"]),
        (["--source", "NAME.inbox.0=Drone"], ["is the fleet's own"]),
        ([], ["--source-brokers without a --source"]),
    ],
    ids=lambda given: " ".join(given)[:40],
)
def test_a_source_that_cannot_be_is_refused_in_one_line(
    site: Site, words: list[str], parts: list[str]
) -> None:
    topic = site.topic("t", 1)
    words = [word.replace("TOPIC", topic).replace("NAME", site.name) for word in words]
    command = ("run", "fleet.py", "--source-brokers", site.bootstrap, *words)
    refused(holdfast_here(*command, cwd=site.folder, code=2), *parts)


def test_sources_need_brokers_and_several_processes(site: Site) -> None:
    words = ("run", "fleet.py", "--source", "t=Drone/Position")
    refused(holdfast_here(*words, cwd=site.folder, code=2), "--source-brokers host:port")
    memory = holdfast_here(*words, "--engine", "memory:", cwd=site.folder, code=2)
    refused(memory, "--source needs sqlite: or kafka:")
