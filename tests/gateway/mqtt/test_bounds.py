"""Goal: what the fleet cannot take now waits with the broker and is taken later, in order; nothing
that waits makes the bridge larger than its bounds say.
"""

import time
from pathlib import Path

import cbor2
import pytest

from holdfast.engine.sqlite.files import bytes_of
from holdfast.engine.urls import open_engine
from holdfast.gateway.mqtt import rejecting
from holdfast.gateway.mqtt.address import parse_broker
from holdfast.gateway.mqtt.link import Link
from holdfast.gateway.mqtt.packets import Published
from holdfast.gateway.mqtt.rejecting import Rejected, Rejects
from tests.gateway.mqtt.fleets import fleet
from tests.gateway.mqtt.rig import Device, bridged, eventually, noted, rejected
from tests.gateway.served import taken_away_once_seen
from tests.servers.mosquitto import Mosquitto

HUGE = 10**5_000


@pytest.fixture
def broker_settings() -> dict[str, object]:
    return {"autosave_on_changes": "false", "autosave_interval": 1800}


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_full_inbox_holds_messages_back_and_loses_none(
    broker: Mosquitto,
    url: str,
    version: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What one read of the socket brings is stored at once: that is a few, and of all but some.
    monkeypatch.setattr("holdfast.gateway.mqtt.bridge.MESSAGES_PER_BATCH", 100)
    pad = " " * 1_000
    with fleet.open(url):
        pass  # nobody folds from here on
    tight = f"{url}?backlog_events_max=100"
    query = f"?version={version}&receive_max=50"
    with Device(broker.port, "d-1") as device, bridged(tight, broker, query):
        said = [device.publish("agents/d-1/noted", f'{{"number": {n}}}{pad}') for n in range(2_000)]
        for each in said:
            each.wait_for_publish(120)
        eventually("it waits", lambda: "messages wait with the broker" in caplog.text)
        engine = open_engine(url, None)
        stored = engine.view(0).inbox_next()
        engine.close()
        assert 100 <= stored < 1_000
        with fleet.open(url) as live:
            eventually("all", lambda: len(noted(live, "d-1")) == 2_000)
            assert noted(live, "d-1") == list(range(2_000))


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("noted", {"number": 1, "seq": HUGE}),
        ("noted", {"number": 1, "seq": 1, "source": HUGE}),
        ("low-battery", {"percent": HUGE}),
        ("ack", {"id": "yard/Drone/d-1/1/0", "failed": HUGE}),
    ],
)
def test_a_number_without_end_ends_no_bridge(
    broker: Mosquitto, url: str, tmp_path: Path, word: str, values: dict[str, object]
) -> None:
    """Python writes none of more than 4,300 digits."""
    with fleet.open(url) as live, Device(broker.port, "d-1") as device, bridged(url, broker):
        said = cbor2.dumps(values)
        device.say(f"agents/d-1/{word}", said, content_type="application/cbor")
        device.say("agents/d-1/noted", '{"number": 7}')
        eventually("the next one", lambda: noted(live, "d-1") == [7])
        eventually("the other one", lambda: len(rejected(tmp_path / "data")) == 1)


def test_more_devices_than_sources_are_rejected_by_name(
    broker: Mosquitto, url: str, tmp_path: Path
) -> None:
    with fleet.open(url) as live, bridged(f"{url}?sources_max=2", broker):
        for number in range(4):
            broker.pub(f"agents/d-{number}/noted", '{"number": 1, "seq": 1}')
        broker.pub("agents/d-0/noted", '{"number": 2, "seq": 2}')
        eventually("the known one", lambda: noted(live, "d-0") == [1, 2])
        eventually("the others", lambda: len(rejected(tmp_path / "data")) == 2)
    assert all("raise sources_max" in each["reason"] for each in rejected(tmp_path / "data"))


def test_a_number_below_the_window_is_rejected_alone(
    broker: Mosquitto, url: str, tmp_path: Path
) -> None:
    with fleet.open(url) as live, bridged(url, broker) as stop:
        with Device(broker.port, "d-1") as device:
            device.say("agents/d-1/noted", '{"number": 1, "seq": 1000000}')
            stop()
            for number, seq in ((2, 1), (3, 1000001), (4, 2), (5, 1000002)):
                device.say("agents/d-1/noted", f'{{"number": {number}, "seq": {seq}}}')
        with bridged(url, broker):
            eventually("the good ones", lambda: noted(live, "d-1") == [1, 3, 5])
            eventually("the old ones", lambda: len(rejected(tmp_path / "data")) == 2)
    assert all("dedupe window" in each["reason"] for each in rejected(tmp_path / "data"))


def test_a_bridge_reads_no_more_than_it_can_hold(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that speaks 3.1.1 the broker knows no bound: the bridge stops reading instead."""
    monkeypatch.setattr("holdfast.gateway.mqtt.link.MQTT_WAITING_BYTES_MAX", 2_000_000)
    link = Link(parse_broker(f"{broker.url}?version=3.1.1"), "tight", ["big/+"])
    try:
        eventually("ready", lambda: link.is_ready)
        with Device(broker.port, "d-1") as device:
            said = [device.publish("big/x", b"x" * 500_000) for _ in range(30)]
            for each in said:
                each.wait_for_publish(120)
        time.sleep(0.5)
        came = link.take(1_000, 1.0)
        held = sum(len(each.messages) for each in came)
        assert held < 12, held
        while held < 30:
            link.acknowledge(came)
            came = link.take(1_000, 60.0)
            assert came
            held += sum(len(each.messages) for each in came)
        assert held == 30
    finally:
        link.close()


def test_the_file_of_rejected_messages_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rejecting, "REJECTED_FILE_BYTES_MAX", 20_000)
    rejects = Rejects(tmp_path)
    for number in range(100):
        rejects.write([Rejected(Published(f"t/{number}", b"x" * 1_000), "no reason")])
        kept = [path.stat().st_size for path in (rejects.path, rejects.older) if path.exists()]
        assert max(kept) <= 20_000
    assert '"t/99"' in rejects.path.read_text().splitlines()[-1]
    assert "is overwritten" in caplog.text
    huge = Published("t/huge", b"\xff" * 1_000_000)
    rejects.write([Rejected(huge, "too large")])
    assert '"bytes":1000000' in rejects.path.read_text().splitlines()[-1]


def test_the_file_of_rejected_messages_may_be_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program that rotates files, at any moment."""
    rejects = Rejects(tmp_path)
    rejects.write([Rejected(Published("t/1", b"x"), "no reason")])
    taken_away_once_seen(monkeypatch, rejects.path)
    rejects.write([Rejected(Published("t/2", b"x"), "no reason")])
    assert [line[:40].count("t/2") for line in rejects.path.read_text().splitlines()] == [1]


def test_the_file_of_rejected_messages_is_turned_over_by_another_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bridges of other names, for one fleet, reject into the same file."""
    monkeypatch.setattr(rejecting, "REJECTED_FILE_BYTES_MAX", 100)
    ours, other = Rejects(tmp_path), Rejects(tmp_path)
    ours.write([Rejected(Published("t/1", b"x"), "no reason")])
    look = bytes_of

    def late(path: Path) -> int:
        found = look(path)
        other._turn_over()
        return found

    monkeypatch.setattr(rejecting, "bytes_of", late)
    ours.write([Rejected(Published("t/2", b"x"), "no reason")])
    for path, topic in ((ours.older, "t/1"), (ours.path, "t/2")):
        (line,) = path.read_text().splitlines()
        assert f'"{topic}"' in line
