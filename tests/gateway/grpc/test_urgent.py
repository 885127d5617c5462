"""Goal: an urgent event does not wait for those that wait for room in a full inbox."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.ports import reserve
from holdfast.gateway.grpc.service import FleetStub
from tests.cli.commands import eventually
from tests.gateway.grpc.dialled import SECONDS, bounded, channel_to, event
from tests.gateway.served import gateway_on
from tests.gateway.test_urgent import threads_of
from tests.gateway.yard import Cart, fleet


def test_it_does_not_wait_for_those_that_wait_for_room(tmp_path: Path) -> None:
    url, others = f"sqlite:{tmp_path / 'data'}", threads_of("send")
    with fleet.open(url, partitions=1):
        pass  # nobody folds from here on
    settings, held = reserve(msgspec.structs.replace(bounded(send_seconds=25.0), grpc_port=0))
    assert held is not None
    assert settings.grpc_port
    with (
        held,
        gateway_on(f"{url}?backlog_events_max=1", settings),
        channel_to(settings.grpc_port) as channel,
        ThreadPoolExecutor(80) as crowd,
    ):
        stub = FleetStub(channel)

        def send(one: pb.Event) -> pb.SendReply:
            return stub.Send(pb.SendRequest(events=[one]), timeout=SECONDS)

        send(event("c", number=0))
        counted = [event("c", number=number) for number in range(1, 81)]
        waiting = [crowd.submit(partial(send, each)) for each in counted]
        eventually("all threads are taken", lambda: len(threads_of("send") - others) == 48)
        assert send(event("c", "Halt")).events == 1
        assert not any(each.done() for each in waiting)
        with fleet.open(f"{url}?backlog_events_max=1000") as live:
            assert {each.result().events for each in waiting} == {1}
            live.settle()
            cart = live.state(Cart, "c")
            assert cart is not None
            assert (cart.halted_at, sorted(cart.numbers)) == (0, list(range(81)))
