"""Goal: a body that is none, is too large or never ends gets the right status and one line."""

from __future__ import annotations

import socket

import msgspec
import pytest

from tests.gateway.hostile.sending import answer, inboxes, posted
from tests.gateway.raw import (
    Raw,
    cart_event,
    heard_in,
    request,
    resident_bytes,
)
from tests.gateway.served import Served, refused

JSON = "application/json"
NDJSON = "application/x-ndjson"
MSGPACK = "application/msgpack"
COLUMNS = "application/vnd.holdfast.columns+json"
CLOUD = "application/cloudevents+json"
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


def test_every_form_that_is_taken_is_named(yard: Served) -> None:
    for form in (JSON, CLOUD, "application/cloudevents-batch+json"):
        refused(posted(yard, "text/plain", EVENT % b"1"), 415, form)


def test_bodies_that_are_too_large(yard: Served) -> None:
    """A stock client, which sends all of it before it reads, is told too."""
    refused(posted(yard, JSON, b"x" * 100_001), 413, "100,000 is the most")
    refused(posted(yard, JSON, b"x" * 5_000_000), 413, "100,000 is the most")
    big = b"%x\r\n%s\r\n0\r\n\r\n" % (5_000_000, b"x" * 5_000_000)
    chunked = answer(yard, request("POST", "/events", big, transfer_encoding="chunked"))
    refused(chunked, 413, "a body of more than 100,000 bytes, the most: send fewer events at once")
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


def test_a_body_that_breaks_off(yard: Served) -> None:
    before = inboxes(yard)
    for cut in (1, 30, len(cart_event("cut")) - 1):
        with Raw(yard.port) as raw:
            whole = request("POST", "/events", cart_event("cut"))
            raw.send(whole[:-cut])
            raw.socket.shutdown(socket.SHUT_WR)
            raw.rest()
    assert inboxes(yard) == before
