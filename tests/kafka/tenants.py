"""Users of a secured cluster: the rights that a fleet needs, the URLs they open it with."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from confluent_kafka.admin import AclOperation, ResourceType

from tests.servers.kafka_secure import SecureKafkaCluster, unsigned_token


class Right(NamedTuple):
    kind: ResourceType
    operation: AclOperation

    def __str__(self) -> str:
        kinds = {"TOPIC": "topics", "GROUP": "groups", "TRANSACTIONAL_ID": "transactional ids"}
        return f"{self.operation.name} on {kinds[self.kind.name]}"


# All that a fleet needs, on what has a name that begins with its prefix. DESCRIBE is in READ, in
# WRITE and in DELETE; IDEMPOTENT_WRITE on the cluster is not needed since Kafka 2.8.
RIGHTS = (
    Right(ResourceType.TOPIC, AclOperation.READ),
    Right(ResourceType.TOPIC, AclOperation.WRITE),
    Right(ResourceType.TOPIC, AclOperation.CREATE),
    Right(ResourceType.TOPIC, AclOperation.DELETE),  # of old records
    Right(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS),
    Right(ResourceType.GROUP, AclOperation.READ),
    Right(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
)


def add_tenant(
    cluster: SecureKafkaCluster, name: str, rights: Sequence[Right] = RIGHTS, password: bool = True
) -> None:
    """With the same word for its name and its prefix."""
    if password:
        cluster.add_user(name)
    for right in rights:
        cluster.allow(name, f"{name}.", kinds=[right.kind], operation=right.operation)


def password_of(cluster: SecureKafkaCluster, user: str) -> str:
    return str(cluster.client_settings(user)["sasl.password"])


def url_of(
    cluster: SecureKafkaCluster,
    user: str,
    cache: Path,
    *,
    prefix: str | None = None,
    password: str | None = None,
) -> str:
    secret = quote(password or password_of(cluster, user), safe="")
    return (
        f"kafka://{user}:{secret}@{cluster.bootstrap}/{prefix or user}"
        f"?ssl.ca.location={cluster.certificate}&cache={cache}"
    )


def url_with_file(cluster: SecureKafkaCluster, user: str, folder: Path) -> str:
    """The URL that one may show: who we are stands in a file."""
    file = folder / f"{user}.properties"
    settings = {k: v for k, v in cluster.client_settings(user).items() if k != "bootstrap.servers"}
    file.write_text("# who we are\n" + "".join(f"{k} = {v}\n" for k, v in settings.items()))
    return f"kafka://{cluster.bootstrap}/{user}?config={file}&cache={folder / 'cache'}"


def token_url(cluster: SecureKafkaCluster, prefix: str, cache: Path, **settings: str) -> str:
    words = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(cluster.certificate),
        "cache": str(cache),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in words.items())
    return f"kafka://{cluster.token_bootstrap}/{prefix}?{query}"


class TokenService:
    """OIDC as far as clients need it: whoever knows the secret gets tokens for the user it names.

    With tokens of a few seconds a test sees them renewed.
    """

    SECRET = "the-client-secret"

    def __init__(self, seconds: float = 8.0) -> None:
        self.given = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                user, secret = _basic(self.headers["Authorization"])
                right = secret == TokenService.SECRET
                service.given += right
                token = unsigned_token(user, time.time() + seconds)
                answer = {"access_token": token, "expires_in": seconds, "token_type": "Bearer"}
                body = json.dumps(answer if right else {"error": "invalid_client"}).encode()
                self.send_response(200 if right else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/token"

    @contextmanager
    def running(self) -> Iterator[TokenService]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def url(self, cluster: SecureKafkaCluster, user: str, prefix: str, cache: Path) -> str:
        return token_url(
            cluster,
            prefix,
            cache,
            sasl_oauthbearer_method="oidc",
            sasl_oauthbearer_client_id=user,
            sasl_oauthbearer_client_secret=self.SECRET,
            sasl_oauthbearer_token_endpoint_url=self.address,
        )


def _basic(header: str) -> tuple[str, str]:
    user, _, secret = base64.b64decode(header.split()[1]).decode().partition(":")
    return user, secret
