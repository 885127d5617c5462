"""Goal: what is read over HTTP is what is committed, now or at a time, and a fleet's code that
hangs or dies while the past is folded again holds up nobody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.gateway import past
from holdfast.gateway.settings import Settings
from tests.cli.commands import eventually
from tests.gateway import yard as yard_module
from tests.gateway.hanging import HANGS, Clocks
from tests.gateway.raw import goes_on, leaves_nothing
from tests.gateway.served import Served, refused, served
from tests.gateway.yard import Break, Cart, Counted, Moved, Remind


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    code = Settings(fleet=f"{yard_module.__file__}:fleet")
    with served(tmp_path_factory.mktemp("yard"), code) as found:
        yield found


def test_a_state_with_its_version_as_its_tag(yard: Served) -> None:
    yard.live.send(Cart, "one", Moved(x=1.0, y=2.0))
    yard.live.settle()
    heard = yard.client.get("/agents/Cart/one")
    assert heard.headers["etag"] == '"1"'
    values = heard.json()
    assert (values["agent"], values["key"], values["version"]) == ("Cart", "one", 1)
    assert values["state"] == {
        "mode": "moving",
        "x": 1.0,
        "y": 2.0,
        "numbers": [],
        "reminded": 0,
        "mended": False,
        "halted_at": -1,
    }
    for tag in ('"1"', '"7", "1"'):
        same = yard.client.get("/agents/Cart/one", if_none_match=tag)
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", '"1"')
    assert yard.client.get("/agents/Cart/one", if_none_match='"0"').status == 200
    yard.live.send(Cart, "one", Moved(x=2.0, y=2.0))
    yard.live.settle()
    changed = yard.client.get("/agents/Cart/one", if_none_match='"1"')
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')


def test_a_state_behind_a_receipt_has_those_events(yard: Served) -> None:
    for number in range(1, 30):
        row = {"agent": "Cart", "key": "after", "type": "Counted", "data": {"number": number}}
        receipt = yard.client.events(row).json()["receipt"]
        found = yard.client.get(f"/agents/Cart/after?after={receipt}").json()
        assert found["state"]["numbers"][-1] == number
    refused(yard.client.get("/agents/Cart/after?after=0:999999&timeout=0.05"), 504, "0.05")


def test_what_is_not_there(yard: Served) -> None:
    refused(yard.client.get("/agents/Drone"), 404, "no agent 'Drone'")
    refused(yard.client.get("/agents/cart/one"), 404, "did you mean Cart?")
    refused(yard.client.get("/agents/Cart/nobody"), 404, "Cart/nobody has no state")
    refused(yard.client.get("/agents/Cart/nobody/timers"), 404, "Cart/nobody has no state")
    refused(yard.client.get("/agents/Drone/d/history"), 404, "no agent 'Drone'")
    assert yard.client.get("/agents/Cart/nobody/history").json() == {"entries": []}
    refused(yard.client.get("/agents/Cart/no%20key"), 422, "no key")
    refused(yard.client.ask("POST", "/dead-letters/0.99/redrive"), 404, "no dead letter '0.99'")


def test_pages_of_agents_have_everybody_once(yard: Served) -> None:
    keys = sorted(f"page-{n}" for n in range(25))
    yard.live.send_many([(Cart, key, Counted(number=1)) for key in keys])
    yard.live.settle()
    seen: list[str] = []
    following: str | None = "page-"
    while following is not None:
        page = yard.client.get(f"/agents/Cart?from={following}&most=7").json()
        assert len(page["agents"]) <= 7
        seen += [each["key"] for each in page["agents"]]
        following = page["next"]
    assert [key for key in seen if key.startswith("page-")] == keys
    assert seen == sorted(set(seen))


def test_a_history_is_in_order(yard: Served) -> None:
    yard.live.send(Cart, "old", Moved(x=1.0, y=0.0), source="gps", seq=4)
    for number in range(5):
        yard.live.send(Cart, "old", Counted(number=number))
    yard.live.settle()  # a pause overtakes what waits
    yard.live.pause(Cart, "old", "to look at it")
    yard.live.resume(Cart, "old")
    yard.live.settle()
    entries = yard.client.get("/agents/Cart/old/history").json()["entries"]
    assert (entries[0]["source"], entries[0]["seq"]) == ("gps", 4)
    assert entries[0]["event"] == {"type": "Moved", "data": {"x": 1.0, "y": 0.0, "note": ""}}
    assert [each["event"]["data"]["number"] for each in entries[1:6]] == list(range(5))
    assert [each["origin"] for each in entries[6:]] == ["control", "control"]
    newest = yard.client.get("/agents/Cart/old/history?most=2").json()["entries"]
    assert newest == entries[-2:]


def test_timers_are_shown_until_they_fire(yard: Served) -> None:
    yard.live.send(Cart, "timed", Remind(seconds=3600.0))
    yard.live.settle()
    (timer,) = yard.client.get("/agents/Cart/timed/timers").json()["timers"]
    assert timer["name"] == "reminder"
    assert timer["event"] == {"type": "Counted", "data": {"number": -1}}
    yard.live.send(Cart, "timed", Remind(seconds=0.05))  # the same timer, set anew
    eventually(
        "it fires", lambda: yard.client.get("/agents/Cart/timed/timers").json() == {"timers": []}
    )
    assert yard.client.get("/agents/Cart/timed").json()["state"]["numbers"] == [-1]


def test_a_dead_letter_is_read_and_redriven_once(yard: Served) -> None:
    yard.live.send(Cart, "wreck", Break())
    yard.live.settle()
    listed = yard.client.get("/dead-letters").json()
    (letter,) = [each for each in listed["dead_letters"] if each["key"] == "wreck"]
    assert letter["event"] == {"type": "Break", "data": {}}
    assert "a wheel is off" in letter["error"]
    path = f"/dead-letters/{letter['id']}/redrive"
    receipt = yard.client.ask("POST", path).json()["receipt"]
    refused(yard.client.get(f"/agents/Cart/wreck?after={receipt}"), 404, "has no state")
    after = yard.client.get("/dead-letters").json()
    assert after["all"] == listed["all"] + 1  # it failed again, as another letter
    redriven = {each["id"]: each["redriven"] for each in after["dead_letters"]}
    assert redriven[letter["id"]] is True
    refused(yard.client.ask("POST", path), 422, "was redriven before")
    assert len(yard.client.get("/dead-letters?most=1").json()["dead_letters"]) == 1


def test_partitions_say_how_far_they_are(yard: Served) -> None:
    yard.live.settle()
    rows = yard.client.get("/partitions").json()["partitions"]
    told = {row["partition"]: (row["inbox"], row["folded"], row["lag"]) for row in rows}
    assert told == {n: (p.inbox, p.folded, 0) for n, p in yard.live.positions().items()}


def test_a_state_of_the_past_is_folded_by_the_code(yard: Served) -> None:
    times = []
    for number in (1, 2, 3):
        yard.live.send(Cart, "past", Counted(number=number))
        yard.live.settle()
        times.append(yard.live.history(Cart, "past")[-1].now)
    path = "/agents/Cart/past?at="
    found = [yard.client.get(f"{path}{at!r}") for at in (times[0], times[1], times[2])]
    assert [each.json()["state"]["numbers"] for each in found] == [[1], [1, 2], [1, 2, 3]]
    assert [each.headers["etag"] for each in found] == ['"1"', '"2"', '"3"']
    refused(yard.client.get(f"{path}{times[0] - 60!r}"), 422, "that is be")


def test_a_past_without_code(tmp_path: Path) -> None:
    with served(tmp_path) as bare:
        bare.live.send(Cart, "past", Counted(number=1))
        bare.live.settle()
        first = bare.live.history(Cart, "past")[-1].now
        path = f"/agents/Cart/past?at={first!r}"
        assert bare.client.get(path).json()["version"] == 1  # it has not changed since
        bare.live.send(Cart, "past", Counted(number=2))
        bare.live.settle()
        refused(bare.client.get(path), 422, "start it with --fleet")


def test_code_that_hangs_or_dies_in_the_past_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, clocks: Clocks
) -> None:
    """Neither another who reads, nor the gateway's end."""
    client, path = clocks.client, f"/agents/Clock/c?at={clocks.then!r}"
    assert client.get(path).json()["state"] == {"ticks": 1}  # though it prints
    monkeypatch.setitem(os.environ, HANGS, "exit")
    refused(client.get(path), 422, "ended while it folded")
    monkeypatch.setitem(os.environ, HANGS, "hang")
    monkeypatch.setattr(past, "PAST_SECONDS", 2.0)
    heard: list[int] = []
    asking = [
        threading.Thread(target=lambda: heard.append(client.get(path).status)) for _ in range(3)
    ]
    for each in asking:
        each.start()
    assert client.get("/agents/Clock/c/timers").status == 200
    assert client.get("/agents/Clock/c").status == 200
    for each in asking:
        each.join(120)
    assert heard == [504] * 3
    assert client.get("/agents/Clock").status == 200


def test_head_requests_and_the_page_for_people(yard: Served) -> None:
    page = yard.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert yard.client.get("/healthz").json() == {"status": "ok"}
    assert yard.client.get("/readyz").json() == {"status": "ready"}
    head = yard.client.ask("HEAD", "/healthz")
    assert (head.status, head.body) == (200, b"")
    goes_on(yard)
    leaves_nothing(yard)
