"""The standard health service, as far as probes use it: `grpc.health.v1.Health/Check`.

Its two messages have one field each, and are the same bytes as the wrappers of a text and of an
integer; so they need no generated code of their own. It takes no token, and tells nothing.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import wrappers_pb2

from holdfast.errors import HoldfastError
from holdfast.gateway.crew import Crews
from holdfast.gateway.grpc.service import SERVICE
from holdfast.gateway.problems import Problem
from holdfast.runtime.untyped import UntypedLive

SERVING, NOT_SERVING = 1, 2


class Health:
    def __init__(self, live: UntypedLive, crews: Crews) -> None:
        self._live = live
        self._crews = crews

    def handlers(self) -> grpc.GenericRpcHandler:
        check = grpc.unary_unary_rpc_method_handler(
            self._check,
            request_deserializer=wrappers_pb2.StringValue.FromString,
            response_serializer=wrappers_pb2.Int32Value.SerializeToString,
        )
        return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})

    async def _check(self, request: Any, context: Any) -> Any:
        if request.value not in ("", SERVICE.full_name):
            text = f"no service {request.value!r:.80} here: ask for {SERVICE.full_name}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        try:
            await self._crews.reads.run(self._live.commits)  # every partition can be read
        except (HoldfastError, Problem):
            return wrappers_pb2.Int32Value(value=NOT_SERVING)
        return wrappers_pb2.Int32Value(value=SERVING)
