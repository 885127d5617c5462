"""`gateway` and `token`: the HTTP gateway alone, and who may use it; its options for `run` too."""

from __future__ import annotations

import functools
import importlib.util
import socket
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast.cli.options import engine_option, otlp_option, views_option
from holdfast.engine.urls import hidden
from holdfast.errors import InUse, UsageError
from holdfast.runtime.launching import Helper

if TYPE_CHECKING:
    from holdfast.gateway.settings import Settings

HOST, PORT = "127.0.0.1", 8080
NEEDED = ("starlette", "uvicorn", "httptools", "wsproto")
EXTRA = "pip install 'holdfast[gateway]'"
GRPC_NEEDED = ("grpc", "google.protobuf")
GRPC_EXTRA = "pip install 'holdfast[gateway,grpc]'"

Command = Callable[..., None]


class GatewayOptions(NamedTuple):
    host: str
    port: str | None
    tokens: str | None
    tls_cert: str | None
    tls_key: str | None
    client_ca: str | None
    grpc_port: str | None

    def settings(
        self, fleet: str | None = None, snapshots: str | None = None, views: str | None = None
    ) -> Settings:
        from holdfast.gateway.settings import Settings

        found = Settings(
            host=self.host,
            port=PORT if self.port is None else _port(self.port, "--port"),
            grpc_port=self._grpc_port(),
            tokens=self.tokens,
            certificate=self.tls_cert,
            key=self.tls_key,
            client_ca=self.client_ca,
            fleet=fleet,
            snapshots=snapshots,
            views=views,
        )
        found.check()
        return found

    def _grpc_port(self) -> int | None:
        if self.grpc_port in (None, "none"):
            return None
        if missing := _missing(GRPC_NEEDED):
            raise UsageError(f"gRPC needs {missing}: {GRPC_EXTRA}")
        return _port(str(self.grpc_port), "--grpc-port")

    def check(self) -> None:
        """What is wrong with them is told before anything is made."""
        if self.port == "none" and self.grpc_port not in (None, "none"):
            raise UsageError("--grpc-port is of the gateway: leave out --port none")
        if self.port != "none" and not _missing():
            self.settings()

    def beside(
        self, url: str, fleet: str, snapshots: str | None, views: str | None
    ) -> tuple[list[Helper], str]:
        """The gateway of a fleet, and a line about it. Only one that was asked for has to be."""
        if self.port == "none":
            return [], ""
        asked_for = any(each is not None for each in self[1:]) or self.host != HOST
        if missing := _missing():
            if asked_for:
                raise UsageError(f"the gateway needs {missing}: {EXTRA}")
            return [], f"no gateway: {missing} is not installed: {EXTRA}"
        import msgspec

        from holdfast.gateway.grpc.ports import reserve
        from holdfast.gateway.serving import listen

        settings, held = reserve(self.settings(fleet, snapshots, views))
        try:
            listener = listen(settings)
        except InUse as taken:
            if asked_for:
                raise
            return [], f"no gateway: {taken}"
        if held is not None:
            held.detach()  # ours until the end, too
        line = f"gateway at {_shown(settings, listener)}"
        encoded = msgspec.json.encode(settings).decode()
        descriptor = listener.detach()  # ours until the end: a successor listens on it too
        arguments = [url, encoded]
        helper = Helper("gateway", "holdfast.gateway.process", arguments, descriptors=[descriptor])
        return [helper], line


def gateway_options(command: Command) -> Command:
    """Where the gateway listens and who may come in; the command gets them as `gateway`."""

    @click.option("--host", default=HOST, show_default=True, help="Where the gateway listens.")
    @click.option(
        "--port",
        envvar="HOLDFAST_PORT",
        metavar="PORT|none",
        show_envvar=True,
        help=f"Of the gateway (HTTP); {PORT} unless given.",
    )
    @click.option(
        "--grpc-port",
        envvar="HOLDFAST_GRPC_PORT",
        metavar="PORT|none",
        show_envvar=True,
        help="Of the gateway (gRPC); none unless given.",
    )
    @click.option("--tokens", metavar="FILE", help="Who may use the gateway; see `token`.")
    @click.option("--tls-cert", metavar="FILE", help="PEM; then it speaks TLS 1.3 only.")
    @click.option("--tls-key", metavar="FILE")
    @click.option("--client-ca", metavar="FILE", help="Clients need a certificate of this CA.")
    @functools.wraps(command)
    def wrapped(
        host: str,
        port: str | None,
        grpc_port: str | None,
        tokens: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        client_ca: str | None,
        **others: object,
    ) -> None:
        options = GatewayOptions(host, port, tokens, tls_cert, tls_key, client_ca, grpc_port)
        click.get_current_context().invoke(command, gateway=options, **others)

    return wrapped


