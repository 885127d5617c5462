"""Goal: while the gateway is killed again and again, streams of events lose and double nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.service import FleetStub
from tests.gateway.grpc.processes import GatewayProcess
from tests.gateway.yard import Cart, Counted, fleet
from tests.servers.ports import free_ports

PRODUCERS = 3
KILLS = 4
IN_FLIGHT = 50
# Killed in the middle of an answer, a line ends as one of the latter two at times.
BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


class Producer(threading.Thread):
    """Numbers on and on; what was not acknowledged is sent again on the next stream."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self._port = port
        self._room = threading.Semaphore(IN_FLIGHT)
        self.acknowledged = 0
        self.streams = 0
        self.finish = threading.Event()
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                with grpc.insecure_channel(f"127.0.0.1:{self._port}") as channel:
                    self._stream(channel)
        except BaseException as trouble:
            self.trouble = trouble

    def _stream(self, channel: grpc.Channel) -> None:
        over = threading.Event()
        self._room = threading.Semaphore(IN_FLIGHT)
        call = FleetStub(channel).SendStream(self._messages(over), wait_for_ready=True, timeout=240)
        self.streams += 1
        try:
            for found in call:
                assert not found.refused, found
                for _ in range(found.number - self.acknowledged):
                    self._room.release()
                self.acknowledged = found.number
        except grpc.RpcError as error:
            if error.code() not in BROKEN:
                raise
        finally:
            over.set()

    def _messages(self, over: threading.Event) -> Iterator[pb.SendRequest]:
        number = self.acknowledged
        while not self.finish.is_set() and not over.is_set():
            if not self._room.acquire(timeout=0.1):
                continue
            number += 1
            values = pb.Values(type="Counted", json=json.dumps({"number": number}).encode())
            row = pb.Event(agent="Cart", key=self.name, event=values, source=self.name, seq=number)
            yield pb.SendRequest(number=number, events=[row])


@pytest.mark.kill
def test_nothing_is_lost_or_doubled_while_the_gateway_dies(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    (port,) = free_ports(1)
    options = ("--port", "0", "--grpc-port", str(port))
    producers = [Producer(f"p-{n}", port) for n in range(PRODUCERS)]
    with fleet.open(url, partitions=2) as live:
        gateway = GatewayProcess(url, *options)
        try:
            for producer in producers:
                producer.start()
            for _ in range(KILLS):
                until_each_has_more(producers, 100)
                gateway.kill()
                gateway = GatewayProcess(url, *options)
            until_each_has_more(producers, 100)
            for producer in producers:
                producer.finish.set()
            for producer in producers:
                producer.join(120)
                assert not producer.is_alive()
            assert "has stopped" in gateway.stop()
        finally:
            gateway.kill()
        live.settle()
        for producer in producers:
            assert producer.trouble is None, producer.trouble
            assert producer.streams > KILLS, "no stream broke"
            events = [entry.event for entry in live.history(Cart, producer.name)]
            folded = [each.number for each in events if isinstance(each, Counted)]
            assert len(folded) == len(events)
            assert folded == list(range(1, len(folded) + 1)), "lost, doubled or out of order"
            assert len(folded) >= producer.acknowledged


def until_each_has_more(producers: list[Producer], count: int) -> None:
    wanted = {producer: producer.acknowledged + count for producer in producers}
    waited = threading.Event()
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        if all(each.acknowledged >= most for each, most in wanted.items()):
            return
        assert not any(each.trouble for each in producers), [each.trouble for each in producers]
        waited.wait(0.05)
    raise AssertionError("the producers do not get on")
