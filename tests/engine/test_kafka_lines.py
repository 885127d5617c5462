"""Goal: nobody who connects to the owner of a partition can hurt it or its other readers, and a
reader soon knows of an owner that is gone, stuck, or somebody else."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.engine import questions
from holdfast.engine.kafka import lines, settings, wire
from holdfast.engine.kafka.asking import NotServed, RemoteView
from holdfast.engine.kafka.serving import ViewServer
from holdfast.testing.conformance.workbench import record, soon, together
from tests.engine.served import Fleet, instead
from tests.run.speed import patient


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.close()


# Strangers, and lines that break.


def place(server: ViewServer) -> tuple[str, int]:
    host, _, port = server.address.partition("#")[0].rpartition(":")
    return host, int(port)


def dial(server: ViewServer) -> socket.socket:
    return socket.create_connection(place(server), timeout=5.0)


def frame(*request: object) -> bytes:
    body = msgspec.msgpack.encode(request)
    return struct.pack(">I", len(body)) + body


def reply_to(server: ViewServer, data: bytes) -> questions.Reply:
    with dial(server) as line:
        line.sendall(data)
        return questions.unpack_reply(wire.receive(line, 10_000, 5.0))


def token(server: ViewServer) -> str:
    return server.address.partition("#")[2]


def test_a_wrong_token_is_refused(fleet: Fleet) -> None:
    server = fleet.serve()
    other = fleet.serve()
    wrong = f"{server.address.partition('#')[0]}#{token(other)}"
    with pytest.raises(NotServed, match="the token is wrong"):
        RemoteView(wrong, 0, connections=fleet.connections).head()
    for bad in ("", "x", token(server)[:-1], token(server) + "x", "ü"):
        assert reply_to(server, frame(bad, 0, "head", ())).status == questions.REFUSED
    assert fleet.read(server).head() == fleet.owner.head
    assert len(token(server)) >= 32


@pytest.mark.parametrize("method", ["close", "__class__", "settled", "whole", "compact", ""])
def test_only_what_the_table_has_can_be_asked_for(fleet: Fleet, method: str) -> None:
    reply = reply_to(server := fleet.serve(), frame(token(server), 0, method, ()))
    assert reply.status == questions.REFUSED
    assert "there is no" in questions.unpack_text(reply.payload)


@pytest.mark.parametrize(
    "arguments", [(1, 2, 3), (), ("a", "b"), {"first": 1}, None, (1.5, 2), (None, None)]
)
def test_wrong_arguments_are_refused(fleet: Fleet, arguments: object) -> None:
    reply = reply_to(server := fleet.serve(), frame(token(server), 0, "actions", arguments))
    assert reply.status == questions.REFUSED
    assert "actions: " in questions.unpack_text(reply.payload)


def test_a_request_that_is_too_long_is_refused(fleet: Fleet) -> None:
    server = fleet.serve()
    for length in (questions.REQUEST_BYTES_MAX + 1, 2**32 - 1):
        reply = reply_to(server, struct.pack(">I", length))
        assert reply.status == questions.REFUSED
        assert "65,536 is the most" in questions.unpack_text(reply.payload)
    remote = fleet.read(server)
    for key in ("x" * 100_000, "\ud800"):
        with pytest.raises(NotServed, match="record: "):
            remote.record("Drone", key)
    with pytest.raises(NotServed, match="answer: "):
        remote.answer(2**70)
    assert remote.head() == fleet.owner.head


def test_garbage_hurts_nobody(fleet: Fleet) -> None:
    server = fleet.serve()
    remote = fleet.read(server)
    remote.head()
    garbage = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\xc1",
        struct.pack(">I", 20) + os.urandom(20),
        frame(),
        frame(1, 2, 3, 4),
        frame(token(server), "0", "head", ()),
        frame(token(server), 0, "head", (), "more"),
        frame(token(server), 2**63, "head", ()) + b"\xff" * 100_000,
        *(os.urandom(size) for size in range(1, 60)),
    ]
    for data in garbage:
        with dial(server) as line:
            line.sendall(data)
        assert remote.head() == fleet.owner.head
    soon(lambda: len(server._open) == 1)


def test_half_a_request_is_not_waited_for(fleet: Fleet) -> None:
    """Nor one that comes drop by drop; meanwhile others are served."""
    server = fleet.serve()
    remote = fleet.read(server)
    remote.head()  # our own line has been greeted, however busy the machine is
    server._greeting_seconds = 0.3
    with dial(server) as silent, dial(server) as half, dial(server) as dripping:
        half.sendall(frame(token(server), 0, "head", ())[:-1])
        started = time.monotonic()
        for byte in struct.pack(">I", 60_000) + b"\x94" * 3:
            try:
                dripping.sendall(bytes([byte]))
            except OSError:
                break
            assert remote.head() == fleet.owner.head
            time.sleep(0.05)
        for line in (silent, half, dripping):
            try:
                assert line.recv(1) == b""
            except ConnectionResetError:
                pass  # hung up before all drops were read
        assert time.monotonic() - started < patient(3.0)
    assert remote.head() == fleet.owner.head


def test_there_are_so_many_connections_and_no_more(fleet: Fleet) -> None:
    server = fleet.serve(connections_max=3, greeting_seconds=30.0)
    strangers = [dial(server) for _ in range(3)]
    soon(lambda: len(server._open) == 3)
    with dial(server) as refused:
        reply = questions.unpack_reply(wire.receive(refused, 1000, 5.0))
        assert questions.unpack_text(reply.payload) == "it has too many connections"
    with pytest.raises(NotServed):
        fleet.read(server).head()
    for stranger in strangers:
        stranger.close()
    soon(lambda: not server._open)
    assert fleet.read(server).head() == fleet.owner.head


def test_lines_that_the_owner_has_hung_up_are_opened_anew(fleet: Fleet) -> None:
    server = fleet.serve(idle_seconds=0.1)
    remote = fleet.read(server)
    for _ in range(3):
        assert remote.head() == fleet.owner.head
        soon(lambda: not server._open)


def test_lines_that_were_not_used_for_long_are_dropped(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = fleet.serve()
    remote = fleet.read(server)
    remote.head()
    before = set(server._open)
    monkeypatch.setattr(lines, "IDLE_SECONDS", -1.0)
    remote.head()
    soon(lambda: len(server._open) == 1 and before.isdisjoint(server._open))


def test_an_owner_that_stops_is_noticed_quickly(fleet: Fleet) -> None:
    server = fleet.serve()
    remote = fleet.read(server)
    assert remote.head() == fleet.owner.head
    started = time.monotonic()
    server.close()
    for _ in range(2):
        with pytest.raises(NotServed, match="cannot be reached"):
            remote.head()
    assert time.monotonic() - started < patient(1.5)
    server.close()


def test_an_owner_that_stops_while_it_answers_is_noticed_quickly(fleet: Fleet) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def stuck() -> dict[str, int]:
        asked.set()
        go_on.wait(60.0)
        return {}

    fleet.view = instead(fleet.view, marks=stuck)
    server = fleet.serve()
    remote = fleet.read(server, timeout=100.0)

    def ask() -> None:
        with pytest.raises(NotServed):
            remote.marks()
        go_on.set()

    def stop() -> None:
        assert asked.wait(60.0)
        server.close()

    started = time.monotonic()
    together(ask, stop)
    assert time.monotonic() - started < 20.0, "the end of the answer was waited for"


def test_an_owner_that_is_stuck_is_not_waited_for(fleet: Fleet) -> None:
    go_on = threading.Event()
    fleet.view = instead(fleet.view, marks=lambda: go_on.wait(60.0) and {})
    server = fleet.serve()
    with pytest.raises(NotServed, match=r"did not answer within 0\.2 s"):
        fleet.read(server, timeout=0.2).marks()
    remote = fleet.read(server)
    assert remote.head() == fleet.owner.head, "on a line of its own"
    go_on.set()
    assert remote.marks() == {}


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\1\xc1", b"\0\0", b""]
)
def test_somebody_else_at_the_address_is_not_believed(fleet: Fleet, said: bytes) -> None:
    """The port of an owner that died may be another program's by now."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def answer() -> None:
            line, _ = stranger.accept()
            with line:
                line.recv(1000)
                line.sendall(said)

        def ask() -> None:
            address = f"127.0.0.1:{stranger.getsockname()[1]}#token"
            with pytest.raises(NotServed):
                RemoteView(address, 0, 2.0, connections=fleet.connections).head()

        together(answer, ask)


