"""Goal: every verb of holdfast.proto does over gRPC what it says, with values in every form."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import grpc
import msgspec
import pytest

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.service import SERVICE
from tests.gateway.grpc.dialled import (
    SECONDS,
    Dialled,
    channel_to,
    counted,
    event,
    numbers_of,
    refused,
)
from tests.gateway.yard import Cart, Moved

LARGE = 2**53 + 1  # no double is this number


def send(yard: Dialled, *events: pb.Event, **more: Any) -> pb.SendReply:
    return yard.stub.Send(pb.SendRequest(events=events, **more), timeout=SECONDS)


def test_send_answers_when_durable_and_a_repeat_is_a_no_op(yard: Dialled) -> None:
    rows = [counted("one", number) for number in (1, 2, 3)]
    before = sum(each.inbox for each in yard.live.positions().values())
    first = send(yard, *rows)
    assert sum(each.inbox for each in yard.live.positions().values()) == before + 3
    assert (first.events, first.repeats) == (3, 0)
    assert send(yard, *rows).repeats == 3
    assert numbers_of(yard, "one", first.receipt) == [1, 2, 3]


def test_a_message_may_number_its_events(yard: Dialled) -> None:
    rows = [event("run", number=number) for number in (7, 8)]
    first = send(yard, *rows, source="radio", first_seq=40)
    assert send(yard, *rows, source="radio", first_seq=40).repeats == 2
    assert numbers_of(yard, "run", first.receipt) == [7, 8]
    assert [each.seq for each in yard.live.history(Cart, "run")] == [40, 41]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "go together"):
        send(yard, *rows, source="radio")


def test_a_number_needs_a_source_which_the_message_may_name(yard: Dialled) -> None:
    row = event("lone", number=1, seq=5)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "seq 5 without a source: give both"):
        send(yard, row)
    assert send(yard, row, source="lone", first_seq=40).repeats == 0
    assert send(yard, row, source="lone", first_seq=40).repeats == 1
    yard.live.settle()
    assert [each.seq for each in yard.live.history(Cart, "lone")] == [5]


def test_events_without_numbers_and_with_an_idempotency_key(yard: Dialled) -> None:
    assert send(yard, event("free", number=1)).repeats == 0
    assert send(yard, event("free", number=1)).repeats == 0
    assert send(yard, event("keyed", number=1), idempotency_key="a").repeats == 0
    assert send(yard, event("keyed", number=1), idempotency_key="a").repeats == 1
    assert send(yard).events == 0


@pytest.mark.parametrize("form", ["json", "msgpack", "structure", "none"])
def test_values_come_in_every_form(yard: Dialled, form: str) -> None:
    data = {"x": 3.0, "y": -0.5, "note": "ä"}
    values = {
        "json": pb.Values(type="Moved", json=json.dumps(data).encode()),
        "msgpack": pb.Values(type="Moved", msgpack=msgspec.msgpack.encode(data)),
        "structure": pb.Values(type="Moved", structure=data),
        "none": pb.Values(type="Break"),
    }[form]
    reply = send(yard, pb.Event(agent="Cart", key=f"in-{form}", event=values))
    yard.live.settle()
    assert reply.events == 1
    (entry,) = yard.live.history(Cart, f"in-{form}")
    if form != "none":
        assert entry.event == Moved(x=3.0, y=-0.5, note="ä")


def test_large_integers_survive_and_a_struct_refuses_them(yard: Dialled) -> None:
    after = send(yard, event("large", number=LARGE)).receipt

    def state(form: pb.Form) -> pb.Values:
        asked = pb.GetStateRequest(agent="Cart", key="large", after=after, form=form)
        return yard.stub.GetState(asked, timeout=SECONDS).state

    assert json.loads(state(pb.FORM_JSON).json)["numbers"] == [LARGE]
    assert msgspec.msgpack.decode(state(pb.FORM_MSGPACK).msgpack)["numbers"] == [LARGE]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ask for FORM_JSON"):
        state(pb.FORM_STRUCT)


def test_a_state_as_a_struct(yard: Dialled) -> None:
    after = send(yard, event("struct", "Moved", x=1.5, y=2)).receipt
    asked = pb.GetStateRequest(agent="Cart", key="struct", after=after, form=pb.FORM_STRUCT)
    found = yard.stub.GetState(asked, timeout=SECONDS)
    assert (found.agent, found.key, found.version, found.state.type) == (
        "Cart",
        "struct",
        1,
        "Cart",
    )
    assert found.state.structure["x"] == 1.5
    assert found.state.structure["mode"] == "moving"
    assert found.updated > 1e9


def test_what_is_not_there(yard: Dialled) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "has no state"):
        yard.stub.GetState(pb.GetStateRequest(agent="Cart", key="nobody"), timeout=SECONDS)
    with refused(grpc.StatusCode.NOT_FOUND, "did you mean Cart?"):
        yard.stub.GetState(pb.GetStateRequest(agent="Cat", key="nobody"), timeout=SECONDS)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "is no receipt"):
        asked = pb.GetStateRequest(agent="Cart", key="nobody", after="x")
        yard.stub.GetState(asked, timeout=SECONDS)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "timeout_seconds"):
        asked = pb.GetStateRequest(agent="Cart", key="nobody", timeout_seconds=-1)
        yard.stub.GetState(asked, timeout=SECONDS)


def test_a_state_of_the_past(yard: Dialled) -> None:
    after = send(yard, event("past", number=1)).receipt
    assert numbers_of(yard, "past", after) == [1]
    asked = pb.GetStateRequest(agent="Cart", key="past", at=time.time())
    assert yard.stub.GetState(asked, timeout=SECONDS).version == 1
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "that is before the history"):
        asked = pb.GetStateRequest(agent="Cart", key="past", at=1.0)
        yard.stub.GetState(asked, timeout=SECONDS)


def test_ask(yard: Dialled) -> None:
    question = pb.Values(type="Ask", json=b'{"question": "why"}')
    asked = pb.AskRequest(agent="Cart", key="asked", event=question, timeout_seconds=20)
    reply = yard.stub.Ask(asked, timeout=SECONDS)
    assert (reply.type, json.loads(reply.json)) == ("Told", {"text": "asked heard why"})
    question.json = b'{"question": ""}'
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "Cart/silent"):
        asked = pb.AskRequest(agent="Cart", key="silent", event=question, timeout_seconds=20)
        yard.stub.Ask(asked, timeout=SECONDS)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "give 0 to 60 seconds"):
        asked = pb.AskRequest(agent="Cart", key="late", event=question, timeout_seconds=61)
        yard.stub.Ask(asked, timeout=SECONDS)


def test_states_page_by_page(yard: Dialled) -> None:
    after = send(yard, *[event(f"zz-{n}", number=n) for n in range(5)]).receipt
    for number in range(5):
        numbers_of(yard, f"zz-{number}", after)
    keys, first = [], "zz-"
    while True:
        asked = pb.ListStatesRequest(agent="Cart", first=first, most=2)
        page = yard.stub.ListStates(asked, timeout=SECONDS)
        keys += [state.key for state in page.states]
        if not page.HasField("next"):
            break
        first = page.next
    assert keys == [f"zz-{number}" for number in range(5)]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "give 1 to"):
        yard.stub.ListStates(pb.ListStatesRequest(agent="Cart", most=0), timeout=SECONDS)


def test_history_and_timers(yard: Dialled) -> None:
    rows = [counted("told", 1, "tell"), event("told", "Remind", seconds=1000, source="tell", seq=2)]
    after = send(yard, *rows).receipt
    numbers_of(yard, "told", after)
    asked = pb.GetHistoryRequest(agent="Cart", key="told", form=pb.FORM_STRUCT)
    first, second = yard.stub.GetHistory(asked, timeout=SECONDS).entries
    assert (first.origin, first.source, first.seq) == ("external", "tell", 1)
    assert (first.event.type, first.event.structure["number"]) == ("Counted", 1)
    assert second.event.type == "Remind"
    assert not second.HasField("sender")
    asked = pb.GetTimersRequest(agent="Cart", key="told")
    (timer,) = yard.stub.GetTimers(asked, timeout=SECONDS).timers
    assert (timer.name, timer.event.type) == ("reminder", "Counted")
    assert timer.due > first.now
    assert not timer.HasField("every")
    last = pb.GetHistoryRequest(agent="Cart", key="told", most=1)
    (newest,) = yard.stub.GetHistory(last, timeout=SECONDS).entries
    assert newest.event.type == "Remind"


def test_commands_of_operators_stand_in_the_history(yard: Dialled) -> None:
    send(yard, event("held", number=1))
    yard.live.settle()  # a pause overtakes what waits
    yard.live.pause(Cart, "held", "look at it")
    yard.live.settle()
    asked = pb.GetHistoryRequest(agent="Cart", key="held")
    _, command = yard.stub.GetHistory(asked, timeout=SECONDS).entries
    assert command.WhichOneof("input") == "command"
    assert "pause" in command.command


def test_dead_letters_and_redrive(yard: Dialled) -> None:
    after = send(yard, event("broken", "Break")).receipt
    with refused(grpc.StatusCode.NOT_FOUND, "no state"):
        asked = pb.GetStateRequest(agent="Cart", key="broken", after=after, timeout_seconds=20)
        yard.stub.GetState(asked, timeout=SECONDS)
    found = yard.stub.GetDeadLetters(pb.GetDeadLettersRequest(), timeout=SECONDS)
    (letter,) = [each for each in found.dead_letters if each.key == "broken"]
    assert "a wheel is off" in letter.error
    assert letter.event.type == "Break"
    assert not letter.redriven
    assert found.all == len(found.dead_letters)
    again = yard.stub.Redrive(pb.RedriveRequest(id=letter.id), timeout=SECONDS)
    assert again.receipt
    with refused(grpc.StatusCode.NOT_FOUND, "no dead letter 'x'"):
        yard.stub.Redrive(pb.RedriveRequest(id="x"), timeout=SECONDS)


def test_positions(yard: Dialled) -> None:
    send(yard, event("somewhere", number=1))
    yard.live.settle()
    found = yard.stub.GetPositions(pb.GetPositionsRequest(), timeout=SECONDS).partitions
    assert [each.partition for each in found] == [0, 1]
    assert sum(each.inbox for each in found) > 0
    assert all(each.lag == 0 for each in found)


def test_the_standard_health_check(yard: Dialled) -> None:
    """As any probe sends it: field 1 is the service, field 1 of the answer is SERVING."""
    with channel_to(yard.port) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        name = SERVICE.full_name.encode()
        assert check(b"", timeout=SECONDS) == b"\x08\x01"
        assert check(b"\x0a" + struct.pack("B", len(name)) + name, timeout=SECONDS) == b"\x08\x01"
        with refused(grpc.StatusCode.NOT_FOUND, "no service 'x'"):
            check(b"\x0a\x01x", timeout=SECONDS)
