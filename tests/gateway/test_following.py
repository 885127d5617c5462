"""Goal: whoever follows actions or changes, by pages, Server-Sent Events or a WebSocket, misses
nothing, wherever it was cut off; and followers do not last for ever.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, Context, Event, Fleet, Live, on
from holdfast.gateway.settings import Bounds, Settings
from holdfast.runtime.rescaling import rescale
from tests.cli.commands import eventually
from tests.gateway.raw import Raw, leaves_nothing, request
from tests.gateway.served import Client, Served, gateway_on, refused, running, served
from tests.gateway.sse import Stream
from tests.gateway.websocket import Following
from tests.gateway.yard import Cart, Counted, Moved, fleet
from tests.run.speed import patient

Row = dict[str, Any]


def count(live: Live, key: str, *numbers: int) -> None:
    live.send_many([(Cart, key, Counted(number=number)) for number in numbers])
    live.settle()


def ids(rows: list[Row]) -> list[str]:
    return [row["id"] for row in rows]


def issued(live: Live) -> list[str]:
    found, cursor = [], None
    while page := list(batch := live.actions(after=cursor)):
        found += [each.id for each in page]
        cursor = batch.cursor
    return found


def pages(client: Client, what: str, after: str = "", most: int = 7) -> tuple[list[Row], str]:
    """To the end, with small pages."""
    rows: list[Row] = []
    while True:
        heard = client.get(f"/{what}?most={most}" + (f"&after={after}" if after else ""))
        assert heard.status == 200, heard
        after = heard.json()["cursor"]
        if not heard.json()[what]:
            return rows, after
        rows += heard.json()[what]


def test_pages_have_every_action_once(yard: Served) -> None:
    for n in range(6):
        count(yard.live, f"p-{n}", *range(9))
    rows, cursor = pages(yard.client, "actions")
    assert sorted(ids(rows)) == sorted(issued(yard.live))
    assert len(set(ids(rows))) == len(rows)
    count(yard.live, "p-0", 10)
    (row,), _ = pages(yard.client, "actions", cursor)
    assert (row["agent"], row["key"], row["type"], row["data"]) == ("Cart", "p-0", "Beep", {})


def test_what_an_action_has(yard: Served) -> None:
    now = yard.client.get("/actions?after=now").json()["cursor"]
    yard.live.send(Cart, "fast", Moved(x=101.0, y=0.0, note="too far"))
    yard.live.settle()
    (row,), _ = pages(yard.client, "actions", now)
    assert row["data"] == {"why": "too far"}
    assert row["priority"] == "urgent"
    assert row["expires_at"] == row["now"] + 30.0


def test_now_and_filters(yard: Served) -> None:
    for what in ("actions", "changes"):
        heard = yard.client.get(f"/{what}?after=now").json()
        assert heard[what] == []
        count(yard.live, "f-1", 1)
        count(yard.live, "f-2", 2)
        after = f"&after={heard['cursor']}"
        one = yard.client.get(f"/{what}?agent=Cart&key=f-2{after}").json()[what]
        assert [row["key"] for row in one] == ["f-2"]
        none = yard.client.get(f"/{what}?agent=Cart&key=f-3{after}").json()
        assert none[what] == []
        assert yard.client.get(f"/{what}?after={none['cursor']}").json()[what] == []
        refused(yard.client.get(f"/{what}?key=f-2"), 422, "key without agent")


def test_what_is_for_others_is_passed_over_at_once(yard: Served) -> None:
    """Many pages of it, and nothing is committed that would wake anybody."""
    for what in ("actions", "changes"):
        cursor = yard.client.get(f"/{what}?after=now").json()["cursor"]
        for n in range(20):
            count(yard.live, f"a-{what}-{n}", 1)
        count(yard.live, f"z-{what}", 1)
        path = f"/{what}?agent=Cart&key=z-{what}&most=3&wait=10&after={cursor}"
        assert [row["key"] for row in yard.client.get(path).json()[what]] == [f"z-{what}"]


def test_a_page_is_waited_for(yard: Served) -> None:
    cursor = yard.client.get("/actions?after=now").json()["cursor"]
    found: list[Row] = []
    path = f"/actions?after={cursor}&wait=20"
    waiting = threading.Thread(target=lambda: found.extend(yard.client.get(path).json()["actions"]))
    waiting.start()
    count(yard.live, "late", 1)
    waiting.join(120)
    assert [row["key"] for row in found] == ["late"]
    assert yard.client.get("/actions?after=now&wait=0.05").json()["actions"] == []


def test_a_stream_goes_on_behind_its_last_id(yard: Served) -> None:
    """Cut off again and again, also in the middle of a page: repeats may be, gaps not."""
    _, start = pages(yard.client, "actions")
    known = set(issued(yard.live))
    seen: list[str] = []
    last = start
    chance = random.Random(5)
    for n in range(6):
        count(yard.live, f"s-{n}", *range(chance.randrange(1, 12)))
        with Stream(yard.port, "/actions", last) as stream:
            assert stream.response.status == 200
            assert stream.response.getheader("content-type") == "text/event-stream; charset=utf-8"
            seen += ids(stream.read(chance.randrange(1, 4)))
            last = stream.last or last
    _, end = pages(yard.client, "actions", last)
    missing = [id for id in issued(yard.live) if id not in known]
    with Stream(yard.port, "/actions", last) as stream:
        while not set(missing) <= set(seen):
            seen += ids(stream.read(len(stream.rows) + 1)[-1:])
    assert set(seen) == set(missing)
    assert stream.last == end


def test_a_websocket_tells_pages_and_goes_on(yard: Served) -> None:
    _, start = pages(yard.client, "actions")
    with Following(yard.port, f"/actions?after={start}") as socket_:
        count(yard.live, "w-1", 1, 2, 3)
        assert [row["key"] for row in socket_.rows(3)] == ["w-1"] * 3
        cursor = socket_.cursor
    count(yard.live, "w-1", 4)
    count(yard.live, "w-2", 5)
    with Following(yard.port, f"/actions?after={cursor}&agent=Cart&key=w-2") as socket_:
        assert [row["key"] for row in socket_.rows(1)] == ["w-2"]
    with Following(yard.port, "/changes?after=AAAA") as socket_:
        assert socket_.refused is not None
        assert socket_.refused[0] == 422


def states_of(live: Live, keys: list[str]) -> dict[str, list[int]]:
    return {key: live.state(Cart, key).numbers for key in keys}


def test_changes_have_the_newest_of_everybody(tmp_path: Path) -> None:
    """Many agents, small pages, and all of them change while they are listed: in the end a follower
    knows of each what the fleet knows."""
    chance = random.Random(11)
    keys = [f"k-{n:03}" for n in range(120)]
    with served(tmp_path, partitions=3) as yard:
        for key in keys:
            yard.live.send(Cart, key, Counted(number=0))
        yard.live.settle()
        known: dict[str, list[int]] = {}
        versions: dict[str, int] = {}
        cursor, quiet = "", 0
        while quiet < 2:
            if quiet == 0 and chance.random() < 0.7 and len(versions) < 119:
                some = chance.sample(keys, 5)
                yard.live.send_many([(Cart, key, Counted(number=7)) for key in some])
            heard = yard.client.get(f"/changes?most=11&after={cursor}").json()
            cursor = heard["cursor"]
            for row in heard["changes"]:
                assert row["version"] >= versions.get(row["key"], 0)
                versions[row["key"]] = row["version"]
                known[row["key"]] = row["state"]["numbers"]
            if heard["changes"]:
                quiet = 0
            else:
                yard.live.settle()
                quiet += 1
        assert known == states_of(yard.live, keys)


class Left(Event):
    pass


class Guest(Agent, expire_after=patient(1.0)):
    seen: int = 0

    @on
    def left(self, event: Left, ctx: Context) -> None:
        self.seen += 1


inn = Fleet("inn", agents=[Guest])


def test_agents_that_expire_are_gone(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with inn.open(url) as live, gateway_on(url) as port:
        live.send(Guest, "g-1", Left())
        live.settle()
        with Stream(port, "/changes") as stream:
            assert stream.read(1)[0]["state"] == {"seen": 1}
            assert stream.read(2)[1] == {"agent": "Guest", "key": "g-1", "gone": True}


def test_nothing_is_skipped_when_the_fleet_is_rescaled(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    keys = [f"r-{n}" for n in range(30)]
    with gateway_of_nobody(url) as port:
        client = Client(port)
        with fleet.open(url) as live:
            for key in keys:
                count(live, key, 1)
        rows, actions = pages(client, "actions")
        changed, changes = pages(client, "changes")
        assert len(rows) == len(changed) == 30
        rescale(fleet, url, 5)
        with fleet.open(url) as live:
            for key in keys[:10]:
                count(live, key, 2)
            more, _ = pages(client, "actions", actions)
            assert [row["key"] for row in more if row["id"] not in ids(rows)] != []
            assert {row["key"] for row in more} >= set(keys[:10])
            assert set(ids(rows + more)) == set(issued(live)) | set(ids(rows))
            again, _ = pages(client, "changes", changes)
            newest = {row["key"]: row["state"]["numbers"] for row in changed + again}
            assert newest == states_of(live, keys)


def gateway_of_nobody(url: str) -> Any:
    """One that goes on while the fleet is stopped."""
    with fleet.open(url, partitions=2):
        pass
    return gateway_on(url)


FEW = Settings(bounds=Bounds(streams_max=3, write_seconds=1.0))


def test_followers_have_a_bound_and_leave(tmp_path: Path) -> None:
    with served(tmp_path, FEW) as yard:
        streams = [Stream(yard.port, "/actions?after=now") for _ in range(2)]
        with Following(yard.port, "/actions?after=now") as socket_:
            late = yard.client.get("/changes", accept="text/event-stream")
            refused(late, 503, "3 clients follow, the bound")
            assert late.headers["retry-after"] == "10"
            with Following(yard.port, "/actions") as other:
                assert other.refused is not None
                assert other.refused[0] == 503
            assert socket_.closed is None
        for stream in streams:
            stream.__exit__(None, None, None)
        leaves_nothing(yard)
        with Stream(yard.port, "/actions?after=now") as stream:
            assert stream.response.status == 200


def test_followers_who_vanish_at_once_leave_too(tmp_path: Path) -> None:
    """A reset may come at any moment of the beginning."""
    linger = struct.pack("ii", 1, 0)
    upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
    upgrade |= {"sec_websocket_version": "13", "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    with served(tmp_path, FEW) as yard:
        for more in ({"accept": "text/event-stream"}, upgrade, {}) * 12:
            with Raw(yard.port) as raw:
                raw.send(request("GET", "/changes", **more))
                raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        leaves_nothing(yard)

        def let_in() -> bool:
            """The gateway may still meet a connection that was reset before it was accepted."""
            with ExitStack() as opened:
                streams = [Stream(yard.port, "/actions?after=now") for _ in range(3)]
                for stream in streams:
                    opened.enter_context(stream)
                return [stream.response.status for stream in streams] == [200] * 3

        eventually("all places are free", let_in)


def test_a_follower_who_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    note = "n" * 30_000
    for more in (
        {"accept": "text/event-stream"},
        {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec_websocket_version": "13",
            "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
    ):
        with served(tmp_path / more.get("upgrade", "sse"), FEW) as yard:
            with Raw(yard.port, receive_bytes=4096) as raw:
                raw.send(request("GET", "/actions", **more))
                raw.until(b"\r\n\r\n")
                for _ in range(20):
                    rows = [(Cart, f"c-{n}", Moved(x=200.0, y=0.0, note=note)) for n in range(20)]
                    yard.live.send_many(rows)
                leaves_nothing(yard)  # while it is there
            assert yard.client.get("/healthz").status == 200


def test_streams_end_when_the_gateway_stops(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url):
        with gateway_on(url) as port:
            stream = Stream(port, "/actions?after=now")
            follower = Following(port, "/actions?after=now")
            waiting = threading.Thread(
                target=Client(port).get, args=("/actions?after=now&wait=60",)
            )
            waiting.start()
            tasks = running[port].server_state.tasks
            eventually("all three follow", lambda: len(tasks) == 3)
        stream.until_end()
        assert follower.until_closed().code in (1001, 1012)
        follower.socket.close()
        stream.__exit__(None, None, None)
        waiting.join(50)
        assert not waiting.is_alive()


@pytest.mark.parametrize("what", ["actions", "changes"])
def test_many_followers_see_the_same(yard: Served, what: str) -> None:
    start = yard.client.get(f"/{what}?after=now").json()["cursor"]
    followers = [Following(yard.port, f"/{what}?after={start}") for _ in range(10)]
    for number in range(5):
        count(yard.live, f"m-{number}", number)
    for follower in followers:
        assert {row["key"] for row in follower.rows(5)} == {f"m-{n}" for n in range(5)}
        follower.socket.close()
