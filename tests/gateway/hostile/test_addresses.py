"""Goal: a path, a parameter, a cursor, a method, an origin or a host that is wrong gets the right
status and one line."""

from __future__ import annotations

import base64
import random
from urllib.parse import quote

import msgspec
import pytest

from tests.gateway.raw import (
    Raw,
    heard_in,
)
from tests.gateway.served import Served, refused


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/Cart/a%2Fb", 404),
        ("/agents/Cart/..%2f..%2fetc%2fpasswd", 404),
        ("/agents/Cart/%00", 422),
        ("/agents/Cart/%ff%fe", 422),
        ("/agents/Cart/" + "k" * 129, 422),
        ("/agents/../agents/Cart/k", 404),
        ("//agents/Cart/k", 404),
        ("/agents/Cart/k/", 404),
        ("/agents/%3Cscript%3E", 404),
        ("/agents/Cart?most=0", 400),
        ("/agents/Cart?most=1e9", 400),
        ("/agents/Cart?most=%D9%A3", 400),
        ("/agents/Cart?most=1&most=2", 400),
        ("/agents/Cart?sql=drop", 400),
        ("/agents/Cart/witness?at=never", 400),
        ("/agents/Cart/witness?at=nan", 400),
        ("/agents/Cart/witness?after=x", 422),
        ("/agents/Cart/witness?after=99:1", 422),
        ("/agents/Cart/witness?after=0:" + "9" * 5000, 422),
        ("/agents/Cart/witness?after=0:999999999999999999&timeout=0", 504),
        ("/agents/Cart/witness?timeout=nan", 400),
        ("/actions?after=%20", 422),
        ("/actions?after=AAAA", 422),
        ("/changes?after=AAAA", 422),
        ("/changes?after=%F0%9F%92%A9", 422),
        ("/changes?key=k", 422),
        ("/actions?key=k", 422),
        ("/actions?wait=-1", 400),
        ("/dead-letters?most=-1", 400),
        ("/engine/0/nothing", 405),
        ("/engine/x/head", 404),
        ("/nothing", 404),
    ],
)
def test_paths_that_lead_nowhere(yard: Served, path: str, status: int) -> None:
    refused(yard.client.get(path), status, "")


def test_a_cursor_that_was_made_up(yard: Served) -> None:
    """It is the client's: every part of it may be anything."""

    def text(values: object) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(values)).decode()

    cursor = yard.client.get("/changes?after=now").json()["cursor"]
    standings = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor))
    chance = random.Random(3)
    odd = [-1, 2**62, 2**63 - 1, -(2**63), 0, "", "x" * 1000, None, [], True, 1e308, float("nan")]

    def spoil(values: list[object]) -> None:
        place = chance.randrange(len(values))
        inner = values[place]
        if isinstance(inner, list) and inner and chance.random() < 0.8:
            spoil(inner)
        else:
            values[place] = chance.choice(odd)

    for _ in range(200):
        spoiled = msgspec.msgpack.decode(msgspec.msgpack.encode(standings))
        spoil(spoiled)
        heard = yard.client.get(f"/changes?after={text(spoiled)}")
        assert heard.status in (200, 422), (spoiled, heard)
    for values in (odd, {"0": -1}, [[0, 2**62]], [[-1, 0]], [[0, -5], [1, -5]], {0: 2**63}):
        heard = yard.client.get(f"/actions?after={text(values)}")
        assert heard.status in (200, 422), (values, heard)
    for made_up in ("0:-1", "0:99999999999999999999", "1:1,1:1", "9:9", "0:1e3", "٣:٣"):
        heard = yard.client.get(f"/actions?after={quote(made_up)}")
        assert heard.status in (200, 422), (made_up, heard)


def test_methods_that_are_not_offered(yard: Served) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND"):
        refused(yard.client.ask(method, "/events"), 405, f"{method} /events")


def test_origins_and_hosts_that_are_broken(yard: Served) -> None:
    for origin in ("http://[", "http://[::1", "null", "", "://", "http://evil.example"):
        refused(yard.client.get("/healthz", origin=origin), 403, "must not use")
    for host in ("evil.example", "127.0.0.1.evil.example", "[", "", "localhost@evil", "0.0.0.0"):
        with Raw(yard.port) as raw:
            raw.send(f"GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            refused(heard_in(raw.rest())[0], 421, "is not this machine")
