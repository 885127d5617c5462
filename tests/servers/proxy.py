"""A TCP proxy for fault tests: it stands between clients and servers and makes a bad network.

Nothing that was sent is lost inside a connection that goes on; held bytes arrive later, in order,
as with TCP over a bad line. To lose them, cut the connection.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Literal, Self

from tests.servers.ports import free_ports

Direction = Literal["requests", "answers"]
_PIECE_BYTES = 1 << 20
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # no goodbye: the other side sees a broken connection
_STEP_SECONDS = 0.05


class Proxy:
    """One route for each target; every verb is for all of them, or for the one to `target`.

    In front of Kafka: `KafkaCluster(advertised=lambda broker, port: proxy.in_front_of(port))`, then
    `proxy.cut(cluster.broker(2).port)`.
    """

    def __init__(self) -> None:
        self._routes: dict[int, _Route] = {}

    def in_front_of(self, target: int) -> int:
        """Forward to this loopback port, and say on which one clients connect."""
        self._routes[target] = _Route(target)
        return self._routes[target].port

    def cut(self, target: int | None = None) -> None:
        """Connections break, and new ones are refused."""
        for each in self._chosen(target):
            each.close()

    def blackhole(self, target: int | None = None) -> None:
        """Connections stay and new ones are accepted, but nothing comes through."""
        for each in self._chosen(target):
            each.held = {"requests", "answers"}

    def hold_answers(self, target: int | None = None) -> None:
        """Servers get requests and do what they ask; clients do not hear of it."""
        for each in self._chosen(target):
            each.held = {"answers"}

    def delay(self, seconds: float, target: int | None = None) -> None:
        """Whatever is sent arrives that much later, in both directions."""
        for each in self._chosen(target):
            each.delay_seconds = seconds

    def heal(self, target: int | None = None) -> None:
        for each in self._chosen(target):
            each.held = set()
            each.delay_seconds = 0.0
            each.open()

    def connections(self, target: int | None = None) -> int:
        return sum(len(each.pairs) for each in self._chosen(target))

    def _chosen(self, target: int | None) -> Iterator[_Route]:
        yield from self._routes.values() if target is None else [self._routes[target]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()


class _Route:
    """Two threads for each connection, one for each direction. The verbs set what they look at."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = free_ports(1)[0]
        self.held: set[Direction] = set()
        self.delay_seconds = 0.0
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
                _thread(self._accept, self._listener)

    def close(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
                self._listener.close()
                self._listener = None
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            _break(*pair)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # cut
            _thread(self._connect, client, listener)

    def _connect(self, client: socket.socket, listener: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            _break(client)  # nobody is there, and the client finds out
            return
        pair = (client, server)
        for each in pair:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if self._listener is not listener:  # cut in the meantime
                _break(*pair)
                return
            self.pairs.append(pair)
        _thread(self._pump, client, server, "requests", pair)
        _thread(self._pump, server, client, "answers", pair)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        direction: Direction,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        try:
            while True:
                piece = source.recv(_PIECE_BYTES)
                time.sleep(self.delay_seconds)
                while direction in self.held and pair in self.pairs:
                    time.sleep(_STEP_SECONDS)
                if not piece:
                    break
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
            if direction == "requests":
                return  # the answers may still be on their way, and their pump ends the pair
        except OSError:
            pass  # a side is gone, or we cut
        with self._lock:
            if pair in self.pairs:
                self.pairs.remove(pair)
        _break(*pair)


def _thread(run: object, *words: object) -> None:
    threading.Thread(target=run, args=words, name="proxy", daemon=True).start()  # type: ignore[arg-type]


def _break(*sockets: socket.socket) -> None:
    for each in sockets:
        try:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            each.shutdown(socket.SHUT_RD)  # wakes the thread that reads from it
        except OSError:
            pass  # closed already
        each.close()
