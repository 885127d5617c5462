"""Goal: a device says over MQTT what became of its actions, of its own only, and it is recorded."""

import json
from pathlib import Path

import pytest

from holdfast import Live
from tests.gateway.mqtt.fleets import fleet
from tests.gateway.mqtt.rig import Device, bridged, eventually, rejected
from tests.servers.mosquitto import Mosquitto


def status(live: Live, action: str) -> str:
    return live.action(action).status


def test_a_device_acknowledges_and_fails_its_actions(broker: Mosquitto, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live, bridged(url, broker):
        with Device(broker.port, "d-1", topic="agents/d-1/command") as device:
            broker.pub("agents/d-1/low-battery", '{"percent": 9.5}')
            eventually("both commands", lambda: len(device.got) == 2)
            land, descend = (each["id"] for each in device.got)
            device.say("agents/d-1/ack", json.dumps({"id": land}))
            device.say("agents/d-1/ack", json.dumps({"id": land}))  # never sure
            device.say("agents/d-1/ack", json.dumps({"id": descend, "failed": "no power"}))
        eventually("the first", lambda: status(live, land) == "acknowledged")
        eventually("the second", lambda: status(live, descend) == "failed")
        life = live.action(descend)
        assert (life.by, life.why) == ("mqtt:Drone/d-1", "no power")
        assert live.action(land).by == "mqtt:Drone/d-1"
        assert rejected(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("payload", "part"),
    [
        ({"id": "yard/Drone/d-2/1/0"}, "is no action of Drone/d-1"),
        ({"id": "other/Drone/d-1/1/0"}, "is no action of Drone/d-1"),
        ({"id": "nonsense"}, "is no id of an action"),
        ({"id": 7}, "an acknowledgement is"),
        ({"id": "yard/Drone/d-1/1/0", "failed": " "}, "say why"),
        ({"action": "yard/Drone/d-1/1/0"}, "an acknowledgement is"),
    ],
)
def test_what_is_no_acknowledgement_of_its_own_is_rejected(
    broker: Mosquitto, tmp_path: Path, payload: object, part: str
) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live, bridged(url, broker):
        broker.pub("agents/d-1/ack", json.dumps(payload))
        eventually("the rejection", lambda: rejected(tmp_path / "data"))
        (found,) = rejected(tmp_path / "data")
        assert part in str(found), found
        assert live.positions()[0].inbox == 0


def test_nobody_sends_what_the_fleet_makes_itself(broker: Mosquitto, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live, bridged(url, broker):
        broker.pub("agents/d-1/CallFailed", json.dumps({"id": "x"}))
        eventually("the rejection", lambda: rejected(tmp_path / "data"))
        assert live.positions()[0].inbox == 0
