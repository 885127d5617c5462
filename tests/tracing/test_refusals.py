"""Goal: the span of a message that a gateway refuses is ended and says why, whatever refused it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Backlog, UsageError
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.intake import Intake
from holdfast.gateway.sending import Post, Taker
from holdfast.gateway.settings import Bounds
from holdfast.runtime.untyped import UntypedLive, connect_untyped
from tests.gateway.grpc.dialled import counted, event
from tests.gateway.yard import fleet
from tests.tracing.test_folding import Collector


@pytest.fixture
def live(tmp_path: Path) -> Iterator[UntypedLive]:
    url = f"sqlite:{tmp_path / 'data'}"
    with fleet.open(url), connect_untyped(url) as found:
        yield found


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def taker(live: UntypedLive, collector: Collector) -> Taker:
    return Taker(live, Bounds(), collector)


def context(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


def message(number: int, *events: pb.Event) -> pb.SendRequest:
    for each in events:
        each.traceparent = context(number)
    return pb.SendRequest(number=number, events=events)


def errors_of(collector: Collector) -> dict[str, str]:
    found = {each.given: each.error for each in collector.spans}
    assert len(found) == len(collector.spans), "each is ended once"
    return found


def test_each_message_of_a_stream_has_its_own(
    live: UntypedLive, taker: Taker, collector: Collector
) -> None:
    late = counted("c", 7, "late")
    late.previous = 5
    messages = [
        message(1, counted("a", 1, "good")),
        message(2, event("b", number="three", source="wrong", seq=1)),
        message(3, late),
        message(4, counted("d", 1, "twice"), counted("d", 1, "twice")),
    ]
    found = Intake(live, taker, 5.0).take(messages, "")
    refused = {context(each.number): each.detail for each in found.refused}
    assert len(refused) == 3
    assert errors_of(collector) == {context(1): "", **refused}


def test_what_does_not_fit_among_requests_that_wait(taker: Taker, collector: Collector) -> None:
    row = {"agent": "Cart", "key": "a", "type": "Counted", "source": "s", "seq": 1}
    body = json.dumps({**row, "data": {"number": "three"}}).encode()
    post = Post(body, "application/json", {"traceparent": context(1)}, "", time.monotonic())
    [refused] = taker.take_all([post])
    assert isinstance(refused, UsageError)
    assert errors_of(collector) == {context(1): str(refused)}


def test_what_may_be_stored_later(
    live: UntypedLive, taker: Taker, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise Backlog("wait a little")

    monkeypatch.setattr(live, "consign", full)
    messages = [message(n, counted("a", n)) for n in (1, 2)]
    with pytest.raises(Backlog):
        Intake(live, taker, 5.0).take(messages, "")
    assert errors_of(collector) == {context(n): "wait a little" for n in (1, 2)}
