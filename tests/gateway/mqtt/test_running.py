"""Goal: `holdfast run --mqtt` and `holdfast bridge` do what the docs say, and refuse in one line
what they cannot do.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from holdfast.gateway.mqtt.bridge import Bridge
from holdfast.gateway.mqtt.keeping import Keeping
from tests.cli.commands import Running, children_of, holdfast_here, refused
from tests.gateway.mqtt.fleets import Drone, Order, fleet
from tests.gateway.mqtt.rig import (
    FLEET,
    BridgeProcess,
    Device,
    bridged,
    eventually,
    noted,
    rejected,
)
from tests.servers.mosquitto import Mosquitto


@pytest.mark.kill
def test_a_fleet_with_a_bridge_beside_it(broker: Mosquitto, tmp_path: Path) -> None:
    """The supervisor starts the bridge again, and the broker keeps what came meanwhile."""
    with Running(FLEET, "--data", "data", "--mqtt", broker.url, cwd=tmp_path) as run:
        eventually("subscribed", lambda: broker.did("Sending SUBACK") == 1)
        bridge = next(
            pid for pid in children_of(run.process.pid) if "gateway.mqtt" in words_of(pid)
        )
        with Device(broker.port, "d-1", topic="agents/d-1/command") as device:
            device.say("agents/d-1/order", '{"what": "1", "seq": 1}')
            eventually("the first command", lambda: len(device.got) == 1)
            os.kill(bridge, signal.SIGKILL)
            device.say("agents/d-1/order", '{"what": "2", "seq": 2}')
            eventually("the second command", lambda: len(commands(device)) == 2)
        assert list(commands(device).values()) == [1.0, 2.0]
        assert run.stop() == 0
        said = run.rest_of_output().splitlines()
        assert said[:2] == [f"yard takes agents/+/+ from {broker.url}"] * 2  # one for each life
    assert "MQTT bridge 0 ended" in run.errors.read_text()


def commands(device: Device) -> dict[str, float]:
    """By id: a bridge that is killed may publish its last ones again."""
    return {each["id"]: each["data"]["to"] for each in device.got}


def words_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_a_bridge_says_what_it_does(broker: Mosquitto, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url) as live, BridgeProcess(url, broker.url, tmp_path) as bridge:
        eventually("subscribed", lambda: broker.did("Sending SUBACK") == 1)
        broker.pub("agents/d-1/noted", '{"number": 1}')
        eventually("taken", lambda: noted(live, "d-1") == [1])
        said = bridge.stop().splitlines()
        assert said[0] == f"yard takes agents/+/+ from {broker.url}"
        assert said[1] == (
            "the bridge has stopped: 1 events taken, 0 repeats left out, 0 messages rejected, "
            "0 commands published"
        )
        assert bridge.errors.read_text() == ""


def test_a_broker_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    broker = Mosquitto(tmp_path / "broker")
    with fleet.open(url) as live, BridgeProcess(url, broker.url, tmp_path) as bridge:
        eventually("told", lambda: "is the broker up?" in bridge.errors.read_text())
        assert bridge.output.read_text() == ""  # it takes nothing yet
        with broker:
            eventually("subscribed", lambda: broker.did("Sending SUBACK") == 1)
            broker.pub("agents/d-1/noted", '{"number": 1}')
            eventually("taken", lambda: noted(live, "d-1") == [1])
            assert bridge.stop().startswith("yard takes agents/+/+ from ")


def test_another_table_ends_the_old_subscription(broker: Mosquitto, tmp_path: Path) -> None:
    url, table = f"sqlite:{tmp_path / 'data'}", tmp_path / "table.toml"
    table.write_text('prefix = "yard"\n')
    with fleet.open(url) as live:
        with bridged(url, broker):
            broker.pub("agents/d-1/noted", '{"number": 1}')
            eventually("taken", lambda: noted(live, "d-1") == [1])
        with bridged(url, broker, table=str(table)):
            eventually("ended", lambda: broker.did("Sending UNSUBACK") == 1)
            broker.pub("agents/d-1/noted", '{"number": 2}')
            broker.pub("yard/d-1/noted", '{"number": 3}')
            eventually("the new topic", lambda: noted(live, "d-1") == [1, 3])
        assert rejected(tmp_path / "data") == []


def test_a_bridge_that_ended_as_it_had_subscribed_is_known_by_its_subscriptions(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, table = f"sqlite:{tmp_path / 'data'}", tmp_path / "table.toml"
    table.write_text('prefix = "yard"\n')
    with fleet.open(url):
        with monkeypatch.context() as patch:
            patch.setattr(Bridge, "tick", lambda _: time.sleep(0.01))
            with bridged(url, broker):
                pass
        with bridged(url, broker, table=str(table)):
            eventually("ended", lambda: broker.did("Sending UNSUBACK") == 1)


def test_the_cursor_of_another_fleet_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    first = Keeping(tmp_path, "b", "yard")
    first.store_cursor("abc")
    first.close()
    again = Keeping(tmp_path, "b", "yard")
    again.load()
    assert again.cursor == "abc"
    again.close()
    other = Keeping(tmp_path, "b", "port")
    with pytest.raises(Exception, match="is of fleet 'yard', not 'port'"):
        other.load()
    (tmp_path / "b.json").write_bytes(b'{"fleet": "port", "curs')
    with pytest.raises(Exception, match="is not what was written"):
        other.load()
    other.close()


def test_refusals(tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        live.send(Drone, "d-1", Order(what="1"))
    for words, parts in [
        (("bridge", "http://x"), ["the scheme 'http'", "mqtt://host:1883"]),
        (("bridge", "mqtt://x", "--table", "none.toml"), ["none.toml", "No such file"]),
        (("bridge", "mqtt://x", "--keep", "/proc/x"), ["/proc/x", "--keep"]),
        (("run", FLEET, "--mqtt-table", "t"), ["--mqtt-table without --mqtt"]),
        (("run", FLEET, "--mqtt", "mqtt://x:y@z"), ["password_file"]),
        (("run", FLEET, "--mqtt", "mqtt://x", "--mqtt-table", "t"), ["No such file"]),
    ]:
        refused(holdfast_here(*words, *data, cwd=tmp_path, code=2), *parts)
    memory = holdfast_here(
        "run", FLEET, "--engine", "memory:", "--mqtt", "mqtt://x", cwd=tmp_path, code=2
    )
    refused(memory, "--mqtt needs sqlite: or kafka:")
    refused(
        holdfast_here("bridge", "mqtt://x", "--engine", "memory:", cwd=tmp_path, code=2),
        "a bridge needs sqlite: or kafka:",
    )