@pytest.mark.parametrize("address", ["", "host", "host:80", "host:#t", ":80#t", "host:x#t"])
def test_what_is_no_address_is_not_served(address: str) -> None:
    with pytest.raises(NotServed, match="is no address"):
        RemoteView(address, 0)


@pytest.mark.parametrize("address", ["no.such.host.invalid:80#t", "127.0.0.1:99999#t"])
def test_what_cannot_be_reached_is_not_served(fleet: Fleet, address: str) -> None:
    with pytest.raises(NotServed, match="cannot be reached"):
        RemoteView(address, 0, connections=fleet.connections).head()


# Many at once.


def test_many_threads_share_few_lines(fleet: Fleet) -> None:
    server = fleet.serve()
    remote = fleet.read(server)
    most = 0

    def ask() -> None:
        nonlocal most
        for _ in range(30):
            assert remote.head() == fleet.owner.head
            assert remote.record("Drone", "d-1") == record("d-1", "one 3", 3)
            assert list(remote.records("Tram")) == [record("t-1", "tram", agent="Tram")]
            with pytest.raises(NotServed):
                RemoteView(server.address, 7, connections=fleet.connections).head()
            most = max(most, len(server._open))

    together(*[ask] * 32)
    assert 1 <= most <= lines.LINES_MAX


