"""A gateway with small bounds, which goes on after every test as if nothing had been sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.gateway.settings import Bounds, Settings
from tests.gateway.hostile.sending import inboxes
from tests.gateway.raw import (
    goes_on,
    leaves_nothing,
)
from tests.gateway.served import Served, served
from tests.run.speed import patient

BOUNDS = Bounds(
    body_bytes_max=100_000,
    bodies_bytes_max=400_000,
    events_per_request_max=100,
    connections_max=40,
    header_bytes_max=16_384,
    header_seconds=patient(1.0),
    body_seconds=patient(1.0),
    write_seconds=patient(1.0),
    idle_seconds=patient(2.0),
)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("yard"), Settings(bounds=BOUNDS)) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_is_left(yard: Served) -> Iterator[None]:
    before = inboxes(yard)
    yield
    goes_on(yard)
    leaves_nothing(yard)
    assert inboxes(yard) - before <= 70, "more was appended than the tests have sent"
