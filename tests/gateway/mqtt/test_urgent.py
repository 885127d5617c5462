"""Goal: an urgent message of a device overtakes the telemetry that came before it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Live
from holdfast.engine.port import waiting_in
from holdfast.engine.urls import open_engine
from tests.gateway.mqtt.fleets import Drone, Land, fleet
from tests.gateway.mqtt.rig import Device, bridged, eventually
from tests.servers.mosquitto import Mosquitto, running


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with running() as broker:
        yield broker


def landed_at(live: Live) -> int:
    drone = live.state(Drone, "d-1")
    return -1 if drone is None else drone.landed_at


@pytest.mark.parametrize("numbered", [False, True])
def test_it_overtakes_what_waits(broker: Mosquitto, tmp_path: Path, numbered: bool) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url, partitions=1):
        pass  # nobody folds from here on

    def said(n: int) -> str:
        return f', "seq": {n}' if numbered else ""

    with Device(broker.port, "d-1") as device, bridged(url, broker):
        for n in range(200):
            device.say("agents/d-1/noted", f'{{"number": {n}{said(n)}}}')
        device.say("agents/d-1/land_now", "{" + said(200).lstrip(", ") + "}")
        engine = open_engine(url, None)
        view = engine.view(0)
        eventually("all is stored", lambda: waiting_in(view, view.head()) == 201)
        engine.close()
        with fleet.open(url) as live:
            live.settle()
            assert landed_at(live) == 0
            assert Land() in [issued.action for issued in live.actions()]
