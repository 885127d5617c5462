"""Goal: a stock MQTT client needs nothing of Holdfast: what it publishes becomes events of its
agent, and the actions of its agent come to it.

`mosquitto_pub`, `mosquitto_sub` and paho against a real Mosquitto, in MQTT 5 and 3.1.1.
"""

import json
import time
from functools import partial
from pathlib import Path

import cbor2
import msgspec
import pytest

from holdfast import Live
from tests.gateway.mqtt.fleets import Drone, LowBattery, Order
from tests.gateway.mqtt.rig import Device, bridged, eventually, noted, rejected
from tests.servers.mosquitto import Mosquitto


def has_count(live: Live, count: int) -> bool:
    return len(noted(live, "d-1")) == count


def has_got(device: Device, count: int) -> bool:
    return len(device.got) == count


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_stock_client_publishes_and_is_commanded(
    broker: Mosquitto, url: str, live: Live, version: str
) -> None:
    with bridged(url, broker, f"?version={version}") as stop:
        with Device(broker.port, "d-1", topic="agents/d-1/command") as device:
            broker.pub("agents/d-1/low-battery", '{"percent": 9.5}')
            eventually("both commands", lambda: len(device.got) == 2)
        land, descend = device.got  # the urgent one first
        assert land["type"] == "Land"
        assert land["priority"] == "urgent"
        assert land["expires_at"] - land["issued"] == 30.0
        assert descend == {
            "id": "yard/Drone/d-1/1/0",
            "type": "Descend",
            "data": {"to": 9.5},
            "issued": land["issued"],
            "expires_at": None,
            "priority": "normal",
        }
        assert [message.qos for message in device.messages] == [1, 1]
        assert "1 events taken" in stop()
    state = live.state(Drone, "d-1")
    assert state is not None
    assert state.battery == 9.5


@pytest.mark.parametrize("words", [("-V", "mqttv311"), ("-V", "mqttv5")])
@pytest.mark.parametrize("quality", [0, 1, 2])
def test_every_version_and_quality_is_taken(
    broker: Mosquitto, url: str, live: Live, words: tuple[str, str], quality: int
) -> None:
    with bridged(url, broker):
        broker.pub("agents/d-1/Noted", '{"number": 7}', *words, quality=quality)
        eventually("the event", lambda: noted(live, "d-1") == [7])


