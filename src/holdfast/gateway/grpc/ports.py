"""The port of gRPC, whose library binds it by itself, maybe again and again in new processes."""

from __future__ import annotations

import socket

import msgspec

from holdfast.errors import InUse
from holdfast.gateway.settings import Settings


def reserve(settings: Settings) -> tuple[Settings, socket.socket | None]:
    """Held, so that nobody else gets it, and told if it is taken; 0 becomes a number."""
    if settings.grpc_port is None:
        return settings, None
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    place = (settings.host, settings.grpc_port)
    held = socket.socket(family)
    try:
        with socket.socket(family) as alone:  # refused beside anybody who listens
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(place)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(place)  # and never listens: so it gets no connections
    except OSError as error:
        held.close()
        raise InUse(
            f"{settings.host}:{settings.grpc_port} cannot be listened on: {error.strerror}: "
            "give another --grpc-port"
        ) from None
    return msgspec.structs.replace(settings, grpc_port=held.getsockname()[1]), held
