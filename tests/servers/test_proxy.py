"""Goal: the proxy makes the bad network that its verbs promise, and heals without losing bytes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.run.speed import patient
from tests.servers.proxy import Proxy

PATIENCE_SECONDS = patient(10.0)
SILENCE_SECONDS = 0.3


class Echo:
    """Sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.got = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while piece := connection.recv(1 << 16):
                    self.got += piece
                    connection.sendall(piece)
            except OSError:
                pass  # cut

    def close(self) -> None:
        if self.listener.fileno() != -1:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self.listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as made:
        yield made


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def asked(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return read(connection, len(text))


def read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        assert piece, f"closed after {len(found)} bytes of {size}"
        found += piece
    return found


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_SECONDS)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_SECONDS)


def test_bytes_come_through_and_the_end_too(proxy: Proxy, echo: Echo) -> None:
    text = bytes(range(256)) * 8192
    with connect(proxy.in_front_of(echo.port)) as client:
        sender = threading.Thread(target=client.sendall, args=[text])
        sender.start()
        assert read(client, len(text)) == text
        sender.join()
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while proxy.connections() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert proxy.connections() == 0


def test_cut_breaks_and_refuses_until_it_heals(proxy: Proxy, echo: Echo) -> None:
    port = proxy.in_front_of(echo.port)
    with connect(port) as client:
        assert asked(client, b"before") == b"before"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    proxy.heal()
    with connect(port) as client:
        assert asked(client, b"after") == b"after"


def test_in_a_black_hole_connections_stall_and_go_on(proxy: Proxy, echo: Echo) -> None:
    port = proxy.in_front_of(echo.port)
    with connect(port) as old:
        assert asked(old, b"1") == b"1"
        proxy.blackhole()
        with connect(port) as new:
            old.sendall(b"2")
            new.sendall(b"3")
            assert is_silent(old)
            assert is_silent(new)
            assert echo.got == b"1"
            proxy.heal()
            assert (read(old, 1), read(new, 1)) == (b"2", b"3")


def test_held_answers_are_to_requests_that_arrived(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy.in_front_of(echo.port)) as client:
        proxy.hold_answers()
        client.sendall(b"do it")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while echo.got != b"do it" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert echo.got == b"do it"
        assert is_silent(client)
        proxy.heal()
        assert read(client, 5) == b"do it"


def test_delay_is_for_both_directions(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy.in_front_of(echo.port)) as client:
        assert asked(client, b"quick") == b"quick"
        proxy.delay(0.1)
        start = time.monotonic()
        assert asked(client, b"slow") == b"slow"
        assert time.monotonic() - start >= 0.2


def test_a_verb_may_be_for_one_target(proxy: Proxy, echo: Echo) -> None:
    other = Echo()
    ports = [proxy.in_front_of(each.port) for each in (echo, other)]
    proxy.cut(echo.port)
    with pytest.raises(ConnectionRefusedError):
        connect(ports[0])
    with connect(ports[1]) as client:
        assert asked(client, b"fine") == b"fine"
    other.close()


def test_a_server_that_is_down_breaks_the_connection(proxy: Proxy, echo: Echo) -> None:
    port = proxy.in_front_of(echo.port)
    echo.close()
    with pytest.raises(ConnectionResetError), connect(port) as client:
        client.recv(1)