def test_payloads_are_json_msgpack_or_cbor(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    table = tmp_path / "table.toml"
    table.write_text(
        '[[events]]\ntopic = "agents/{key}/noted"\nis = "Drone/Noted"\nformat = "cbor"\n'
    )
    values = [{"number": n, "seq": n} for n in (1, 2, 3)]
    with bridged(url, broker, table=str(table)), Device(broker.port, "d-1") as device:
        say = device.say
        say("agents/d-1/noted", cbor2.dumps(values[0]))  # as the table says
        say(
            "agents/d-1/noted",
            msgspec.msgpack.encode(values[1]),
            content_type="application/msgpack",
        )
        say(
            "agents/d-1/noted",
            json.dumps(values[2]),
            content_type="application/json; charset=utf-8",
        )
        eventually("the events", lambda: noted(live, "d-1") == [1, 2, 3])


def test_numbers_come_from_the_payload_or_from_properties(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with bridged(url, broker) as stop, Device(broker.port, "d-1") as device:
        topic = "agents/d-1/noted"
        for _ in range(3):
            device.say(topic, '{"number": 1, "seq": 5}')
            device.say(topic, '{"number": 2}', user=[("seq", "6")])
            device.say(topic, '{"number": 3}', user=[("seq", "5"), ("source", "boot-2")])
            device.say(topic, '{"number": 4, "seq": 5, "source": 3}')
        broker.pub(topic, '{"number": 9, "seq": 9}')
        eventually("the last one", lambda: noted(live, "d-1")[-1:] == [9])
        assert noted(live, "d-1") == [1, 2, 3, 4, 9]
        assert "8 repeats left out" in stop()
    entries = [(entry.source, entry.seq) for entry in live.history(Drone, "d-1")]
    assert entries == [
        ("mqtt:Drone/d-1", 5),
        ("mqtt:Drone/d-1", 6),
        ("mqtt:Drone/d-1/boot-2", 5),
        ("mqtt:Drone/d-1/3", 5),
        ("mqtt:Drone/d-1", 9),
    ]


def test_without_numbers_equal_messages_are_different_events(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with bridged(url, broker):
        for _ in range(3):
            broker.pub("agents/d-1/noted", '{"number": 1}')
        eventually("three", lambda: noted(live, "d-1") == [1, 1, 1])


def test_a_device_that_numbers_now_and_then_stays_in_order(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with Device(broker.port, "d-1") as device, bridged(url, broker) as stop:
        stop()  # so that all of them come in one batch
        for number in range(60):
            numbered = f', "seq": {number}' if number % 3 else ""
            device.say("agents/d-1/noted", f'{{"number": {number}{numbered}}}')
    with bridged(url, broker):
        eventually("all", lambda: len(noted(live, "d-1")) == 60)
    assert noted(live, "d-1") == list(range(60))


def test_what_is_no_event_is_written_down_and_holds_up_nobody(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    wrong = [
        ("agents/d-1/noted", '{"number": "x"}', "Noted.number cannot be 'x'"),
        ("agents/d-1/noted", "no JSON", "no json of fields by name"),
        ("agents/d-1/noted", '{"number": 1, "seq": -4}', "seq cannot be -4"),
        ("agents/d-1/noted", '{"number": 1, "seq": 1.5}', "seq cannot be 1.5"),
        ("agents/d-1/noted", '{"number": 1, "more": 1}', "Noted has no field 'more'"),
        ("agents/d-1/notes", '{"number": 1}', "did you mean Noted?"),
        ("agents/d 1/noted", '{"number": 1}', "cannot be a key"),
        ("agents/-1/noted", '{"number": 1}', "cannot be a key"),
        ("agents//noted", '{"number": 1}', "cannot be a key"),
        ("agents/d-1/noted", '{"number": 1, "pad": "' + "x" * 1_100_000 + '"}', "no field 'pad'"),
        ("agents/d-1/CallFailed", "{}", "no event 'CallFailed'"),
    ]
    with bridged(url, broker) as stop, Device(broker.port, "d-1") as device:
        for number, (topic, payload, _) in enumerate(wrong):
            device.say(topic, payload)
            device.say("agents/d-1/noted", f'{{"number": {number}}}')
        eventually("the good ones", lambda: len(noted(live, "d-1")) == len(wrong))
        assert noted(live, "d-1") == list(range(len(wrong)))
        eventually("the bad ones", lambda: len(rejected(tmp_path / "data")) == len(wrong))
        assert f"{len(wrong)} messages rejected" in stop()
    for line, (topic, payload, reason) in zip(rejected(tmp_path / "data"), wrong, strict=True):
        assert line["topic"] == topic
        assert reason in line["reason"], line["reason"]
        assert payload.startswith(line["payload"])
    with bridged(url, broker) as stop:  # they were acknowledged: none comes again
        broker.pub("agents/d-1/noted", '{"number": 99}')
        eventually("the next one", lambda: noted(live, "d-1")[-1] == 99)
        assert "0 messages rejected" in stop()


def test_a_retained_event_is_taken_when_it_comes_not_when_it_is_repeated(
    broker: Mosquitto, url: str, live: Live
) -> None:
    broker.pub("agents/d-1/noted", '{"number": 1}', "-r")
    broker.pub("agents/d-2/noted", '{"number": 2, "seq": 2}', "-r")
    for version in ("5", "3.1.1"):  # 3.1.1 repeats it at every start
        for _ in range(2):
            with bridged(url, broker, f"?version={version}&client_id=b-{version}"):
                count = len(noted(live, "d-1")) + 1
                broker.pub("agents/d-1/noted", '{"number": 3}')
                eventually(f"{count} events", partial(has_count, live, count))
    assert set(noted(live, "d-1")) == {3}
    assert noted(live, "d-2") == [2]


def test_what_comes_while_the_bridge_is_away_waits_with_the_broker(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with bridged(url, broker):
        pass
    for number in range(50):
        broker.pub("agents/d-1/noted", f'{{"number": {number}}}')
    with bridged(url, broker):
        eventually("all of them", lambda: noted(live, "d-1") == list(range(50)))


def test_a_device_that_was_away_gets_its_command(broker: Mosquitto, url: str, live: Live) -> None:
    Device(broker.port, "d-1", topic="agents/d-1/command").leave()
    with bridged(url, broker):
        live.send(Drone, "d-1", LowBattery(percent=20.0))
        live.send(Drone, "d-1", LowBattery(percent=19.0))
        eventually("published", lambda: broker.stored("agents/d-1/command") == 2)
    with Device(broker.port, "d-1", topic="agents/d-1/command") as device:
        eventually("both", lambda: len(device.got) == 2)
    assert [each["data"]["to"] for each in device.got] == [20.0, 19.0]


def test_an_expired_action_is_not_handed_out(broker: Mosquitto, url: str, live: Live) -> None:
    """Neither one that expired before the bridge saw it, nor one that the broker kept too long."""
    Device(broker.port, "d-1", topic="agents/d-1/command").leave()
    with bridged(url, broker) as stop:
        live.send(Drone, "d-1", Order(what="blink"))
        live.send(Drone, "d-1", Order(what="1"))
        eventually("published", lambda: broker.stored("agents/d-1/command") == 2)
        assert "2 commands published" in stop()
    issued = live.send(Drone, "d-1", Order(what="blink"))
    live.state(Drone, "d-1", after=issued)
    blink = next(each for each in live.actions() if each.expires_at is not None)
    assert blink.expires_at is not None
    time.sleep(max(0.0, blink.expires_at + 2.2 - time.time()))
    with (
        bridged(url, broker) as stop,
        Device(broker.port, "d-1", topic="agents/d-1/command") as device,
    ):
        live.send(Drone, "d-1", Order(what="2"))
        eventually("the next one", lambda: any(x["data"] == {"to": 2.0} for x in device.got))
    assert [each["data"] for each in device.got] == [{"to": 1.0}, {"to": 2.0}]


def test_declared_actions_are_retained(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    table = tmp_path / "table.toml"
    table.write_text(
        '[[actions]]\nof = "Drone/Descend"\ntopic = "agents/{key}/height"\nretain = true\n'
        '[[actions]]\nof = "Drone"\ntopic = "agents/{key}/do/{action}"\n'
    )
    with bridged(url, broker, table=str(table)):
        live.send(Drone, "d-1", LowBattery(percent=8.0))
        late = json.loads(broker.sub("agents/d-1/height"))  # it was not there when it was published
        assert late["data"] == {"to": 8.0}
        with Device(broker.port, "d-1", topic="agents/d-1/do/+") as device:
            live.send(Drone, "d-1", LowBattery(percent=7.0))
            eventually("the other kind", lambda: len(device.got) == 1)
        assert device.messages[0].topic == "agents/d-1/do/Land"


def test_actions_are_published_once_while_all_goes_well(
    broker: Mosquitto, url: str, live: Live
) -> None:
    with Device(broker.port, "watch", topic="agents/+/command") as watch:
        for round_number in range(3):  # a bridge goes on where the one before has ended
            with bridged(url, broker):
                live.send(Drone, "d-1", Order(what=str(round_number)))
                eventually("it", partial(has_got, watch, round_number + 1))
        live.settle()
    assert [each["data"]["to"] for each in watch.got] == [0.0, 1.0, 2.0]


def test_a_first_bridge_may_leave_old_actions_alone(
    broker: Mosquitto, url: str, live: Live
) -> None:
    receipt = live.send(Drone, "d-1", Order(what="1"))
    live.state(Drone, "d-1", after=receipt)
    with (
        Device(broker.port, "watch", topic="agents/+/command") as watch,
        bridged(url, broker, from_now=True),
    ):
        live.send(Drone, "d-1", Order(what="2"))
        eventually("the new one", lambda: bool(watch.got))
    assert [each["data"]["to"] for each in watch.got] == [2.0]
