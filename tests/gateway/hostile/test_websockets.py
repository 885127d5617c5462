"""Goal: what is no WebSocket does not become one, and garbage in one ends it alone."""

from __future__ import annotations

import struct

from tests.gateway.raw import (
    Raw,
    request,
)
from tests.gateway.served import Served

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def test_websockets_that_are_none(yard: Served) -> None:
    for data in (
        request("GET", "/actions", **{**UPGRADE, "sec_websocket_version": "12"}),
        request("GET", "/nowhere", **UPGRADE),
        request("GET", "/actions?after=AAAA", **UPGRADE),
        request("GET", "/actions?sql=x", **UPGRADE),
        request("GET", "/\xff", **UPGRADE),
        request("POST", "/actions", **UPGRADE),
        request("GET", "/actions", **{**UPGRADE, "upgrade": "h2c", "connection": "Upgrade, close"}),
    ):
        with Raw(yard.port) as raw:
            raw.send(data)
            assert b" 101 " not in raw.rest()


def test_garbage_in_a_websocket(yard: Served) -> None:
    masked = b"\x81\x85\x00\x00\x00\x00hello"
    huge = b"\x82\xff" + struct.pack(">Q", 2**62) + bytes(4)
    for data in (
        b"\xff" * 100,
        b"\x81\x05hello",  # not masked
        b"\x81\xfe\xff\xff\x00\x00\x00\x00" + b"\xff" * 65535,  # no UTF-8
        huge + b"x" * 300_000,
        b"\x89\xfe\x00\xff" + bytes(300),  # a ping that is too long
        b"\x88\x82\x00\x00\x00\x00\x03\xe8",  # a close
    ):
        with Raw(yard.port) as raw:
            raw.send(request("GET", "/actions?after=now", **UPGRADE))
            raw.until(b"\r\n\r\n")
            raw.send(masked * 50)  # what it says is passed over
            raw.send(data)
            raw.rest()