def _port(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65536):
        raise UsageError(f"{option} {text!r}: give 0 to 65535, or none")
    return int(text)


def _missing(needed: Sequence[str] = NEEDED) -> str:
    return next((name for name in needed if not _is_installed(name)), "")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def _shown(settings: Settings, listener: socket.socket) -> str:
    """With the port that the system chose for 0."""
    import msgspec

    port = listener.getsockname()[1]
    address = msgspec.structs.replace(settings, port=port).address
    if settings.grpc_port is None:
        return address
    return f"{address}, gRPC at {settings.host_shown}:{settings.grpc_port}"


def _print_proto(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        import holdfast.gateway.grpc as package

        click.echo(Path(package.__path__[0], "holdfast.proto").read_text("utf-8"), nl=False)
        context.exit()


@click.command()
@engine_option
@gateway_options
@otlp_option
@click.option("--fleet", metavar="FLEET", help="The code, for states of the past (?at=).")
@click.option("--snapshots", metavar="URL", help="For the same; beside the data unless given.")
@views_option
@click.option(
    "--print-proto",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_proto,
    help="Print the schema of gRPC, holdfast.proto, and exit.",
)
def gateway(
    url: str,
    gateway: GatewayOptions,
    fleet: str | None,
    snapshots: str | None,
    otlp: str | None,
    views: str | None,
) -> None:
    """Serve the fleet whose data is there over HTTP, until SIGTERM or Ctrl-C.

    It keeps nothing itself: there can be several, and any of them can be stopped at any time.
    """
    if missing := _missing():
        raise UsageError(f"the gateway needs {missing}: {EXTRA}")
    import msgspec

    from holdfast.gateway.grpc.ports import reserve
    from holdfast.gateway.serving import listen, make_server
    from holdfast.runtime.supervised import when_told_to_finish
    from holdfast.runtime.tracing.exporting import ask_for, start_tracing
    from holdfast.runtime.untyped import connect_untyped

    if gateway.port == "none":
        raise UsageError("--port none: a gateway alone needs a port")
    ask_for(otlp)
    told = msgspec.structs.replace(gateway.settings(fleet, snapshots, views), url=hidden(url))
    settings, held = reserve(told)
    with held or nullcontext(), connect_untyped(url, views) as live, listen(settings) as listener:
        fleet_name = live.engine.catalog.fleet
        tracer = start_tracing(fleet_name, "gateway")
        server = make_server(live, settings, tracer)
        when_told_to_finish(server.stop)
        click.echo(f"{fleet_name}: gateway at {_shown(settings, listener)}")
        server.run([listener])
        if tracer is not None:
            tracer.stop()
        click.echo(f"{fleet_name}: the gateway has stopped")


@click.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["read", "send", "admin"]),
    required=True,
    help="Each may what those before it may.",
)
@click.option("--file", "path", metavar="FILE", help="Put it into this file of tokens.")
def token(name: str, role: str, path: str | None) -> None:
    """Make a token for NAME. It is shown once; the file of tokens has only its digest."""
    from holdfast.gateway.tokens import lines_for, new_token, read_tokens

    made = new_token()
    lines = lines_for(name, role, made)
    if path is None:
        click.echo(f"{made}\n\n# for the file that --tokens names:\n{lines}", nl=False)
        return
    place = Path(path)
    if place.exists() and name in {each.name for each in read_tokens(place).values()}:
        raise UsageError(f"{path} has a token {name!r} already: remove it first")
    ended = not place.exists() or place.read_bytes()[-1:] in (b"", b"\n")
    with place.open("a", encoding="utf-8") as file:
        file.write(lines if ended else f"\n{lines}")
    click.echo(made)
