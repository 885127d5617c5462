"""Goal: whatever a client sends, or does not send, gets the right status and one line, or a closed
line; and nobody else notices.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.gateway.settings import Bounds, Settings
from tests.gateway.raw import (
    Raw,
    cart_event,
    goes_on,
    heard_in,
    leaves_nothing,
    request,
    resident_bytes,
)
from tests.gateway.served import Heard, Served, refused, served
from tests.gateway.yard import Cart, Moved

BOUNDS = Bounds(
    body_bytes_max=100_000,
    bodies_bytes_max=400_000,
    events_per_request_max=100,
    connections_max=40,
    header_bytes_max=16_384,
    header_seconds=1.0,
    body_seconds=1.0,
    write_seconds=1.0,
    idle_seconds=2.0,
)
JSON = "application/json"
NDJSON = "application/x-ndjson"
MSGPACK = "application/msgpack"
COLUMNS = "application/vnd.holdfast.columns+json"
CLOUD = "application/cloudevents+json"


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


def inboxes(yard: Served) -> int:
    return sum(progress.inbox for progress in yard.live.positions().values())


def answer(yard: Served, data: bytes) -> Heard:
    """To bytes after which the gateway closes the line."""
    with Raw(yard.port) as raw:
        raw.send(data)
        (found,) = heard_in(raw.rest())
        return found


def posted(yard: Served, media: str, body: bytes, path: str = "/events") -> Heard:
    return yard.client.ask("POST", path, body, {"content-type": media})


DEEP = b"[" * 20_000
EVENT = b'{"agent":"Cart","key":"k","type":"Counted","data":{"number":%s}}'
CLOUD_EVENT = (
    b'{"specversion":"1.0","id":"1","source":"s","type":"Counted","subject":"Cart/k",'
    b'"data":{"number":1}%s}'
)


@pytest.mark.parametrize(
    ("media", "body", "status"),
    [
        (JSON, b"", 400),
        (JSON, b"{", 400),
        (JSON, b"null", 400),
        (JSON, b'"text"', 400),
        (JSON, b"[[[]]]", 400),
        (JSON, b"\xff\xfe{}", 400),
        (JSON, b'{"agent":"\xc3\x28"}', 400),
        (JSON, b'{"agent":"Cart","key":"k","type":"Counted","data":{"number":1}} x', 400),
        (JSON, DEEP, 400),
        (JSON, b'{"agent":"Cart","key":"k","type":"Counted","data":{"number":' + DEEP, 400),
        (JSON, EVENT % b"NaN", 400),
        (JSON, EVENT % b"Infinity", 400),
        (JSON, EVENT % b"1e400", 400),
        (JSON, EVENT % b"1.5", 422),
        (JSON, EVENT % (b"9" * 30), 422),
        (JSON, EVENT % (b"9" * 5_000), 400),
        (JSON, EVENT % b'"\\ud800"', 400),
        (JSON, EVENT.replace(b'"k"', b'"\\ud800"') % b"1", 400),
        (JSON, EVENT.replace(b'"k"', b'"\\u0000"') % b"1", 422),
        (JSON, b"[" + b",".join([EVENT % b"1"] * 101) + b"]", 413),
        (NDJSON, b'{"agent":\n"Cart"}', 400),
        (NDJSON, EVENT % b"1" + b"\n{", 400),
        (NDJSON, b"\x00\x00\n\x00", 400),
        (MSGPACK, b"", 400),
        (MSGPACK, b"\xc1", 400),
        (MSGPACK, b"\xdd\xff\xff\xff\xff", 400),
        (MSGPACK, b"\xdf\xff\xff\xff\xff", 400),
        (MSGPACK, b"\x91" * 20_000, 400),
        (MSGPACK, msgspec.msgpack.encode({"agent": 7}), 400),
        (COLUMNS, b'{"agent":"Cart","type":"Counted","keys":"k"}', 400),
        (COLUMNS, b'{"agent":"Cart","type":"Counted","keys":["k"],"columns":{"number":[]}}', 400),
        (COLUMNS, b'{"agent":"Cart","type":"Counted","keys":["k"],"first_seq":7}', 422),
        (CLOUD, b"{}", 400),
        (CLOUD, CLOUD_EVENT % b',"time":"yesterday"', 400),
        (CLOUD, CLOUD_EVENT % b',"sequence":"-1"', 400),
        (CLOUD, CLOUD_EVENT.replace(b'"s"', b'"~once-0"') % b"", 422),
        (CLOUD, CLOUD_EVENT.replace(b'"s"', b'""') % b"", 422),
        ("application/cloudevents-batch+json", b"{}", 400),
        ("text/plain", EVENT % b"1", 415),
        ("", EVENT % b"1", 415),
        ("application/x-www-form-urlencoded", b"agent=Cart&key=k", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
    ],
)
def test_bodies_that_are_none(yard: Served, media: str, body: bytes, status: int) -> None:
    refused(posted(yard, media, body), status, "")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", DEEP, b'{"timeout":"long"}', b"\xff"])
def test_questions_that_are_none(yard: Served, body: bytes) -> None:
    refused(posted(yard, JSON, body, "/ask"), 400, "question")
    refused(posted(yard, "text/plain", body, "/ask"), 415, "send")


def test_times_before_there_were_clocks(yard: Served) -> None:
    for time_text in (b"0001-01-01T00:00:00", b"9999-12-31T23:59:59", b"0001-01-01T00:00:00+14:00"):
        body = CLOUD_EVENT % (b',"time":"%s"' % time_text)
        assert posted(yard, CLOUD, body).status in (200, 400, 422)


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


def test_bodies_that_are_too_large(yard: Served) -> None:
    """A stock client, which sends all of it before it reads, is told too."""
    refused(posted(yard, JSON, b"x" * 100_001), 413, "100,000 is the most")
    refused(posted(yard, JSON, b"x" * 5_000_000), 413, "100,000 is the most")
    big = b"%x\r\n%s\r\n0\r\n\r\n" % (5_000_000, b"x" * 5_000_000)
    refused(answer(yard, request("POST", "/events", big, transfer_encoding="chunked")), 413, "")
    asking = request("POST", "/events", content_length="5000000", expect="100-continue")
    refused(answer(yard, asking), 413, "100,000 is the most")  # without a body having been sent


def test_a_body_of_the_size_that_is_allowed(yard: Served) -> None:
    body = cart_event("sized")
    assert posted(yard, JSON, body + b" " * (100_000 - len(body))).status == 200


def test_frames_of_bodies_are_bounded(yard: Served) -> None:
    """Trailers and extensions of chunks are nobody's body, and are not kept for ever either."""
    start = request("POST", "/events", b"", transfer_encoding="chunked")
    for flood in (
        [b"0\r\n", *[b"x-%d: y\r\n" % i for i in range(200_000)]],
        [b"0\r\nx: ", *[b"y" * 1000] * 20_000],
        [b"1;", *[b"y" * 1000] * 20_000],
    ):
        before = resident_bytes()
        with Raw(yard.port) as raw:
            raw.send(start + b"".join(flood))
            refused(heard_in(raw.rest())[0], 400, "more around its body")
        assert resident_bytes() - before < 60_000_000


