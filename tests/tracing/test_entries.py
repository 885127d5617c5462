"""Goal: a context comes in by every door and goes out with the action by every door; what is
malformed is passed over, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.model.tracing import trace_id
from holdfast.runtime.untyped import connect_untyped
from holdfast.stepping.frame import const
from holdfast.stepping.traces import trace_columns
from tests.engine.test_http import Forge
from tests.gateway.grpc.dialled import SECONDS, Dialled, dialled, event
from tests.gateway.mqtt import fleets
from tests.gateway.mqtt.rig import Device, bridged, eventually
from tests.gateway.served import Served, refused, served
from tests.gateway.yard import Cart, Counted
from tests.servers.mosquitto import running


def context(n: int, flags: str = "01") -> str:
    return f"00-{n:032x}-{n:016x}-{flags}"


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def counted(key: str, **more: object) -> dict[str, object]:
    return {"agent": "Cart", "key": key, "type": "Counted", "data": {"number": 1}, **more}


def traces_of(yard: Served | Dialled) -> dict[str, str]:
    """By the key of the agent: of which trace its action is; "" for none."""
    yard.live.settle()
    return {each.key: trace_id(each.trace) for each in yard.live.actions()}


def of(n: int) -> str:
    return trace_id(context(n))


def test_http_one_header_for_all_and_an_event_may_have_its_own(yard: Served) -> None:
    rows = [counted("a"), counted("b", traceparent=context(2)), counted("c", traceparent="no")]
    assert yard.client.events(*rows, traceparent=context(1)).status == 200
    numbered = [counted(key, source=f"s-{key}", seq=1) for key in ("d", "e")]
    assert yard.client.events(*numbered, traceparent=context(3)).status == 200
    assert yard.client.events(counted("f"), traceparent="00-not-a-context").status == 200
    assert yard.client.events(counted("g")).status == 200
    wanted = {"a": of(1), "b": of(2), "c": "", "d": of(3), "e": of(3), "f": "", "g": ""}
    assert traces_of(yard) == wanted
    shown = yard.client.get("/actions").json()["actions"]
    given = {each["key"]: each["traceparent"] for each in shown}
    assert given == {each.key: each.trace or None for each in yard.live.actions()}
    assert given["a"] is not None
    assert given["g"] is None


def test_cloudevents_have_an_attribute_for_it(yard: Served) -> None:
    def cloud(n: int, key: str, **more: object) -> dict[str, object]:
        base = {"specversion": "1.0", "id": str(n), "source": "s", "type": "x.Counted"}
        return {**base, "subject": f"Cart/{key}", "data": {"number": n}, **more}

    batch = json.dumps([cloud(1, "a", traceparent=context(4)), cloud(2, "b")])
    headers = {"content-type": "application/cloudevents-batch+json", "traceparent": context(5)}
    assert yard.client.ask("POST", "/events", batch, headers).status == 200
    binary = {
        "content-type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": "3",
        "ce-source": "s",
        "ce-type": "Counted",
        "ce-subject": "Cart/c",
        "ce-traceparent": context(6),
    }
    assert yard.client.ask("POST", "/events", '{"number": 3}', binary).status == 200
    assert traces_of(yard) == {"a": of(4), "b": of(5), "c": of(6)}


def test_ask(yard: Served) -> None:
    question = {"agent": "Cart", "key": "a", "type": "Ask", "data": {"question": "x"}}
    for given in (context(7), "nonsense"):
        answer = yard.client.post("/ask", question, {"traceparent": given})
        assert answer.json()["data"]["text"] == "a heard x"
    frames = [frame for frame in stored(yard) if "asks" in frame]
    assert [frame.values("trace") for frame in frames] == [[context(7)], None]


def stored(yard: Served) -> list[Any]:
    from holdfast.stepping.frame import Frame

    engine = yard.live.engine
    numbers = engine.catalog.layout.numbers
    return [Frame.decode(each.frame) for n in numbers for each in engine.read(n, 0, 1_000)]


def test_the_feed_and_a_handle_over_http(yard: Served) -> None:
    with connect_untyped(yard.address) as far:
        from holdfast.runtime.untyped import Address

        far.send([Address("Cart", "a", "Counted", {"number": 1}, trace=context(8))])
    assert traces_of(yard) == {"a": of(8)}
    [row] = yard.client.get("/actions?wait=5").json()["actions"]
    assert trace_id(row["traceparent"]) == of(8)


def test_a_frame_with_a_malformed_column_reaches_no_inbox(yard: Served) -> None:
    forge = Forge(yard)
    bad = [const(context(1)), *trace_columns("nonsense", 1).values()]
    bad += trace_columns(context(1), 2).values()  # for a row that is not there
    for column in bad:
        refused(forge.send(forge.frame(trace=column)), 422, "trace")
    assert forge.send(forge.frame(**trace_columns(context(9), 1))).status == 200
    assert traces_of(yard) == {"k": of(9)}


def test_grpc(tmp_path: Path) -> None:
    with dialled(tmp_path) as yard:
        rows = [event("a", number=1), event("b", number=1)]
        rows[1].traceparent = context(11)
        given = [("traceparent", context(10))]
        yard.stub.Send(pb.SendRequest(events=rows), timeout=SECONDS, metadata=given)
        row = event("c", number=1)
        bad = [("traceparent", "nonsense")]
        yard.stub.Send(pb.SendRequest(events=[row]), timeout=SECONDS, metadata=bad)
        numbered = [event("d", number=1), event("e", number=1)]
        numbered[1].traceparent = context(12)
        stream = pb.SendRequest(events=numbered, number=1, source="s", first_seq=1)
        [taken] = yard.stub.SendStream(iter([stream]), timeout=SECONDS, metadata=given)
        assert taken.events == 2
        wanted = {"a": of(10), "b": of(11), "c": "", "d": of(10), "e": of(12)}
        assert traces_of(yard) == wanted
        page = next(yard.stub.FollowActions(pb.FollowRequest(), timeout=SECONDS))
        found = {each.key: trace_id(each.traceparent) for each in page.actions}
        assert found == wanted
        assert not next(each for each in page.actions if each.key == "c").HasField("traceparent")


def has_got(device: Device, count: int) -> bool:
    return len(device.got) == count


def test_mqtt(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleets.fleet.open(url) as live, running() as broker, bridged(url, broker):
        with Device(broker.port, "d-1", topic="agents/d-1/command") as device:
            given = ((context(13),), ("nonsense",), ())
            for number, words in enumerate(given, start=1):
                user = [("traceparent", word) for word in words]
                device.say("agents/d-1/order", '{"what": "1"}', user=user)
                eventually("its command", partial(has_got, device, number))
        told = [getattr(each.properties, "UserProperty", []) for each in device.messages]
        traces = [each.trace for each in live.actions()]
        assert [trace_id(each) for each in traces] == [of(13), "", ""]
        assert told == [[("traceparent", traces[0])], [], []]


def test_a_program_in_a_span_gives_it_along(yard: Served) -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("outside") as span:
        yard.live.send(Cart, "a", Counted(number=1))
        yard.live.send(Cart, "b", Counted(number=1), trace=context(14))
        yard.live.send_many([(Cart, "c", Counted(number=1))])
        yard.live.send(Cart, "d", Counted(number=1), trace="")
    yard.live.send(Cart, "e", Counted(number=1))
    own = f"{span.get_span_context().trace_id:032x}"
    assert traces_of(yard) == {"a": own, "b": of(14), "c": own, "d": "", "e": ""}
