"""Goal: events stream in and are acknowledged when durable; actions and changes stream out behind
a cursor; neither a fast producer nor a slow reader makes the gateway grow."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.ports import reserve
from holdfast.gateway.grpc.service import FleetStub
from holdfast.gateway.settings import Bounds, Settings
from tests.gateway.grpc.dialled import (
    SECONDS,
    Dialled,
    bounded,
    channel_to,
    counted,
    dialled,
    event,
    numbers_of,
    refused,
)
from tests.gateway.served import gateway_on
from tests.gateway.yard import Cart, fleet
from tests.run.speed import patient


class Producer:
    """One SendStream: messages go in one by one, acknowledgements are read when asked for."""

    def __init__(self, stub: FleetStub) -> None:
        self._queue: queue.SimpleQueue[pb.SendRequest | None] = queue.SimpleQueue()
        self.call: Any = stub.SendStream(self._messages(), timeout=SECONDS)

    def _messages(self) -> Iterator[pb.SendRequest]:
        while (message := self._queue.get()) is not None:
            yield message

    def send(self, number: int, *events: pb.Event, **more: Any) -> None:
        self._queue.put(pb.SendRequest(number=number, events=events, **more))

    def until(self, number: int) -> list[pb.Acknowledgement]:
        found: list[pb.Acknowledgement] = []
        while not found or found[-1].number < number:
            found.append(next(self.call))
        return found

    def cancel(self) -> None:
        self.call.cancel()
        self._queue.put(None)  # or the thread that asks for messages would wait for ever

    def end(self) -> list[pb.Acknowledgement]:
        self._queue.put(None)
        return list(self.call)


def test_each_message_is_acknowledged_when_durable(yard: Dialled) -> None:
    producer = Producer(yard.stub)
    for number in range(1, 51):
        before = sum(each.inbox for each in yard.live.positions().values())
        producer.send(number, counted("steady", number, "steady"))
        (found,) = producer.until(number)
        assert (found.number, found.events, found.repeats) == (number, 1, 0)
        assert sum(each.inbox for each in yard.live.positions().values()) == before + 1
    assert producer.end() == []
    assert numbers_of(yard, "steady", found.receipt) == list(range(1, 51))


def test_many_in_flight_keep_their_order(yard: Dialled) -> None:
    producer = Producer(yard.stub)
    for number in range(1, 91):
        producer.send(number, counted("flood", number, "flood"))
    found = producer.end()
    assert found[-1].number == 90
    assert [each.number for each in found] == sorted({each.number for each in found})
    assert sum(each.events for each in found) == 90
    assert numbers_of(yard, "flood", found[-1].receipt) == list(range(1, 91))


def test_a_stream_is_resumed_by_sending_again(yard: Dialled) -> None:
    first = Producer(yard.stub)
    for number in range(1, 11):
        first.send(number, counted("again", number, "again"))
    first.until(10)
    first.cancel()
    second = Producer(yard.stub)
    for number in range(5, 16):
        second.send(number, counted("again", number, "again"))
    found = second.end()
    assert sum(each.repeats for each in found) == 6
    assert numbers_of(yard, "again", found[-1].receipt) == list(range(1, 16))


def test_what_can_never_be_stored_is_told_and_the_stream_goes_on(yard: Dialled) -> None:
    producer = Producer(yard.stub)
    good = counted("mixed", 1, "mixed")
    producer.send(1, good)
    producer.send(2, event("mixed", number="three", source="mixed", seq=2))
    producer.send(3, event("mixed", number=3))
    producer.send(4, event("not a key", number=3, source="mixed", seq=3))
    producer.send(5, counted("mixed", 4, "mixed"), counted("mixed", 4, "mixed"))
    producer.send(6, idempotency_key="x")
    producer.send(7, counted("mixed", 5, "mixed"))
    found = producer.end()
    assert found[-1].number == 7
    assert sum(each.events for each in found) == 2
    refusals = {each.number: each for ack in found for each in ack.refused}
    assert {number: each.detail.partition(":")[0] for number, each in refusals.items()} == {
        2: "Counted.number cannot be 'three'",
        3: "an event without a source",
        4: "'not a key' cannot be a key",
        5: "a source sends two events under one number",
        6: "idempotency_key is for Send",
    }
    assert refusals[5].count == 2
    assert {each.code for each in refusals.values()} == {grpc.StatusCode.INVALID_ARGUMENT.value[0]}
    assert numbers_of(yard, "mixed", found[-1].receipt) == [1, 5]


def test_of_a_message_only_what_is_refused_is_missing(yard: Dialled) -> None:
    """Two sources in one message; of one the number is out of order."""
    ordered = [counted("two-a", 1, "ordered"), counted("two-a", 3, "ordered")]
    ordered[0].previous, ordered[1].previous = 0, 2
    producer = Producer(yard.stub)
    producer.send(1, ordered[0], counted("two-b", 1, "other"))
    producer.until(1)
    producer.send(2, ordered[1], counted("two-b", 2, "other"))
    (found,) = producer.end()
    (refusal,) = found.refused
    assert (found.events, refusal.number, list(refusal.events)) == (1, 2, [0])
    assert refusal.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    assert numbers_of(yard, "two-b", found.receipt) == [1, 2]


def test_numbers_of_messages_count_up(yard: Dialled) -> None:
    producer = Producer(yard.stub)
    producer.send(2, counted("number", 1, "number"))
    producer.until(2)
    producer.send(2, counted("number", 2, "number"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "message 2 after 2"):
        producer.end()
    assert len(yard.live.history(Cart, "number")) <= 1


def test_a_backlog_ends_the_stream_and_says_when_to_come_back(tmp_path: Path) -> None:
    """Nobody folds, so what was taken stays in the inbox."""
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url, partitions=1).close()
    settings, held = reserve(
        Settings(grpc_port=0, bounds=Bounds(send_seconds=0.2, events_per_request_max=100))
    )
    assert held is not None
    assert settings.grpc_port is not None
    rows = [event("full", number=n) for n in range(60)]
    with (
        held,
        gateway_on(f"{url}?backlog_events_max=50", settings),
        channel_to(settings.grpc_port) as channel,
    ):
        producer = Producer(FleetStub(channel))
        producer.send(1, *rows, source="full", first_seq=1)
        assert producer.until(1)[-1].events == 60
        producer.send(2, *rows, source="full", first_seq=61)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "wait") as problem:
            producer.end()
        assert problem["title"] == "Backlog"
        assert problem["pushback"] == "1000"
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "wait"):
            request = pb.SendRequest(events=rows, source="full", first_seq=61)
            FleetStub(channel).Send(request, timeout=SECONDS)


def test_many_streams_at_once(yard: Dialled) -> None:
    def produce(name: str) -> None:
        producer = Producer(yard.stub)
        for number in range(1, 31):
            producer.send(number, counted(name, number, name))
        done[name] = producer.end()[-1].receipt

    done: dict[str, str] = {}
    names = [f"stream-{n}" for n in range(12)]
    threads = [threading.Thread(target=produce, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for name in names:
        assert numbers_of(yard, name, done[name]) == list(range(1, 31))


def test_a_producer_that_reads_nothing_is_held_back(tmp_path: Path) -> None:
    """It gets as far as the windows are wide, and goes on once it reads."""
    settings = bounded(stream_bytes_max=50_000)
    taken = 0

    def messages() -> Iterator[pb.SendRequest]:
        nonlocal taken
        for taken in range(1, 10_001):
            # Nobody can take these, so every one of them is told in an acknowledgement.
            yield pb.SendRequest(number=taken, events=[event("slow", "Moved", x="x" * 500)])

    with dialled(tmp_path, settings) as yard, channel_to(yard.port, *SMALL) as channel:
        call = FleetStub(channel).SendStream(messages(), timeout=60)
        assert until_still(lambda: taken) < 5_000
        told = sum(len(found.refused) for found in call)
        assert told == 10_000


def test_a_follower_that_reads_late_misses_nothing(tmp_path: Path) -> None:
    note = "x" * 2_000
    with dialled(tmp_path) as yard, channel_to(yard.port, *SMALL) as channel:
        pages = FleetStub(channel).FollowActions(pb.FollowRequest(), timeout=60)
        for first in range(1, 3_000, 1_000):
            rows = [event("late", "Moved", x=101, y=n, note=note) for n in range(1_000)]
            request = pb.SendRequest(events=rows, source="late", first_seq=first)
            yard.stub.Send(request, timeout=SECONDS)
        yard.live.settle()
        found, _ = read(pages, "actions", 3_000)
        pages.cancel()
        assert [each.id for each in found] == [each.id for each in every_action(yard)]


def test_large_pages_come_in_parts_that_clients_take(tmp_path: Path) -> None:
    """Every stock client refuses messages past 4 MiB."""
    note = "x" * 900_000
    with dialled(tmp_path) as yard:
        for number in range(1, 7):
            row = event("large", "Moved", x=101, y=0, note=note, source="large", seq=number)
            yard.stub.Send(pb.SendRequest(events=[row]), timeout=SECONDS)
        yard.live.settle()
        pages = yard.stub.FollowActions(pb.FollowRequest(), timeout=SECONDS)
        found = [next(pages)]
        while not found[-1].cursor:
            found.append(next(pages))
        pages.cancel()
        assert [len(page.actions) for page in found] == [1] * 6
        assert [bool(page.cursor) for page in found] == [False] * 5 + [True]


def every_action(yard: Dialled) -> list[Any]:
    found: list[Any] = []
    page = yard.live.actions()
    while page:
        found += page
        page = yard.live.actions(after=page.cursor)
    return found


def test_a_follower_that_never_reads_is_cut_off(tmp_path: Path) -> None:
    note = "x" * 5_000
    settings = bounded(write_seconds=patient(0.5), streams_max=1)
    with dialled(tmp_path, settings) as yard, channel_to(yard.port, *SMALL) as channel:
        for first in (1, 1_001):
            rows = [event("cut", "Moved", x=101, y=n, note=note) for n in range(1_000)]
            request = pb.SendRequest(events=rows, source="cut", first_seq=first)
            yard.stub.Send(request, timeout=SECONDS)
        yard.live.settle()
        deaf = FleetStub(channel).FollowActions(pb.FollowRequest(), timeout=60)
        next(deaf)
        deadline = time.monotonic() + 60
        while not follows(yard.stub):  # its place is free once it was cut off
            assert time.monotonic() < deadline, "it follows for ever"
            time.sleep(0.1)
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "nothing was read"):
            read(deaf, "actions", 2_000)


def follows(stub: FleetStub) -> bool:
    pages = stub.FollowActions(pb.FollowRequest(), timeout=SECONDS)
    try:
        next(pages)
    except grpc.RpcError as error:
        return "the bound" not in str(error)
    pages.cancel()
    return True


SMALL = (("grpc.http2.lookahead_bytes", 65_536), ("grpc.http2.bdp_probe", 0))


def until_still(look: Any) -> int:
    """The value that has not changed for a second."""
    seen, since = look(), time.monotonic()
    while time.monotonic() - since < 1.0:
        time.sleep(0.05)
        if look() != seen:
            seen, since = look(), time.monotonic()
    return int(seen)


def read(pages: Any, name: str, count: int) -> tuple[list[Any], str]:
    """So many rows, and the cursor behind them."""
    rows: list[Any] = []
    while len(rows) < count:
        page = next(pages)
        rows += getattr(page, name)
    return rows, page.cursor


def test_actions_are_followed_and_resumed_by_cursor(yard: Dialled) -> None:
    asked = pb.FollowRequest(agent="Cart", key="noisy")
    first = yard.stub.FollowActions(asked, timeout=SECONDS)
    rows = [counted("noisy", number, "noisy") for number in range(1, 6)]
    yard.stub.Send(pb.SendRequest(events=rows), timeout=SECONDS)
    found, cursor = read(first, "actions", 5)
    assert {(each.agent, each.key, each.action.type) for each in found} == {
        ("Cart", "noisy", "Beep")
    }
    assert len({each.id for each in found}) == 5
    first.cancel()
    stop = event("noisy", "Moved", x=200, y=0, note="fence", source="noisy", seq=6)
    yard.stub.Send(pb.SendRequest(events=[stop]), timeout=SECONDS)
    asked.after = cursor
    second = yard.stub.FollowActions(asked, timeout=SECONDS)
    (later,), _ = read(second, "actions", 1)
    second.cancel()
    assert (later.action.type, json.loads(later.action.json)) == ("Stop", {"why": "fence"})
    assert later.priority == "urgent"
    assert later.expires_at == pytest.approx(later.now + 30)
    assert not later.HasField("undoes")


def test_changes_are_followed_from_now_on(yard: Dialled) -> None:
    yard.stub.Send(pb.SendRequest(events=[event("watched", number=1)]), timeout=SECONDS)
    yard.live.settle()
    asked = pb.FollowRequest(after="now", agent="Cart", key="watched", form=pb.FORM_STRUCT)
    pages = yard.stub.FollowChanges(asked, timeout=SECONDS)
    sent = threading.Event()

    def later() -> None:
        """Again and again: nobody can tell from outside when the stream has begun."""
        while not sent.wait(0.05):
            yard.stub.Send(pb.SendRequest(events=[event("watched", number=2)]), timeout=SECONDS)

    thread = threading.Thread(target=later)
    thread.start()
    try:
        (change, *_), _ = read(pages, "changes", 1)
    finally:
        sent.set()
        thread.join()
    pages.cancel()
    assert change.key == "watched"
    assert change.version > 1
    assert change.state.structure["numbers"][-1] == 2


def test_cursors_that_are_none(yard: Dialled) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "cursor"):
        next(yard.stub.FollowActions(pb.FollowRequest(after="rubbish"), timeout=SECONDS))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "cursor"):
        next(yard.stub.FollowChanges(pb.FollowRequest(after="rubbish"), timeout=SECONDS))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "key without agent"):
        next(yard.stub.FollowActions(pb.FollowRequest(key="x"), timeout=SECONDS))
