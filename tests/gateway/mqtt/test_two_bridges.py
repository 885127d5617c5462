"""Goal: two bridges for one fleet neither double actions nor throw each other out of the broker:
one works, the other stands by and takes over when the first one dies.
"""

import time
from pathlib import Path

import pytest

from holdfast import Live
from tests.gateway.mqtt.fleets import Drone, Order
from tests.gateway.mqtt.rig import BridgeProcess, Device, bridged, eventually, noted
from tests.servers.mosquitto import Mosquitto


@pytest.mark.kill
def test_the_second_stands_by_and_takes_over(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    with (
        Device(broker.port, "watch", topic="agents/+/command") as watch,
        BridgeProcess(url, broker.url, tmp_path) as first,
    ):
        eventually("the first", lambda: broker.did("Sending SUBACK to holdfast-yard") == 1)
        with BridgeProcess(url, broker.url, tmp_path) as second:
            eventually("it stands by", lambda: "standing by" in second.errors.read_text())
            for number in range(20):
                live.send(Drone, "d-1", Order(what=str(number)))
                broker.pub("agents/d-1/noted", f'{{"number": {number}}}')
            eventually("the commands", lambda: len(watch.got) == 20)
            eventually("the events", lambda: noted(live, "d-1") == list(range(20)))
            assert broker.did("Sending SUBACK to holdfast-yard") == 1, "the second kept away"
            first.kill()
            live.send(Drone, "d-1", Order(what="20"))
            broker.pub("agents/d-1/noted", '{"number": 20}')
            eventually("taken over", lambda: watch.got[-1]["data"]["to"] == 20.0)
            eventually("events too", lambda: noted(live, "d-1")[-1:] == [20])
            second.stop()
    # What the first had not noted as done when it was killed is done again.
    done = [each["data"]["to"] for each in watch.got]
    assert list(dict.fromkeys(done)) == [float(n) for n in range(21)]
    assert list(dict.fromkeys(noted(live, "d-1"))) == list(range(21))


def test_two_of_one_name_from_different_machines_do_not_fight(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Folders of their own stand for two machines: then only the broker sees that they are two."""
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    with bridged(url, broker, folder=one), bridged(url, broker, folder=other):
        eventually("it is told", lambda: "does another bridge connect as" in caplog.text)
        broker.pub("agents/d-1/noted", '{"number": 1, "seq": 1}')
        eventually("one of them works", lambda: noted(live, "d-1") == [1])
        before = broker.did("already connected, closing old")
        begun = time.monotonic()
        time.sleep(2.0)
        often = broker.did("already connected, closing old") - before
        assert often <= 1 + (time.monotonic() - begun), "they do not rest"


def test_bridges_of_other_names_work_side_by_side(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    """Each gets every message: numbers make that one event."""
    with bridged(url, broker, "?client_id=a"), bridged(url, broker, "?client_id=b"):
        for number in range(20):
            broker.pub("agents/d-1/noted", f'{{"number": {number}, "seq": {number}}}')
        eventually("all", lambda: len(noted(live, "d-1")) == 20)
        live.settle()
    assert noted(live, "d-1") == list(range(20))
