"""What a gateway is told: where it listens, who may come in, and its bounds."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.errors import UsageError
from holdfast.gateway.tokens import read_tokens

HOST = "127.0.0.1"
PORT = 8080


class Bounds(msgspec.Struct, frozen=True):
    """What one client, or all together, may take; each has a defined refusal."""

    body_bytes_max: int = 8 * 1024 * 1024  # 413
    bodies_bytes_max: int = 256 * 1024 * 1024  # of all requests under way: 429
    events_per_request_max: int = 10_000  # 413
    connections_max: int = 1_000  # 503, and the connection is closed
    header_bytes_max: int = 64 * 1024  # 431
    header_seconds: float = 10.0  # until a request's headers are there; then it is closed
    body_seconds: float = 30.0  # 408
    send_seconds: float = 2.0  # patience with a backlog or a lock, then 429 or 503
    ask_seconds_max: float = 60.0
    write_seconds: float = 30.0  # a client that reads nothing for so long is cut off
    idle_seconds: float = 30.0  # a connection without a request
    rows_per_page_max: int = 10_000
    streams_max: int = 200  # SSE and WebSockets together: 503
    # gRPC:
    calls_max: int = 2_000  # under way at once: RESOURCE_EXHAUSTED
    calls_per_connection_max: int = 200  # more of them wait at the client
    send_streams_max: int = 1_000  # SendStream: UNAVAILABLE
    stream_bytes_max: int = 1024 * 1024  # of a SendStream that wait: no more is read
    stream_unread_bytes_max: int = 256 * 1024  # of one call: the client waits


class Settings(msgspec.Struct, frozen=True):
    host: str = HOST
    port: int = PORT
    grpc_port: int | None = None
    tokens: str | None = None  # a file
    certificate: str | None = None  # files, PEM
    key: str | None = None
    client_ca: str | None = None
    fleet: str | None = None  # the code, for what has to be folded again
    snapshots: str | None = None
    views: str | None = None  # where they are kept, if not in the usual place
    url: str | None = None  # of the data, for who folds it again
    bounds: Bounds = Bounds()

    def check(self) -> None:
        """Before anything listens: what would be open to everybody, files that cannot be used."""
        if self.tokens is None and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host} can be reached from other machines: say who may come in with "
                "--tokens FILE (`holdfast token NAME --role send` makes a line of it)"
            )
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key go together: give both or none")
        if self.client_ca is not None and self.certificate is None:
            raise UsageError("--client-ca asks for certificates of clients: give --tls-cert too")
        for name in (self.tokens, self.certificate, self.key, self.client_ca):
            if name is not None and not Path(name).is_file():
                raise UsageError(f"{name}: no such file")
        if self.tokens is not None:
            read_tokens(Path(self.tokens))

    @property
    def address(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{self.host_shown}:{self.port}"

    @property
    def host_shown(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@lru_cache(maxsize=256)  # it is asked for every request, and there are few answers
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