def test_lines_to_owners_of_long_ago_are_dropped(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "ADDRESSES_MAX", 2)
    servers = [fleet.serve() for _ in range(3)]
    for server in servers:
        fleet.read(server).head()
    soon(lambda: [len(server._open) for server in servers] == [0, 1, 1])
    assert [fleet.read(server).head() for server in servers] == [fleet.owner.head] * 3


def test_a_child_that_was_forked_has_lines_of_its_own(fleet: Fleet) -> None:
    """On a common one each would hear what the other has asked for. They end with its engines."""
    server = fleet.serve()
    remote = RemoteView(server.address, 0)
    lines.SHARED.opened()
    try:
        remote.head()
        child = os.fork()
        if not child:
            try:
                lines.SHARED.opened()
                same = [remote.inbox_next() == 5 for _ in range(500)]
                lines.SHARED.closed()
                os._exit(0 if all(same) and not lines.SHARED._pools else 1)
            finally:
                os._exit(2)
        assert {remote.head() for _ in range(500)} == {fleet.owner.head}
        assert os.waitpid(child, 0)[1] == 0
    finally:
        lines.SHARED.closed()


@pytest.mark.parametrize(
    ("brokers", "host"),
    [
        ("localhost:9092", "127.0.0.1"),
        ("127.0.0.1:9092,127.0.0.2:9092", "127.0.0.1"),
        ("[::1]:9092", "127.0.0.1"),
        ("localhost:9092,kafka-1:9092", socket.gethostname()),
        ("kafka-1:9092", socket.gethostname()),
    ],
)
def test_the_usual_host(brokers: str, host: str) -> None:
    assert settings.usual_host(brokers) == host


def test_a_host_that_is_not_loopback_is_reached_from_everywhere(fleet: Fleet) -> None:
    server = fleet.serve(host="some.host")
    assert server.address.startswith("some.host:")
    here = server.address.replace("some.host", "127.0.0.1")
    assert RemoteView(here, 0, connections=fleet.connections).head() == fleet.owner.head
