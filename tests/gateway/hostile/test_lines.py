"""Goal: bytes that are no request, and clients that send slowly, never read or come in crowds, cost
their own line and nobody else's."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time

import pytest

from tests.gateway.hostile.sending import answer
from tests.gateway.raw import (
    Raw,
    cart_event,
    heard_in,
    leaves_nothing,
    request,
)
from tests.gateway.served import Served, refused
from tests.gateway.yard import Cart, Moved


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS, on a plain port
        b"GET / HTTP/9.9\r\n\r\n",
        b"GE\x00T / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://localhost HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
        request("POST", "/events", b"{}", content_length="2, 3"),
        request("POST", "/events", b"{}", content_length="-1"),
        request("POST", "/events", b"{}", content_length="9" * 400),
        request("POST", "/events", b"{}", content_length="2", transfer_encoding="chunked"),
        request("POST", "/events", b"zz\r\n", transfer_encoding="chunked"),
        request("POST", "/events", b"1\r\nxxxxx", transfer_encoding="chunked"),
        request("POST", "/events", b"f" * 40 + b"\r\n", transfer_encoding="chunked"),
    ],
)
def test_bytes_that_are_no_request(yard: Served, data: bytes) -> None:
    refused(answer(yard, data), 400, "no HTTP request")


def test_random_bytes(yard: Served) -> None:
    chance = random.Random(7)
    words = [b"GET ", b"POST ", b"/events", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b":", b"host: x"]
    for _ in range(150):
        data = b"".join(
            chance.choice([*words, chance.randbytes(chance.randrange(8))]) for _ in range(12)
        )
        with Raw(yard.port) as raw:
            raw.send(data)
            raw.socket.shutdown(socket.SHUT_WR)
            raw.rest()


def test_headers_that_never_end(yard: Served) -> None:
    for data in (
        b"GET / HTTP/1.1\r\nx: " + b"y" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4_000,
        b"GET /" + b"y" * 20_000,
    ):
        refused(answer(yard, data), 431, "headers of more than")


def test_a_request_that_comes_slowly(yard: Served) -> None:
    for data in (b"", b"GET / HTTP/1.1\r\nhost: loc"):
        refused(answer(yard, data), 408, "no request came within")
    slow = request("POST", "/events", b"{", content_length="500")
    refused(answer(yard, slow), 408, "did not come within")
    with Raw(yard.port) as raw:  # byte by byte is no way around it
        raw.send(b"GET /healthz HTTP/1.1\r\nhost: loc")
        while raw.send(b"a"):
            time.sleep(0.05)
        assert heard_in(raw.rest())[0].status == 408


def test_a_client_that_resets_the_line(yard: Served) -> None:
    linger = struct.pack("ii", 1, 0)
    for path in ("/healthz", "/actions?wait=30", "/agents/Cart"):
        for _ in range(10):
            with Raw(yard.port) as raw:
                raw.send(request("GET", path))
                raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def test_a_client_that_never_reads(yard: Served) -> None:
    keys = [f"wide-{i:03}" for i in range(60)]
    yard.live.send_many([(Cart, key, Moved(x=1.0, y=1.0, note="n" * 4000)) for key in keys])
    yard.live.settle()
    with Raw(yard.port, receive_bytes=4096) as raw:
        raw.send(request("GET", "/agents/Cart?most=1000") * 200)
        leaves_nothing(yard)  # while it is still there


def test_too_many_connections(yard: Served) -> None:
    lines = []
    for _ in range(40):
        lines.append(raw := Raw(yard.port))
        raw.send(request("GET", "/healthz"))
        raw.until(b'"ok"')
    with Raw(yard.port) as late:
        found = heard_in(late.rest())[0]
    refused(found, 503, "40 connections are open")
    assert found.headers["retry-after"] == "1"
    for raw in lines:
        raw.socket.close()
    leaves_nothing(yard)


def test_requests_one_behind_the_other(yard: Served) -> None:
    """They are answered in order, and each of them is taken once."""
    bodies = [cart_event("piped", number) for number in (1, 2, 3)]
    last = request("GET", "/healthz", connection="close")
    with Raw(yard.port) as raw:
        raw.send(b"".join(request("POST", "/events", body) for body in bodies) + last)
        found = heard_in(raw.rest())
    assert [each.status for each in found] == [200, 200, 200, 200]
    yard.live.settle()
    assert yard.live.state(Cart, "piped").numbers == [1, 2, 3]


def test_garbage_behind_a_request_is_not_its_answer(yard: Served) -> None:
    """It was taken: a 400 in the place of its answer would say that it was not."""
    with Raw(yard.port) as raw:
        raw.send(request("POST", "/events", cart_event("trailed")) + b"\x00garbage\r\n\r\n")
        found = heard_in(raw.rest())
    assert found[0].status == 200, found
    assert len(found) == 1


def test_many_at_once_do_not_stop_those_who_behave(yard: Served) -> None:
    stop = threading.Event()

    def hostile(seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            try:
                with Raw(yard.port) as raw:
                    raw.send(chance.randbytes(200))
                    raw.send(request("POST", "/events", b"[" * 5000))
            except OSError:
                continue

    threads = [threading.Thread(target=hostile, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 21):
            row = json.loads(cart_event("calm", number)) | {"source": "calm", "seq": number}
            assert yard.client.events(row).status == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    yard.live.settle()
    assert yard.live.state(Cart, "calm").numbers == list(range(1, 21))
