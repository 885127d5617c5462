"""A client that speaks bytes: what no library would send, and answers as they come."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cli.commands import eventually
from tests.gateway.served import Heard, Served, running
from tests.run.speed import patient


class Raw:
    def __init__(self, port: int, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:  # so that little is enough to fill it
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(patient(20.0))
        self.socket.connect(("127.0.0.1", port))

    def send(self, data: bytes) -> bool:
        """False where the other side has closed."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def rest(self) -> bytes:
        """Everything up to the end of the line; an end by reset is one too."""
        found = b""
        try:
            while chunk := self.socket.recv(65536):
                found += chunk
        except ConnectionResetError:
            pass
        return found

    def until(self, mark: bytes) -> bytes:
        found = b""
        while mark not in found:
            chunk = self.socket.recv(65536)
            assert chunk, f"the line ended before {mark!r}: {found!r}"
            found += chunk
        return found

    def __enter__(self) -> Raw:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()


def request(method: str, path: str, body: bytes = b"", /, **headers: str) -> bytes:
    """One that is complete, unless headers say otherwise."""
    named = {"host": "localhost", "content-type": "application/json", **headers}
    if body and "transfer-encoding" not in {n.replace("_", "-") for n in named}:
        named.setdefault("content_length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in named.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def heard_in(data: bytes) -> list[Heard]:
    """The responses in these bytes, one after the other, each with a content-length."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":")[::2] for line in lines]
        headers = {name.lower(): text.strip() for name, text in pairs}
        length = int(headers.get("content-length", len(data)))
        found.append(Heard(int(first.split()[1]), headers, data[:length]))
        data = data[length:]
    return found


def cart_event(key: str, number: int = 1) -> bytes:
    values: dict[str, Any] = {"agent": "Cart", "key": key, "type": "Counted"}
    return json.dumps({**values, "data": {"number": number}}).encode()


def goes_on(yard: Served) -> None:
    """The fleet takes an event from somebody else, and folds it."""
    before = yard.client.get("/agents/Cart/witness")
    version = before.json()["version"] if before.status == 200 else 0
    heard = yard.client.ask(
        "POST", "/events", cart_event("witness"), {"content-type": "application/json"}
    )
    assert heard.status == 200, heard
    receipt = heard.json()["receipt"]
    after = yard.client.get(f"/agents/Cart/witness?after={receipt}")
    assert after.json()["version"] == version + 1, after


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_idle(yard: Served) -> Callable[[], bool]:
    """Whether the gateway has no connection and no task of a request left."""
    state = running[yard.port].server_state
    return lambda: not state.connections and not state.tasks


def leaves_nothing(yard: Served) -> None:
    eventually("connections and tasks end", is_idle(yard))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
