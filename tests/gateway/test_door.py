"""Goal: only who may come in comes in, and only as far as its role goes: tokens, hosts, origins,
TLS 1.3 and certificates, all of which change while the gateway runs.
"""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import InUse, UsageError
from holdfast.gateway import serving
from holdfast.gateway.settings import Settings
from holdfast.gateway.tokens import lines_for
from holdfast.runtime.untyped import connect_untyped
from tests.cli.commands import eventually, holdfast_here
from tests.cli.commands import refused as refused_command
from tests.gateway.served import PATIENCE, Client, Served, refused, served, taken_away_once_seen
from tests.gateway.sse import Stream
from tests.gateway.websocket import Following
from tests.gateway.yard import fleet
from tests.servers.missing import missing

EVENT = {"agent": "Cart", "key": "k", "type": "Counted", "data": {"number": 1}}
ROLES = ("read", "send", "admin")


def token_lines(*roles: str) -> str:
    return "".join(lines_for(role, role, f"token-of-{role}") for role in roles)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(token_lines(*ROLES))
    with served(tmp_path, Settings(tokens=str(tokens))) as yard:
        yield yard, tokens


def client(yard: Served, role: str | None) -> Client:
    return Client(yard.port, None if role is None else f"token-of-{role}")


def test_what_each_role_may(guarded: tuple[Served, Path]) -> None:
    yard, _ = guarded
    reads = ["/agents/Cart", "/actions", "/changes", "/dead-letters", "/partitions", "/engine"]
    reads += ["/openapi.json", "/asyncapi.json"]
    for role in ROLES:
        for path in reads:
            assert client(yard, role).get(path).status == 200, (role, path)
    assert client(yard, "send").events(EVENT).status == 200
    yard.live.settle()
    before = yard.live.positions()
    posts = ["/events", "/ask", "/dead-letters/0.1/redrive", "/engine/0/append"]
    for path in posts:
        heard = client(yard, "read").post(path, EVENT)
        refused(heard, 403, "read may not do this: it takes the role")
    refused(client(yard, "send").post("/dead-letters/0.1/redrive", None), 403, "role admin")
    refused(client(yard, "admin").post("/dead-letters/0.1/redrive", None), 404, "no dead letter")
    assert yard.live.positions() == before


def test_without_a_token_or_with_a_wrong_one(guarded: tuple[Served, Path]) -> None:
    yard, _ = guarded
    for path in ("/", "/healthz", "/readyz"):
        assert client(yard, None).get(path).status == 200
    heard = client(yard, None).get("/agents/Cart")
    refused(heard, 401, "give a token")
    assert heard.headers["www-authenticate"] == "Bearer"
    for given, part in [
        ("Bearer x", "the token is not known here"),
        ("Bearer ", "the token is not known here"),
        ("Bearer \xff", "the token is not known here"),
        ("Basic dG9rZW4=", "Basic is not taken: send Authorization: Bearer TOKEN"),
        ("token-of-admin", "this scheme is not taken: send Authorization: Bearer TOKEN"),
    ]:
        refused(client(yard, None).get("/agents/Cart", authorization=given), 401, part)
    refused(client(yard, None).get("/nowhere"), 401, "give a token")  # nothing is told of paths
    with Following(yard.port, "/actions") as nobody:
        assert nobody.refused is not None
        assert nobody.refused[0] == 401
    with Following(yard.port, "/actions?after=now", "token-of-read") as somebody:
        assert somebody.accepted


def test_tokens_are_read_again(guarded: tuple[Served, Path]) -> None:
    """A file that is broken changes nothing; one that was taken out is refused, streams too."""
    yard, tokens = guarded
    stream = Stream(yard.port, "/actions?after=now", authorization="Bearer token-of-read")
    follower = Following(yard.port, "/actions?after=now", "token-of-read")
    staying = Following(yard.port, "/actions?after=now", "token-of-admin")
    tokens.write_text("[read\nrole = ")
    tokens.unlink()
    assert client(yard, "read").get("/agents/Cart").status == 200
    tokens.write_text(token_lines("send", "admin"))
    eventually(
        "the token is refused", lambda: client(yard, "read").get("/agents/Cart").status == 401
    )
    stream.until_end()
    assert follower.until_closed().code == 1008
    assert client(yard, "send").events(EVENT).status == 200
    assert [row["key"] for row in staying.rows(1)] == ["k"]
    tokens.write_text(token_lines("admin") + lines_for("send", "read", "token-of-send"))
    eventually("a role is lowered", lambda: client(yard, "send").events(EVENT).status == 403)
    for each in (stream, follower, staying):
        each.__exit__(None, None, None)


