"""Goal: a unit test of an agent can let its actions be carried out, fail and expire, and stop the
fleet, and sees what the agent makes of it."""

from __future__ import annotations

import pytest

from holdfast import UsageError
from holdfast.testing.harness import Harness
from tests.runtime.couriers import FLIES, Buoy, Courier, Drop, Land, Order


@pytest.fixture
def harness() -> Harness:
    return Harness(Courier, Buoy)


def test_what_becomes_of_actions(harness: Harness) -> None:
    harness.send(Courier, "c-1", Order())
    drop, fly = harness.issued
    harness.acknowledge(drop)
    harness.acknowledge(drop)
    harness.fail_action(fly.id, "no wind")
    harness.advance(2 * FLIES)
    harness.expect(Courier, "c-1", heard=["Drop by a test", "Fly failed: no wind"])
    harness.verify()


def test_what_expires(harness: Harness) -> None:
    harness.send(Courier, "c-1", Order())
    harness.advance(FLIES + 1.0)
    harness.acknowledge(harness.issued[1])
    harness.expect(Courier, "c-1", heard=["Fly expired", "Fly by a test late"])
    harness.verify()


def test_a_ground_stop(harness: Harness) -> None:
    harness.send(Courier, "c-1", Order())
    harness.send(Courier, "c-2", Order())
    harness.take_actions()
    harness.ground_stop("thunder", by="tower")
    harness.send(Courier, "c-1", Order())
    assert harness.take_actions() == [Land(), Land()]
    harness.lift_ground_stop("blue sky")
    harness.expect_actions(Drop(item="anchor"), Drop(item="anchor"))
    harness.expect(Courier, "c-2", heard=["stop: thunder by tower", "lifted: blue sky"])
    harness.verify()


def test_an_id_of_another_fleet_is_refused(harness: Harness) -> None:
    with pytest.raises(UsageError, match="no action 'nonsense' of this harness"):
        harness.acknowledge("nonsense")
