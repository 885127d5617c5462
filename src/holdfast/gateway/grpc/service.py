"""The service of `holdfast.proto`, read from its descriptor: who serves it, and a client's stub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from holdfast.gateway.grpc import holdfast_pb2

SERVICE = holdfast_pb2.DESCRIPTOR.services_by_name["Fleet"]
PROTO = Path(__file__).with_name("holdfast.proto")

# By (client streams, server streams).
_HANDLERS = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
_CALLS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, True): "stream_stream",
}


def handlers(behaviours: Mapping[str, Callable[..., object]]) -> grpc.GenericRpcHandler:
    """Every method of the service, by the function that serves it."""
    found = {}
    for method in SERVICE.methods:
        asked, answered = _messages(method)
        make = _HANDLERS[method.client_streaming, method.server_streaming]
        found[method.name] = make(
            behaviours[method.name],
            request_deserializer=asked.FromString,
            response_serializer=answered.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(SERVICE.full_name, found)


class FleetStub:
    """A client: `FleetStub(channel).Send(SendRequest(…))`, over a channel of either kind."""

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            asked, answered = _messages(method)
            call = getattr(channel, _CALLS[method.client_streaming, method.server_streaming])
            made = call(
                f"/{SERVICE.full_name}/{method.name}",
                request_serializer=asked.SerializeToString,
                response_deserializer=answered.FromString,
            )
            setattr(self, method.name, made)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(method.name for method in SERVICE.methods)
        raise AttributeError(f"the service has no method {name!r}: it has {known}")


def _messages(method: Any) -> tuple[Any, Any]:
    asked, answered = method.input_type.name, method.output_type.name
    return getattr(holdfast_pb2, asked), getattr(holdfast_pb2, answered)