def test_names_of_this_machine_only(tmp_path: Path) -> None:
    with served(tmp_path) as yard:
        for host in ("localhost", "127.0.0.1:1", "[::1]:80", "127.9.9.9"):
            assert yard.client.get("/healthz", host=host).status == 200
        refused(yard.client.get("/healthz", host="evil.example"), 421, "is not this machine")
        own = f"http://127.0.0.1:{yard.port}"
        assert yard.client.get("/actions", origin=own).status == 200
        refused(yard.client.get("/actions", origin="http://evil.example"), 403, "must not use")
        simple = {"content-type": "text/plain", "origin": "http://evil.example"}
        refused(yard.client.ask("POST", "/events", b"{}", simple), 403, "must not use")


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (Settings(host="0.0.0.0"), "--tokens FILE"),
        (Settings(host="::"), "--tokens FILE"),
        (Settings(certificate="c.pem"), "give both or none"),
        (Settings(client_ca="ca.pem"), "give --tls-cert too"),
        (Settings(tokens="/nowhere/tokens.toml"), "no such file"),
    ],
)
def test_what_would_be_open_is_refused(settings: Settings, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        settings.check()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[a", "no file of tokens"),
        ("a = 1", "needs role and sha256"),
        ('[a]\nrole = "king"\nsha256 = "0"', "role 'king'"),
        ('[a]\nrole = "read"\nsha256 = "0"', "64 digits"),
        (lines_for("a", "read", "x") + lines_for("b", "read", "x"), "have the same token"),
        (lines_for("a", "read", "x") + "colour = 1\n", "nothing else"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_told(tmp_path: Path, text: str, part: str) -> None:
    from holdfast.gateway.tokens import read_tokens

    (tmp_path / "tokens.toml").write_text(text)
    with pytest.raises(UsageError, match=part):
        read_tokens(tmp_path / "tokens.toml")


def test_the_command_makes_tokens(tmp_path: Path) -> None:
    shown = holdfast_here("token", "gcs", "--role", "send", cwd=tmp_path).stdout
    assert shown.startswith("hf_")
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(token_lines("read").rstrip())  # an editor left the last line open
    made = holdfast_here("token", "gcs", "--role", "send", "--file", tokens, cwd=tmp_path)
    again = holdfast_here("token", "gcs", "--role", "send", "--file", tokens, cwd=tmp_path, code=2)
    refused_command(again, "has a token 'gcs' already")
    token = made.stdout.strip()
    assert token not in tokens.read_text()
    with served(tmp_path, Settings(tokens=str(tokens))) as yard:
        assert Client(yard.port, token).events(EVENT).status == 200
        assert client(yard, "read").get("/agents/Cart").status == 200


# ---------------------------------------------------------------- TLS


def made_certificate(folder: Path, name: str, ca: str | None = None) -> tuple[str, str]:
    """Of 127.0.0.1; its own authority, or of the one that is named."""
    openssl = shutil.which("openssl")
    if openssl is None:
        missing("openssl", "install the package openssl")
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    words = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    words += ["-keyout", key, "-out", certificate]
    if ca is not None:
        words += ["-CA", str(folder / f"{ca}.pem"), "-CAkey", str(folder / f"{ca}.key")]
        words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(words, check=True, capture_output=True)
    return certificate, key


def trusting(certificate: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


def test_tls_13_and_nothing_older(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path, "server")
    with served(tmp_path, Settings(certificate=certificate, key=key)) as yard:
        assert Client(yard.port, tls=trusting(certificate)).get("/healthz").status == 200
        older = trusting(certificate)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            Client(yard.port, tls=older).get("/healthz")
        assert not _answers(Client(yard.port))  # in the clear
        assert Client(yard.port, tls=trusting(certificate)).events(EVENT).status == 200


def test_certificates_of_clients(tmp_path: Path) -> None:
    made_certificate(tmp_path, "ca")
    certificate, key = made_certificate(tmp_path, "server", "ca")
    own = made_certificate(tmp_path, "drone", "ca")
    foreign = made_certificate(tmp_path, "stranger")
    ca = str(tmp_path / "ca.pem")
    with served(tmp_path, Settings(certificate=certificate, key=key, client_ca=ca)) as yard:
        known = trusting(ca)
        known.load_cert_chain(*own)
        assert Client(yard.port, tls=known).get("/healthz").status == 200
        stranger = trusting(ca)
        stranger.load_cert_chain(*foreign)
        for context in (trusting(ca), stranger):
            assert not _answers(Client(yard.port, tls=context))


def test_a_renewed_certificate_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CERTIFICATE_SECONDS", 0.1)
    certificate, key = made_certificate(tmp_path, "server")
    old = trusting(certificate)
    renewed, new_key = made_certificate(tmp_path, "renewed")
    with served(tmp_path, Settings(certificate=certificate, key=key)) as yard:
        assert Client(yard.port, tls=old).get("/healthz").status == 200
        os.replace(renewed, certificate)  # without its key: the pair that works is kept
        for _ in range(5):
            time.sleep(0.15)  # longer than between two looks at the files
            assert Client(yard.port, tls=old).get("/healthz").status == 200
        os.replace(new_key, key)
        fresh = trusting(certificate)
        eventually("the new one is used", lambda: _answers(Client(yard.port, tls=fresh)))


def _answers(client: Client) -> bool:
    try:
        return client.get("/healthz").status == 200
    except (OSError, http.client.HTTPException):  # the alert, or the line is closed
        return False


def test_a_certificate_that_is_being_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who removes the old one first and then puts the new one there ends no look at it."""
    certificate = tmp_path / "server.pem"
    certificate.write_text("old")
    taken_away_once_seen(monkeypatch, certificate)
    assert serving._stamps(str(certificate)) != [0]
    assert serving._stamps(str(certificate)) == [0]
    (tmp_path / "tls").write_text("what shall become a folder")
    assert serving._stamps(str(tmp_path / "tls" / "server.pem")) == [0]


def test_a_gateway_that_cannot_start_looks_for_no_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        async def start(self) -> None:
            raise InUse("taken")

        async def stop(self) -> None: ...

    monkeypatch.setattr(serving, "_beside", lambda *_: Refusing())
    certificate, key = made_certificate(tmp_path, "server")
    settings = Settings(certificate=certificate, key=key, port=0)
    url = f"sqlite:{tmp_path / 'data'}"
    fleet.open(url).close()
    with connect_untyped(url) as reader, serving.listen(settings) as listener:
        server = serving.make_server(reader, settings)
        (looking,) = [each for each in threading.enumerate() if each.name == "holdfast-tls"]
        with pytest.raises(InUse):
            server.run([listener])
        looking.join(PATIENCE if server.ended.is_set() else 0)
        assert not looking.is_alive()
