"""A fleet, its gateway with gRPC on a real socket, and a plain client of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import msgspec
import pytest

from holdfast import Live
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.ports import reserve
from holdfast.gateway.grpc.service import FleetStub
from holdfast.gateway.settings import Bounds, Settings
from tests.gateway.served import served

SECONDS = 120  # of patience with a call
USUAL = Settings()


class Dialled(NamedTuple):
    url: str
    live: Live
    stub: FleetStub
    port: int
    http_port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def dialled(folder: Path, settings: Settings = USUAL, query: str = "") -> Iterator[Dialled]:
    settings, held = reserve(msgspec.structs.replace(settings, grpc_port=0))
    assert held is not None
    assert settings.grpc_port
    with (
        held,
        served(folder, settings, query=query) as yard,
        channel_to(settings.grpc_port) as channel,
    ):
        yield Dialled(yard.url, yard.live, FleetStub(channel), settings.grpc_port, yard.port)


@contextmanager
def channel_to(port: int, *options: tuple[str, object]) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield channel


def bounded(**values: Any) -> Settings:
    return Settings(bounds=Bounds(**values))


def event(key: str, kind: str = "Counted", **more: Any) -> pb.Event:
    """With fields as JSON; `source` and `seq` are those of the event."""
    own = {name: more.pop(name) for name in ("source", "seq", "event_time") if name in more}
    values = pb.Values(type=kind, json=json.dumps(more).encode())
    return pb.Event(agent="Cart", key=key, event=values, **own)


def counted(key: str, number: int, source: str = "gcs") -> pb.Event:
    return event(key, number=number, source=source, seq=number)


def numbers_of(yard: Dialled, key: str, receipt: str) -> list[int]:
    asked = pb.GetStateRequest(agent="Cart", key=key, after=receipt, timeout_seconds=20)
    state = yard.stub.GetState(asked, timeout=SECONDS)
    found: list[int] = json.loads(state.state.json)["numbers"]
    return found


@contextmanager
def refused(code: grpc.StatusCode, part: str) -> Iterator[dict[str, Any]]:
    """One line that has this part in it; the problem document is filled in."""
    problem: dict[str, Any] = {}
    with pytest.raises(grpc.RpcError) as caught:
        yield problem
    error: Any = caught.value
    assert error.code() is code, error
    assert part in error.details(), error
    assert "\n" not in error.details()
    trailers = dict(error.trailing_metadata() or ())
    problem.update(json.loads(trailers.get("problem-bin", b"{}")))
    problem["pushback"] = trailers.get("grpc-retry-pushback-ms")
