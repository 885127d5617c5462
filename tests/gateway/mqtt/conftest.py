"""A broker, a place for data and a fleet on it. A file of tests that needs another broker has a
fixture `broker` or `broker_settings` of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Live
from tests.gateway.mqtt.fleets import fleet
from tests.servers.mosquitto import Mosquitto, running


@pytest.fixture
def broker_settings() -> dict[str, object]:
    """What is not as usual. A file of tests may say otherwise."""
    return {}


@pytest.fixture
def broker(broker_settings: dict[str, object]) -> Iterator[Mosquitto]:
    with running(broker_settings) as broker:
        yield broker


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'data'}"


@pytest.fixture
def live(url: str) -> Iterator[Live]:
    with fleet.open(url) as live:
        yield live
