"""Goal: kill -9 of the bridge and of the broker, again and again, loses no message; and doubles
none of a device that numbers.

The device that numbers publishes its last messages again when its connection was broken: Mosquitto
acknowledges before it has saved. That is all a device has to do, and numbers make it harmless.
"""

import random
import threading
import time
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.gateway.mqtt.link import Link
from tests.gateway.mqtt.fleets import Drone, Order
from tests.gateway.mqtt.rig import BridgeProcess, Device, bridged, eventually, noted
from tests.servers.mosquitto import Mosquitto

pytestmark = pytest.mark.kill
AGAIN = 250  # messages before its connection was broken that a device publishes again


@pytest.fixture
def broker_settings() -> dict[str, object]:
    return {"autosave_interval": 20}


class Sender(threading.Thread):
    """A device that publishes numbers from 0 on until it is told to stop."""

    def __init__(self, port: int, key: str, *, numbered: bool) -> None:
        super().__init__(daemon=True)
        self._device = Device(port, key)
        self._topic = f"agents/{key}/noted"
        self._numbered = numbered
        self._unsure: int | None = None  # where it was when its connection was broken
        self._device.client.on_disconnect = self._has_broken
        self._stopping = threading.Event()
        self.key = key
        self.sent = 0

    def _has_broken(self, *_: object) -> None:
        self._unsure = self.sent if self._unsure is None else self._unsure

    def run(self) -> None:
        while not self._stopping.is_set():
            self._publish(self.sent)
            self.sent += 1
            if self._unsure is not None and self._device.client.is_connected():
                self._publish_again()
            time.sleep(0.02)

    def _publish_again(self) -> None:
        """All from a while before the break on: it has gone on counting since."""
        first, self._unsure = self._unsure, None
        if self._numbered:
            for number in range(max(0, (first or self.sent) - AGAIN), self.sent):
                self._publish(number)

    def _publish(self, number: int) -> None:
        seq = f', "seq": {number}' if self._numbered else ""
        self._device.publish(self._topic, f'{{"number": {number}{seq}}}')

    def finish(self) -> int:
        """How many numbers it has sent; the broker has all of them."""
        self._stopping.set()
        self.join()
        client = self._device.client
        eventually("connected", client.is_connected)
        self._publish_again()
        eventually("all acknowledged", lambda: not client._out_messages)
        self._device.leave()
        return self.sent


def wait_for_subscription(broker: Mosquitto, before: int) -> None:
    eventually("the bridge is back", lambda: broker.did("Sending SUBACK") > before)


def wait_for_numbers(live: Live, key: str, count: int) -> None:
    eventually(f"{count} numbers of {key}", lambda: len(set(noted(live, key))) >= count)


@pytest.mark.slow
def test_numbered_messages_are_neither_lost_nor_doubled(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    chance = random.Random(1)
    with BridgeProcess(url, broker.url, tmp_path) as bridge:
        eventually("subscribed", lambda: broker.did("Sending SUBACK") > 0)
        senders = [Sender(broker.port, f"d-{i}", numbered=True) for i in range(3)]
        for sender in senders:
            sender.start()
        for victims in ("bridge", "broker", "both", "bridge", "broker", "both"):
            time.sleep(chance.uniform(0.3, 0.9))
            acknowledged = broker.did("Sending SUBACK")
            if victims != "broker":
                bridge.kill()
            if victims != "bridge":
                broker.kill()
                time.sleep(chance.uniform(0.0, 0.3))
                broker.start()
            if victims != "broker":
                bridge.start()
            wait_for_subscription(broker, acknowledged)
        sent = {sender.key: sender.finish() for sender in senders}
        for key, count in sent.items():
            wait_for_numbers(live, key, count)
        live.settle()
        for key, count in sent.items():
            assert count > 60
            assert sorted(noted(live, key)) == list(range(count)), key
        assert bridge.stop()


def test_without_numbers_none_is_lost_when_the_bridge_dies(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    with BridgeProcess(url, broker.url, tmp_path) as bridge:
        eventually("subscribed", lambda: broker.did("Sending SUBACK") > 0)
        senders = [Sender(broker.port, f"d-{i}", numbered=False) for i in range(2)]
        for sender in senders:
            sender.start()
        for _ in range(2):
            time.sleep(0.5)
            acknowledged = broker.did("Sending SUBACK")
            bridge.kill()
            bridge.start()
            wait_for_subscription(broker, acknowledged)
        sent = {sender.key: sender.finish() for sender in senders}
        for key, count in sent.items():
            wait_for_numbers(live, key, count)
            firsts = list(dict.fromkeys(noted(live, key)))
            assert firsts == list(range(count)), "in order, but for repeats"


def test_a_broker_that_is_killed_still_has_what_it_saved(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with bridged(url, broker):
        pass
    for number in range(30):
        broker.pub("agents/d-1/noted", f'{{"number": {number}}}')
    broker.save()
    broker.kill()
    broker.start()
    with bridged(url, broker):
        eventually("all", lambda: noted(live, "d-1") == list(range(30)))


def test_what_was_stored_and_not_acknowledged_comes_again(
    broker: Mosquitto, url: str, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bridge that dies between the append and its acknowledgement: what is numbered is known,
    what is not is there twice, as the docs say."""
    with monkeypatch.context() as patched:
        patched.setattr(Link, "acknowledge", lambda link, came: None)
        with bridged(url, broker):
            broker.pub("agents/d-1/noted", '{"number": 1, "seq": 1}')
            broker.pub("agents/d-2/noted", '{"number": 1}')
            eventually("stored", lambda: noted(live, "d-2") == [1])
    with bridged(url, broker) as stop:
        eventually("again", lambda: noted(live, "d-2") == [1, 1])
        assert noted(live, "d-1") == [1]
        assert "1 repeats left out" in stop()


def test_every_action_comes_although_the_bridge_dies(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    with (
        Device(broker.port, "watch", topic="agents/+/command") as watch,
        BridgeProcess(url, broker.url, tmp_path) as bridge,
    ):
        for number in range(160):
            live.send(Drone, "d-1", Order(what=str(number)))
            if number % 80 == 60:
                eventually("some", lambda: bool(watch.got))
                bridge.kill()
                bridge.start()
            time.sleep(0.005)
        wanted = [f"yard/Drone/d-1/{version}/0" for version in range(1, 161)]
        eventually("all", lambda: {each["id"] for each in watch.got} == set(wanted))
        assert list(dict.fromkeys(each["id"] for each in watch.got)) == wanted
