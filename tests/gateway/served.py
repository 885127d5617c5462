"""A fleet and its gateway within the test's process, on real sockets; and a plain client of it."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast import Live
from holdfast.gateway.serving import Server, listen, make_server
from holdfast.gateway.settings import Settings
from holdfast.runtime.untyped import connect_untyped
from tests.gateway.yard import fleet

USUAL = Settings()
JSON = {"content-type": "application/json"}
running: dict[int, Server] = {}  # by port, for tests that look inside


class Heard(NamedTuple):
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One request per connection, so that no test depends on the one before."""

    def __init__(self, port: int, token: str | None = None, tls: ssl.SSLContext | None = None):
        self.port = port
        self.token = token
        self.tls = tls

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Heard:
        sent = {"authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= headers or {}
        connection: http.client.HTTPConnection
        if self.tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        else:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=120, context=self.tls
            )
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            found = {name.lower(): text for name, text in response.getheaders()}
            return Heard(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Heard:
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path: str, values: object, headers: Mapping[str, str] | None = None) -> Heard:
        return self.ask("POST", path, json.dumps(values), {**JSON, **(headers or {})})

    def events(self, *rows: object, **headers: str) -> Heard:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.post("/events", rows[0] if len(rows) == 1 else list(rows), named)


def refused(heard: Heard, status: int, part: str) -> dict[str, Any]:
    """A problem document of one line that has this part in it."""
    assert heard.status == status, heard
    assert heard.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = heard.json()
    assert problem["status"] == status
    assert part in problem["detail"], problem
    assert "\n" not in problem["detail"]
    return problem


class Served(NamedTuple):
    url: str
    live: Live
    client: Client
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def served(
    folder: Path, settings: Settings = USUAL, partitions: int = 2, query: str = ""
) -> Iterator[Served]:
    """The fleet folds in this process; its gateway has a handle of its own on the directory."""
    url = f"sqlite:{folder / 'data'}{query}"
    with fleet.open(url, partitions=partitions) as live, gateway_on(url, settings) as port:
        yield Served(url, live, Client(port), port)


@contextmanager
def gateway_on(url: str, settings: Settings = USUAL, port: int = 0) -> Iterator[int]:
    """The port of a gateway on the data of this URL."""
    settings = msgspec.structs.replace(settings, port=port, url=url)
    with connect_untyped(url, settings.views) as reader, listen(settings) as listener:
        port = listener.getsockname()[1]
        server = make_server(reader, settings)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        running[port] = server
        try:
            until_started(server, thread)
            yield port
        finally:
            del running[port]
            server.stop()
            thread.join(120)
            assert not thread.is_alive(), "the gateway does not stop"


def until_started(server: Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the gateway has ended"
        assert time.monotonic() < deadline, "the gateway does not start"
        time.sleep(0.005)
