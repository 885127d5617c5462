"""Goal: events in every form that the gateway takes reach their agents, once and in order."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec
import pytest

from holdfast.runtime.untyped import read_receipt
from tests.gateway.served import Heard, Served, refused
from tests.gateway.yard import Cart, Moved

X_Y = {"x": 1.0, "y": 2.0}


def event(key: str, kind: str = "Moved", data: object = X_Y, **more: object) -> dict[str, object]:
    return {"agent": "Cart", "key": key, "type": kind, "data": data, **more}


def numbers_of(yard: Served, key: str, heard: Heard) -> list[int]:
    assert heard.status == 200, heard
    receipt = read_receipt(heard.json()["receipt"])
    return yard.live.state(Cart, key, after=receipt).numbers


def test_an_object_is_taken_and_a_repeat_is_none(yard: Served) -> None:
    one = event("one", source="gcs", seq=7)
    first, second = yard.client.events(one), yard.client.events(one)
    assert first.json() == {"events": 1, "repeats": 0, "receipt": first.json()["receipt"]}
    assert second.json()["repeats"] == 1
    assert yard.live.state(Cart, "one", after=read_receipt(first.json()["receipt"])).x == 1.0
    assert len(yard.live.history(Cart, "one")) == 1


def test_what_is_acknowledged_is_in_the_inbox(yard: Served) -> None:
    before = sum(p.inbox for p in yard.live.positions().values())
    yard.client.events(*[event(f"many-{i}") for i in range(50)])
    assert sum(p.inbox for p in yard.live.positions().values()) == before + 50


def sent_as(yard: Served, form: str, key: str) -> Heard:
    rows = [event(key, "Counted", {"number": n}, source=f"s-{key}", seq=n) for n in (1, 2, 3)]
    columns = {
        "agent": "Cart",
        "type": "Counted",
        "keys": [key] * 3,
        "columns": {"number": [1, 2, 3]},
        "source": f"s-{key}",
        "first_seq": 1,
    }
    bodies: dict[str, tuple[str, bytes]] = {
        "array": ("application/json; charset=utf-8", json.dumps(rows).encode()),
        "lines": ("application/x-ndjson", "\n".join(map(json.dumps, rows)).encode()),
        "msgpack": ("application/msgpack", msgspec.msgpack.encode(rows)),
        "columns": ("application/vnd.holdfast.columns+json", json.dumps(columns).encode()),
        "packed columns": (
            "application/vnd.holdfast.columns+msgpack",
            msgspec.msgpack.encode(columns),
        ),
        "cloud batch": (
            "application/cloudevents-batch+json",
            json.dumps([cloud_event(key, n) for n in (1, 2, 3)]).encode(),
        ),
    }
    media, body = bodies[form]
    return yard.client.ask("POST", "/events", body, {"content-type": media})


def cloud_event(key: str, number: int, **more: object) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": f"/carts/{key}",
        "type": "com.example.Counted",
        "subject": f"Cart/{key}",
        "time": "2026-11-17T12:00:00Z",
        "data": {"number": number},
        **more,
    }


@pytest.mark.parametrize(
    "form", ["array", "lines", "msgpack", "columns", "packed columns", "cloud batch"]
)
def test_every_form_keeps_order_and_is_taken_once(yard: Served, form: str) -> None:
    key = form.replace(" ", "-")
    heard = sent_as(yard, form, key)
    assert numbers_of(yard, key, heard) == [1, 2, 3]
    assert sent_as(yard, form, key).json()["repeats"] == 3
    assert len(yard.live.history(Cart, key)) == 3


def test_a_column_may_be_one_value_for_all(yard: Served) -> None:
    body = {
        "agent": "Cart",
        "type": "Moved",
        "keys": ["a-1", "a-2"],
        "columns": {"x": [5, 6], "y": 9},
    }
    media = {"content-type": "application/vnd.holdfast.columns+json"}
    heard = yard.client.ask("POST", "/events", json.dumps(body), media)
    after = read_receipt(heard.json()["receipt"])
    found = [yard.live.state(Cart, key, after=after) for key in ("a-1", "a-2")]
    assert [(cart.x, cart.y) for cart in found] == [(5.0, 9.0), (6.0, 9.0)]
    uneven = json.dumps({**body, "columns": {"x": [5], "y": 9}})
    refused(yard.client.ask("POST", "/events", uneven, media), 400, "1 values for 2 keys")


def test_cloud_events_structured_and_binary(yard: Served) -> None:
    structured = yard.client.ask(
        "POST",
        "/events",
        json.dumps(cloud_event("cloud", 1)),
        {"content-type": "application/cloudevents+json"},
    )
    assert structured.status == 200, structured
    attributes = {k: str(v) for k, v in cloud_event("cloud", 2).items() if k != "data"}
    binary = yard.client.ask(
        "POST",
        "/events",
        b'{"number": 2}',
        {"content-type": "application/json", **{f"ce-{k}": v for k, v in attributes.items()}},
    )
    assert numbers_of(yard, "cloud", binary) == [1, 2]
    (entry, _) = yard.live.history(Cart, "cloud")
    assert (entry.source, entry.seq) == ("/carts/cloud", 1)


def test_a_cloud_event_whose_id_is_no_number_is_taken_once(yard: Served) -> None:
    media = {"content-type": "application/cloudevents+json"}
    body = json.dumps(cloud_event("uuid", 5, id="0c4f-a"))
    heard = [yard.client.ask("POST", "/events", body, media).json()["repeats"] for _ in range(3)]
    assert heard == [0, 1, 1]
    other = yard.client.ask(
        "POST", "/events", json.dumps(cloud_event("uuid", 6, id="0c4f-b")), media
    )
    assert numbers_of(yard, "uuid", other) == [5, 6]


def test_a_request_with_an_idempotency_key_can_be_repeated(yard: Served) -> None:
    rows = [event(key, "Counted", {"number": 1}) for key in ("i-1", "i-2", "i-3")]
    first = yard.client.events(*rows, idempotency_key="the-same")
    again = yard.client.events(*rows, idempotency_key="the-same")
    assert (first.json()["repeats"], again.json()["repeats"]) == (0, 3)
    other = yard.client.events(*rows, idempotency_key="another")
    assert other.json()["repeats"] == 0
    assert numbers_of(yard, "i-1", other) == [1, 1]


def test_events_of_many_sources_in_one_request_keep_the_order_of_an_agent(yard: Served) -> None:
    rows = []
    for number in range(40):  # two sources for one agent, in turn, and others between them
        source = "left" if number % 2 else "right"
        rows.append(event("mixed", "Counted", {"number": number}, source=source, seq=number))
        rows.append(event(f"other-{number}", source=f"device-{number}", seq=1))
    heard = yard.client.events(*rows)
    assert numbers_of(yard, "mixed", heard) == list(range(40))
    assert yard.client.events(*rows).json()["repeats"] == 80


def test_an_event_time_is_kept(yard: Served) -> None:
    numbered = event("timed", source="clock", seq=1, event_time=123.5)
    heard = yard.client.events(numbered, event("timed", source="clock", seq=2))
    assert heard.status == 200, heard
    plain = yard.client.events(event("timed", event_time=5.0), event("timed", event_time=6.0))
    assert plain.status == 200, plain
    uneven = yard.client.events(event("timed", event_time=5.0), event("timed"))
    refused(uneven, 422, "give it for all or none")


def test_a_refused_source_holds_up_no_other(yard: Served) -> None:
    """Old numbers of one source are refused; what others sent in the same request is stored."""
    assert yard.client.events(event("far", source="far", seq=200_000)).status == 200
    rows = [event("far", source="far", seq=1), event("near", source="near", seq=1)]
    problem = refused(yard.client.events(*rows), 409, "below its dedupe window")
    assert problem["stored"] == 1
    assert [each["rows"] for each in problem["refused"]] == [[0]]
    assert yard.live.state(Cart, "near", after=read_receipt(problem["receipt"])).x == 1.0


def test_an_ordered_source_is_told_the_number_expected(yard: Served) -> None:
    first = event("ordered", source="ordered", seq=1, previous=0)
    gap = event("ordered", source="ordered", seq=3, previous=2)
    assert yard.client.events(first).status == 200
    refused(yard.client.events(gap), 409, "send what comes after 1")


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (event("k", "Nothing"), 422, "no event 'Nothing'"),
        (event("k", "CallFailed"), 422, "comes from the fleet itself"),
        (event("k") | {"agent": "Drone"}, 422, "no agent 'Drone'"),
        (event("k", data={"x": "far", "y": 1}), 422, "Moved.x cannot be 'far'"),
        (event("k", data={"x": 1.0}), 422, "needs the field 'y'"),
        (event("k", data={"x": 1.0, "y": 1.0, "z": 1.0}), 422, "has no field 'z'"),
        (event("a/b"), 422, "a/b"),
        (event("k", source="gcs"), 422, "without a seq"),
        (event("k", seq=7), 422, "seq 7 without a source: give both"),
        ([event("k", source="g", seq=1), event("k", seq=2)], 422, "seq 2 without a source"),
        (event("k", source="~gcs", seq=1), 422, "names that start with ~ are ours"),
        (event("k", source="gcs", seq=-1), 422, "give 0 to"),
        (event("k") | {"colour": "red"}, 400, "unknown field `colour`"),
        (
            event("k") | {"priority": "urgent"},
            400,
            "the body is no JSON event: an event has no 'priority': its class decides",
        ),
        ({"agent": "Cart"}, 400, "missing required field `key`"),
        ([event("k"), event("k", source="gcs", seq=1)], 422, "number all of them or none"),
        ([event("k", source="g", seq=1), event("k", source="g", seq=1)], 422, "under one number"),
        (7, 400, "Expected `object`"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(yard: Served, body: Any, status: int, part: str) -> None:
    before = [each.inbox for each in yard.live.positions().values()]
    refused(yard.client.events(body), status, part)
    assert [each.inbox for each in yard.live.positions().values()] == before


def test_many_clients_at_once_lose_and_double_nothing(yard: Served) -> None:
    heard: list[Heard] = []

    def client(name: str) -> None:
        for number in range(1, 26):
            row = event(f"c-{name}", "Counted", {"number": number}, source=name, seq=number)
            heard.append(yard.client.events(row))
            heard.append(yard.client.events(row))  # a client that is never sure

    threads = [threading.Thread(target=client, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.status for each in heard} == {200}
    assert sum(each.json()["repeats"] for each in heard) == 8 * 25
    yard.live.settle()
    for i in range(8):
        assert yard.live.state(Cart, f"c-t{i}").numbers == list(range(1, 26))


def test_an_event_sent_here_and_one_sent_by_a_program_are_alike(yard: Served) -> None:
    yard.live.send(Cart, "both", Moved(x=3.0, y=4.0))
    yard.client.events(event("both", data={"x": 3.0, "y": 4.0}))
    yard.live.settle()
    first, second = (entry.event for entry in yard.live.history(Cart, "both"))
    assert first == second


def test_a_question_is_answered(yard: Served) -> None:
    asked = event("asked", "Ask", {"question": "who"})
    assert yard.client.post("/ask", asked).json() == {
        "type": "Told",
        "data": {"text": "asked heard who"},
    }
    silent = event("asked", "Ask", {"question": ""})
    refused(yard.client.post("/ask", silent), 409, "Cart/asked")
    refused(yard.client.post("/ask", {**asked, "timeout": 1e9}), 422, "give 0 to 60 seconds")