def test_bodies_are_bounded_together(yard: Served) -> None:
    """Five that send slowly what each of them may."""
    lines = [Raw(yard.port) for _ in range(6)]
    for raw in lines:
        raw.send(request("POST", "/events", b"x" * 90_000, content_length="95000"))
    found = [heard_in(raw.rest())[0] for raw in lines]
    for raw in lines:
        raw.socket.close()
    assert {each.status for each in found} == {408, 429}
    late = next(each for each in found if each.status == 429)
    assert late.headers["retry-after"] == "1"
    refused(late, 429, "400,000")


def test_headers_that_never_end(yard: Served) -> None:
    for data in (
        b"GET / HTTP/1.1\r\nx: " + b"y" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4_000,
        b"GET /" + b"y" * 20_000,
    ):
        refused(answer(yard, data), 431, "headers of more than")


def test_a_request_that_comes_slowly(yard: Served) -> None:
    for data in (b"", b"GET / HTTP/1.1\r\nhost: loc"):
        refused(answer(yard, data), 408, "within 1 s")
    slow = request("POST", "/events", b"{", content_length="500")
    refused(answer(yard, slow), 408, "did not come within")
    with Raw(yard.port) as raw:  # byte by byte is no way around it
        for byte in request("GET", "/healthz"):
            if not raw.send(bytes([byte])):
                break
            time.sleep(0.05)
        assert heard_in(raw.rest())[0].status == 408


def test_a_body_that_breaks_off(yard: Served) -> None:
    before = inboxes(yard)
    for cut in (1, 30, len(cart_event("cut")) - 1):
        with Raw(yard.port) as raw:
            whole = request("POST", "/events", cart_event("cut"))
            raw.send(whole[:-cut])
            raw.socket.shutdown(socket.SHUT_WR)
            raw.rest()
    assert inboxes(yard) == before


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
    lines = [Raw(yard.port) for _ in range(40)]
    for raw in lines:
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
    import base64

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
        from urllib.parse import quote

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
            raw.socket.settimeout(10)
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
            raw.socket.settimeout(10)
            raw.rest()


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
