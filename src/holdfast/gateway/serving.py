"""The server around the application: the socket, TLS 1.3, and an end that lets requests finish."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from typing import Protocol

import uvicorn

from holdfast.errors import InUse, UsageError
from holdfast.gateway.application import Gateway
from holdfast.gateway.connections import Socket, connection_class
from holdfast.gateway.settings import Settings
from holdfast.runtime.tracing.spans import Tracer
from holdfast.runtime.untyped import UntypedLive

FINISH_SECONDS = 5  # requests that are under way have so long to end
HEARD_BYTES_MAX = 64 * 1024  # of a message over a WebSocket: clients have nothing to say
KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
UNSEEN_SECONDS = 30  # data that the other side has not acknowledged for so long: it is gone
BACKLOG = 1024  # connections that the kernel keeps waiting
CERTIFICATE_SECONDS = 10.0  # a renewed certificate is used after so long

_log = logging.getLogger("holdfast.gateway")


def listen(settings: Settings) -> socket.socket:
    """Bound, so that a port that is taken is told before anything starts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        made = socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise InUse(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}: "
            "give another --port"
        ) from None
    # Connections inherit it: one whose other end has vanished is noticed, and is over.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, name, seconds)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSEEN_SECONDS * 1000)
    return made


class Beside(Protocol):
    """What is served in the same loop, over another protocol."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Server(uvicorn.Server):
    """Ends the streams first: they would go on for ever."""

    def __init__(
        self, config: uvicorn.Config, gateway: Gateway, beside: Beside | None = None
    ) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._beside = beside
        self.ended = threading.Event()

    def stop(self) -> None:
        """Also before it runs, and from a signal handler."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._beside is not None:
            await self._beside.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._gateway.hub.stop()
        if self._beside is not None:
            await self._beside.stop()
        await super().shutdown(sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.ended.set()  # also where it could not start


def make_server(live: UntypedLive, settings: Settings, tracer: Tracer | None = None) -> Server:
    settings.check()
    gateway = Gateway(live, settings, tracer)
    bounds = settings.bounds
    config = uvicorn.Config(
        gateway.app,
        http=connection_class(bounds),
        ws=Socket,
        ws_max_size=HEARD_BYTES_MAX,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(bounds.idle_seconds),
        timeout_graceful_shutdown=FINISH_SECONDS,
    )
    config.load()
    server = Server(config, gateway, _beside(live, settings, gateway))
    if settings.certificate is not None and settings.key is not None:
        config.ssl = tls_context(settings.certificate, settings.key, settings.client_ca)
        renewing = (server.ended, config.ssl, settings.certificate, settings.key)
        threading.Thread(target=_renew, args=renewing, name="holdfast-tls", daemon=True).start()
    # Its lines are about connections that ended in the middle: everyday, and nobody's bug.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return server


def _beside(live: UntypedLive, settings: Settings, gateway: Gateway) -> Beside | None:
    if settings.grpc_port is None:
        return None
    if settings.certificate is not None:
        from holdfast.gateway.grpc.ciphers import only_tls_1_3

        only_tls_1_3()
    from holdfast.gateway.grpc.server import GrpcServer

    return GrpcServer(live, settings, gateway)


def tls_context(certificate: str, key: str, client_ca: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(filter(None, (certificate, key, client_ca)))
        raise UsageError(f"TLS files {names} do not work: {error}: give PEM files") from None
    return context


def _renew(ended: threading.Event, context: ssl.SSLContext, certificate: str, key: str) -> None:
    """A certificate that was replaced on disk is used for the connections that come after."""
    seen = _stamps(certificate, key)
    while not ended.wait(CERTIFICATE_SECONDS):
        now = _stamps(certificate, key)
        if now != seen:
            try:
                tls_context(certificate, key, None)  # half of a pair would spoil the one in use
                context.load_cert_chain(certificate, key)
                seen = now
            except (UsageError, OSError, ssl.SSLError) as error:
                _log.warning("the certificate stays as it was: %s", error)


def _stamps(*names: str) -> list[int]:
    return list(map(_stamp, names))


def _stamp(name: str) -> int:
    """0 for one that is being replaced, or whose folder is."""
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return 0
