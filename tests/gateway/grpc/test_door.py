"""Goal: over gRPC comes in only who may, and hostile input costs its sender, not the gateway."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.service import SERVICE, FleetStub
from holdfast.gateway.settings import Bounds, Settings
from holdfast.gateway.tokens import lines_for
from tests.cli.commands import holdfast
from tests.cli.commands import refused as told_once
from tests.gateway.grpc.dialled import (
    SECONDS,
    Dialled,
    bounded,
    channel_to,
    counted,
    dialled,
    event,
    refused,
)
from tests.gateway.grpc.processes import Folder, gateway_process
from tests.gateway.yard import Cart, fleet
from tests.servers.missing import missing

ROLES = ("read", "send", "admin")
NEEDED = {"Send": "send", "SendStream": "send", "Ask": "send", "Redrive": "admin"}


def token_file(place: Path, *roles: str) -> str:
    place.write_text("".join(lines_for(role, role, f"secret-{role}") for role in roles))
    return str(place)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialled]:
    folder = tmp_path_factory.mktemp("guarded")
    with dialled(folder, Settings(tokens=token_file(folder / "tokens", *ROLES))) as found:
        yield found


def call(yard: Dialled, name: str, token: str | None) -> grpc.StatusCode:
    """How a call of this verb with nothing in it ends."""
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    method = SERVICE.methods_by_name[name]
    asked = getattr(pb, method.input_type.name)()
    verb = getattr(yard.stub, name)
    try:
        if method.client_streaming:
            list(verb(iter([]), metadata=metadata, timeout=SECONDS))
        elif method.server_streaming:
            next(verb(asked, metadata=metadata, timeout=SECONDS))
        else:
            verb(asked, metadata=metadata, timeout=SECONDS)
    except grpc.RpcError as error:
        found: grpc.StatusCode = error.code()
        return found
    return grpc.StatusCode.OK


@pytest.mark.parametrize("name", [method.name for method in SERVICE.methods])
def test_every_verb_asks_for_its_role(guarded: Dialled, name: str) -> None:
    guarded.stub.Send(
        pb.SendRequest(events=[event("any", number=1)]),
        metadata=[("authorization", "Bearer secret-send")],
        timeout=SECONDS,
    )
    assert call(guarded, name, None) is grpc.StatusCode.UNAUTHENTICATED
    assert call(guarded, name, "secret-nobody") is grpc.StatusCode.UNAUTHENTICATED
    for role in ROLES:
        found = call(guarded, name, f"secret-{role}")
        if ROLES.index(role) < ROLES.index(NEEDED.get(name, "read")):
            assert found is grpc.StatusCode.PERMISSION_DENIED
        else:
            assert found not in (
                grpc.StatusCode.PERMISSION_DENIED,
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.INTERNAL,
                grpc.StatusCode.UNKNOWN,
            )


def test_refusals_say_what_to_do(guarded: Dialled) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "metadata authorization: Bearer TOKEN"):
        guarded.stub.GetPositions(pb.GetPositionsRequest(), timeout=SECONDS)
    reader = [("authorization", "Bearer secret-read")]
    with refused(grpc.StatusCode.PERMISSION_DENIED, "it takes the role send"):
        guarded.stub.Send(pb.SendRequest(), metadata=reader, timeout=SECONDS)


def test_a_token_that_is_taken_away_ends_its_streams(tmp_path: Path) -> None:
    tokens = token_file(tmp_path / "tokens", "send")
    sender = [("authorization", "Bearer secret-send")]
    numbers = iter(range(1, 10_000))

    def messages() -> Iterator[pb.SendRequest]:
        for number in numbers:
            time.sleep(0.05)
            yield pb.SendRequest(number=number, events=[counted("short", number)])

    with dialled(tmp_path, Settings(tokens=tokens)) as yard:
        acknowledgements = yard.stub.SendStream(messages(), metadata=sender, timeout=60)
        next(acknowledgements)
        token_file(tmp_path / "tokens", "read")
        with refused(grpc.StatusCode.UNAUTHENTICATED, "the token is not known here"):
            for _ in acknowledgements:
                pass


def test_a_message_past_the_bound_is_refused(tmp_path: Path) -> None:
    settings = Settings(bounds=Bounds(body_bytes_max=100_000, events_per_request_max=10))
    with dialled(tmp_path, settings) as yard:
        large = pb.SendRequest(events=[event("a", "Moved", x=1, y=1, note="x" * 120_000)])
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"):
            yard.stub.Send(large, timeout=SECONDS)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"):
            packed = grpc.Compression.Gzip  # small on the line
            yard.stub.Send(large, timeout=SECONDS, compression=packed)
        many = pb.SendRequest(events=[event("a", number=n) for n in range(11)])
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "11 events in one request"):
            yard.stub.Send(many, timeout=SECONDS)
        assert yard.live.state(Cart, "a") is None


def test_streams_past_the_bound_are_refused(tmp_path: Path) -> None:
    with dialled(tmp_path, bounded(send_streams_max=1, streams_max=1)) as yard:
        first = pb.SendRequest(number=1, events=[counted("a", 1)])
        release = threading.Event()

        def messages() -> Iterator[pb.SendRequest]:
            yield first
            release.wait(SECONDS)

        one = yard.stub.SendStream(messages(), timeout=SECONDS)
        next(one)
        with refused(grpc.StatusCode.UNAVAILABLE, "the bound") as problem:
            next(yard.stub.SendStream(iter([]), timeout=SECONDS))
        assert problem["pushback"] == "10000"
        release.set()
        assert list(one) == []
        follower = yard.stub.FollowActions(pb.FollowRequest(), timeout=SECONDS)
        yard.stub.Send(pb.SendRequest(events=[event("a", number=1)]), timeout=SECONDS)
        next(follower)
        with refused(grpc.StatusCode.UNAVAILABLE, "the bound"):
            next(yard.stub.FollowChanges(pb.FollowRequest(), timeout=SECONDS))
        follower.cancel()


def test_garbage_gets_an_answer_or_nothing_and_others_go_on(yard: Dialled) -> None:
    for rubbish in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff",
    ):
        with socket.create_connection(("127.0.0.1", yard.port), timeout=SECONDS) as line:
            line.sendall(rubbish)
            line.shutdown(socket.SHUT_WR)
            while line.recv(4096):
                pass
    with channel_to(yard.port) as channel:
        send = channel.unary_unary(f"/{SERVICE.full_name}/Send")
        for rubbish in (b"\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x04\x0a\x02\xff\xfe"):
            with pytest.raises(grpc.RpcError):
                send(rubbish, timeout=SECONDS)
        with refused(grpc.StatusCode.UNIMPLEMENTED, ""):
            channel.unary_unary(f"/{SERVICE.full_name}/Fly")(b"", timeout=SECONDS)
    bad = pb.Event(agent="Cart", key="a", event=pb.Values(type="Counted", json=b"[1"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "no JSON object"):
        yard.stub.Send(pb.SendRequest(events=[bad]), timeout=SECONDS)
    bad = pb.Event(agent="Cart", key="a", event=pb.Values(type="Counted", msgpack=b"\xc1"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "no msgpack map"):
        yard.stub.Send(pb.SendRequest(events=[bad]), timeout=SECONDS)
    ours = event("a", number=1, source="~once-1", seq=1)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "names that start with ~ are ours"):
        yard.stub.Send(pb.SendRequest(events=[ours]), timeout=SECONDS)
    yard.stub.GetPositions(pb.GetPositionsRequest(), timeout=SECONDS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    openssl = shutil.which("openssl")
    if openssl is None:
        missing("openssl", "install the package openssl")
    return Folder(tmp_path_factory.mktemp("certificates"), openssl)


def test_tls_is_1_3_with_certificates_of_clients_and_is_renewed(
    tmp_path: Path, files: Folder
) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url).close()
    tls = ("--tls-cert", files.path("server"), "--tls-key", files.path("server.key"))
    with gateway_process(url, *tls, "--client-ca", files.path("ca"), "--grpc-port", "0") as gateway:
        positions = pb.GetPositionsRequest()
        with files.channel(gateway.port) as channel:
            call = FleetStub(channel).GetPositions
            assert call(positions, timeout=SECONDS, wait_for_ready=True).partitions
        for refuse in (files.channel(gateway.port, as_client=False), dial_plainly(gateway.port)):
            with refuse as channel, refused(grpc.StatusCode.UNAVAILABLE, ""):
                FleetStub(channel).GetPositions(positions, timeout=SECONDS)
        assert version_of(files, gateway.port, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
        with pytest.raises(OSError):  # noqa: PT011
            version_of(files, gateway.port, ssl.TLSVersion.TLSv1_2)
        before = certificate_of(files, gateway.port)
        files.issue("server", "subjectAltName=IP:127.0.0.1")
        assert certificate_of(files, gateway.port) != before
        gateway.stop()


def dial_plainly(port: int) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{port}")


def connected(files: Folder, port: int, version: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=files.path("ca"))
    context.load_cert_chain(files.path("client"), files.path("client.key"))
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    line = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    try:
        return context.wrap_socket(line, server_hostname="127.0.0.1")
    except BaseException:
        line.close()
        raise


def version_of(files: Folder, port: int, version: ssl.TLSVersion) -> str | None:
    with connected(files, port, version) as line:
        return line.version()


def certificate_of(files: Folder, port: int) -> bytes | None:
    with connected(files, port, ssl.TLSVersion.TLSv1_3) as line:
        return line.getpeercert(binary_form=True)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url).close()
    with gateway_process(url, "--grpc-port", "0") as gateway:
        words = ("gateway", "--engine", url, "--grpc-port", str(gateway.port))
        told_once(holdfast(*words, "--port", "0", cwd=tmp_path, code=3), "give another --grpc-port")
