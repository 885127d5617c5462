"""Goal: on real brokers actions live as on one disk: acknowledged from another process's handle,
told once, pending until then; a ground stop holds and outlives the handle that owned it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from holdfast import UsageError
from holdfast.runtime.replaying.running import compare
from tests.runtime.couriers import Buoy, Courier, Order, fleet

DROP, FLY = "harbour/Courier/c-1/1/0", "harbour/Courier/c-1/1/1"


def test_acknowledged_told_and_stopped(kafka: str, tmp_path: Path) -> None:
    url = f"kafka://{kafka}/lives-{uuid.uuid4().hex[:8]}"
    with fleet.open(f"{url}?cache={tmp_path / 'owner'}", partitions=2) as live:
        live.send(Courier, "c-1", Order())
        live.settle()
        with fleet.connect(f"{url}?cache={tmp_path / 'reader'}") as beside:
            assert [each.id for each in beside.actions(pending=True)] == [DROP, FLY]
            assert beside.acknowledge([DROP, FLY], by="gateway", timeout=60.0) == {}
            with pytest.raises(UsageError, match="was acknowledged by gateway before"):
                beside.fail(FLY, "no", timeout=60.0)
            assert beside.actions(pending=True) == []
            assert beside.state(Courier, "c-1").heard == ["Drop by gateway", "Fly by gateway"]
            beside.ground_stop("thunder", by="tower")
            assert len(beside.grounded()) == 2
            live.send(Buoy, "b-1", Order())
            live.settle()
            held = {one.id for one in beside.withheld()}
            assert held == {"harbour/Buoy/b-1/1/0", "harbour/Courier/c-1/4/0"}
    with fleet.open(f"{url}?cache={tmp_path / 'other'}") as live:
        assert {ground.by for ground in live.grounded().values()} == {"tower"}
        live.lift_ground_stop("blue sky", by="tower")
        heard = live.state(Courier, "c-1").heard
        assert heard[2:] == ["stop: thunder by tower", "lifted: blue sky"]
        assert live.action(DROP).by == "gateway"
        for number in (0, 1):
            assert compare(live._engine, fleet, number).difference is None
