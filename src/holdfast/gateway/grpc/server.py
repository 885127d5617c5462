"""The gRPC server of a gateway: its port, TLS 1.3, its bounds, and every verb behind the door."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from holdfast.errors import HoldfastError, InUse
from holdfast.gateway.application import Gateway
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.grpc.certificates import credentials
from holdfast.gateway.grpc.door import Door
from holdfast.gateway.grpc.health import Health
from holdfast.gateway.grpc.intake import Intake
from holdfast.gateway.grpc.refusing import refuse
from holdfast.gateway.grpc.service import SERVICE, handlers
from holdfast.gateway.grpc.streams import Streams
from holdfast.gateway.grpc.verbs import Verbs
from holdfast.gateway.problems import Problem
from holdfast.gateway.reading import Reader
from holdfast.gateway.settings import Bounds, Settings
from holdfast.gateway.tokens import Role
from holdfast.runtime.untyped import UntypedLive

FINISH_SECONDS = 3.0  # calls that are under way have so long to end
PING_SECONDS = 15.0  # a line that is cut is noticed

_ROLES = {"Send": Role.SEND, "SendStream": Role.SEND, "Ask": Role.SEND, "Redrive": Role.ADMIN}
_log = logging.getLogger("holdfast.gateway")
Behaviour = Callable[..., Awaitable[object]]


class GrpcServer:
    def __init__(self, live: UntypedLive, settings: Settings, gateway: Gateway) -> None:
        bounds = settings.bounds
        self._settings = settings
        self._door = Door(gateway.tokens)
        self._health = Health(live, gateway.crews)
        intake = Intake(live, gateway.taker, bounds.send_seconds)
        reader = Reader(live, settings)
        self._verbs = Verbs(live, gateway.crews, bounds, reader, intake)
        self._streams = Streams(intake, Feeds(live), gateway.hub, gateway.crews, bounds)
        self._server: Any = None

    async def start(self) -> None:
        """Within the loop that it is to run in."""
        bounds = self._settings.bounds
        self._server = grpc.aio.server(
            options=_options(bounds), maximum_concurrent_rpcs=bounds.calls_max
        )
        behaviours = {method.name: self._behaviour(method) for method in SERVICE.methods}
        self._server.add_generic_rpc_handlers((handlers(behaviours), self._health.handlers()))
        address = f"{self._settings.host_shown}:{self._settings.grpc_port}"
        secrets = credentials(self._settings)
        try:
            if secrets is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, secrets)
        except RuntimeError:
            text = f"{address} cannot be listened on: give another --grpc-port"
            raise InUse(text) from None
        await self._server.start()

    async def stop(self) -> None:
        self._streams.stop()
        if self._server is not None:
            await self._server.stop(FINISH_SECONDS)

    def _behaviour(self, method: Any) -> Behaviour:
        role = _ROLES.get(method.name, Role.READ)
        name = re.sub("(?<=[a-z])(?=[A-Z])", "_", method.name).lower()
        if not method.server_streaming:
            return self._unary(getattr(self._verbs, name), role)
        serve = getattr(self._streams, name)
        if method.client_streaming:
            return self._stream(lambda request, context, entry: serve(context, entry), role)
        return self._stream(serve, role)

    def _unary(self, serve: Behaviour, role: Role) -> Behaviour:
        async def behaviour(request: object, context: Any) -> object:
            entry = self._door.enter(context.invocation_metadata(), role)
            return await serve(request, entry)

        return _refusing(behaviour)

    def _stream(self, serve: Behaviour, role: Role) -> Behaviour:
        async def behaviour(request: object, context: Any) -> object:
            entry = self._door.enter(context.invocation_metadata(), role)
            return await serve(request, context, entry)

        return _refusing(behaviour)


def _refusing(serve: Behaviour) -> Behaviour:
    """What is refused is a status with one line; a bug of ours is told in the log too."""

    async def behaviour(request: object, context: Any) -> object:
        try:
            return await serve(request, context)
        except (HoldfastError, Problem) as error:
            refusal: HoldfastError | Problem = error
        except grpc.aio.InternalError:
            return None  # the client is gone: nobody hears how it ended
        except Exception as error:
            _log.exception("gRPC: a bug in the gateway")
            text = f"{type(error).__name__} in the gateway: its log has more"
            refusal = Problem(500, "Internal Server Error", text)
        return await refuse(context, refusal)

    return behaviour


def _options(bounds: Bounds) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", bounds.body_bytes_max),
        ("grpc.max_send_message_length", -1),  # what we answer has its own bounds
        ("grpc.max_metadata_size", bounds.header_bytes_max),
        ("grpc.absolute_max_metadata_size", bounds.header_bytes_max),
        ("grpc.max_allowed_incoming_connections", bounds.connections_max),
        ("grpc.max_concurrent_streams", bounds.calls_per_connection_max),
        ("grpc.http2.bdp_probe", 0),  # else what is taken in unread grows with the line
        ("grpc.http2.lookahead_bytes", bounds.stream_unread_bytes_max),
        ("grpc.server_handshake_timeout_ms", int(bounds.header_seconds * 1000)),
        ("grpc.keepalive_time_ms", int(PING_SECONDS * 1000)),
        ("grpc.keepalive_timeout_ms", int(PING_SECONDS * 1000)),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # of clients
        ("grpc.so_reuseport", 1),  # the port is held for us, by `reserve`
    ]
