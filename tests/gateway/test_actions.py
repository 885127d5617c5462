"""Goal: over HTTP an action's life is told and changed, and an operator's commands are obeyed and
recorded with who gave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway.settings import Settings
from holdfast.gateway.tokens import lines_for
from holdfast.runtime.untyped import read_receipt
from tests.gateway.served import Client, Served, refused, served
from tests.gateway.yard import Cart


def stop(yard: Served, key: str, note: str = "wall") -> dict[str, Any]:
    """An urgent action of this cart, as it is followed."""
    data = {"x": 200.0, "y": 0.0, "note": note}
    heard = yard.client.events({"agent": "Cart", "key": key, "type": "Moved", "data": data})
    yard.live.wait_for(read_receipt(heard.json()["receipt"]))
    path = f"/actions?pending=true&agent=Cart&key={key}"
    found: list[dict[str, Any]] = yard.client.get(path).json()["actions"]
    return found[-1]


def test_an_action_is_acknowledged_once(yard: Served) -> None:
    action = stop(yard, "a-1")
    assert yard.client.get(f"/actions/{action['id']}").json()["status"] == "issued"
    done = yard.client.ask("POST", f"/actions/{action['id']}/ack")
    assert done.json() == {"settled": 1, "refused": {}}
    assert yard.client.ask("POST", f"/actions/{action['id']}/ack").json()["settled"] == 1
    life = yard.client.get(f"/actions/{action['id']}").json()
    assert (life["status"], life["by"], life["type"]) == ("acknowledged", "local", "Stop")
    assert [fate["kind"] for fate in life["fates"]].count("acknowledged") == 1
    refused(
        yard.client.post(f"/actions/{action['id']}/fail", {"why": "too late"}), 409, "acknowledged"
    )
    pending = yard.client.get("/actions?pending=true&agent=Cart&key=a-1").json()["actions"]
    assert pending == []


def test_many_are_settled_at_once(yard: Served) -> None:
    ids = [stop(yard, f"m-{n}")["id"] for n in range(5)]
    assert yard.client.post("/actions/ack", {"ids": ids[:3]}).json()["settled"] == 3
    failed = yard.client.post("/actions/fail", {"ids": ids[2:], "why": "no brakes"}).json()
    assert (failed["settled"], list(failed["refused"])) == (2, [ids[2]])
    life = yard.client.get(f"/actions/{ids[4]}").json()
    assert (life["status"], life["why"]) == ("failed", "no brakes")


@pytest.mark.parametrize(
    ("path", "body", "status", "part"),
    [
        ("/actions/yard/Cart/nobody/7/0/ack", None, 409, "yard/Cart/nobody/7/0"),
        ("/actions/nonsense/ack", None, 422, "nonsense"),
        ("/actions/mine/Cart/k/1/0/ack", None, 422, "of fleet 'mine'"),
        ("/actions/yard/Cart/k/1/0/fail", {}, 400, "why"),
        ("/agents/Cart/o-9/override", {"type": "Stop", "why": "x"}, 422, "why"),
        ("/agents/Boat/o-9/override", {"type": "Stop", "why": "x"}, 404, "no agent 'Boat'"),
        ("/ground-stop", {"why": " "}, 422, "say why"),
    ],
)
def test_what_cannot_be_is_told(
    yard: Served, path: str, body: object, status: int, part: str
) -> None:
    heard = yard.client.ask("POST", path) if body is None else yard.client.post(path, body)
    refused(heard, status, part)


def test_an_operator_overrides_pauses_and_resumes(yard: Served) -> None:
    stop(yard, "o-1")
    body = {"type": "Stop", "data": {"why": "operator"}, "why": "fog"}
    issued = yard.client.post("/agents/Cart/o-1/override", body).json()["id"]
    assert yard.client.get(f"/actions/{issued}").json()["type"] == "Stop"
    actions = yard.client.get("/actions?agent=Cart&key=o-1").json()["actions"]
    assert [a["data"]["why"] for a in actions] == ["wall", "operator"]
    receipt = yard.client.post("/agents/Cart/o-1/pause", {"why": "inspection"}).json()["receipt"]
    yard.live.wait_for(read_receipt(receipt))
    assert [(p.key, p.reason) for p in yard.live.paused()] == [("o-1", "inspection")]
    again = yard.client.ask("POST", "/agents/Cart/o-1/resume").json()["receipt"]
    yard.live.wait_for(read_receipt(again))
    assert yard.live.paused() == []


def test_a_ground_stop_is_fleet_wide_and_says_who(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    roles = {"tower": "admin", "device": "send"}
    tokens.write_text("".join(lines_for(name, role, name) for name, role in roles.items()))
    settings = Settings(tokens=str(tokens))
    with served(tmp_path, settings) as yard:
        tower, device = Client(yard.port, "tower"), Client(yard.port, "device")
        refused(device.post("/ground-stop", {"why": "storm"}), 403, "takes the role admin")
        found = tower.post("/ground-stop", {"why": "storm"}).json()
        assert found["in_force"]
        assert {each["by"] for each in found["partitions"].values()} == {"tower"}
        moved = {"agent": "Cart", "key": "g-1", "type": "Moved", "data": {"x": 200.0, "y": 0.0}}
        receipt = read_receipt(device.events(moved).json()["receipt"])
        assert yard.live.state(Cart, "g-1", after=receipt).x == 200.0
        assert device.get("/actions").json()["actions"] == []
        assert not tower.post("/ground-stop/lift", {"why": "it is over"}).json()["in_force"]
        device.events(moved)
        yard.live.settle()
        assert [a["key"] for a in device.get("/actions").json()["actions"]] == ["g-1"]
