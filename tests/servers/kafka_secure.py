"""Kafka as companies run it: TLS, users with passwords (SCRAM) or tokens (OAUTHBEARER), and rights.

Clients have two listeners, one for passwords and one for tokens; the listeners of brokers and
controllers stay open, and whoever comes there may do everything.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.servers.kafka import READY_SECONDS, KafkaCluster
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.missing import missing
from tests.servers.ports import free_ports

ADMIN = "admin"  # may do everything
_TOKENS = "org.apache.kafka.common.security.oauthbearer"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecureKafkaCluster(KafkaCluster):
    """Nobody but ADMIN may do anything until `allow` says so."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        folder: Path | None = None,
        advertised: Callable[[int, int], int] | None = None,
    ) -> None:
        super().__init__(brokers, folder=folder, advertised=advertised)
        ports = free_ports(brokers)
        self._token_ports = {
            each.number: port for each, port in zip(self.brokers, ports, strict=True)
        }
        self.token_bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._passwords = {ADMIN: secrets.token_hex(8)}
        self.certificate = self.folder / "certificate.pem"
        self._key = self.folder / "key.pem"

    def _format(self) -> None:
        make_certificate(self.certificate, self._key)
        super()._format()

    def _format_options(self) -> list[str]:
        user = f"SCRAM-SHA-512=[name={ADMIN},password={self._passwords[ADMIN]}]"
        return [*super()._format_options(), "--add-scram", user]

    def _settings_of(self, broker: KafkaBroker) -> dict[str, object]:
        plain = super()._settings_of(broker)
        tokens = f"TOKENS://127.0.0.1:{self._token_ports[broker.number]}"
        by_token = "listener.name.tokens.oauthbearer.sasl"
        return {
            **plain,
            "listeners": f"{plain['listeners']},{tokens}",
            "advertised.listeners": f"{plain['advertised.listeners']},{tokens}",
            "listener.security.protocol.map": "CLIENT:SASL_SSL,TOKENS:SASL_SSL,"
            "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._key,
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_LOGIN} required;",
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{by_token}.jaas.config": f"{_TOKENS}.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="broker";',
            f"{by_token}.server.callback.handler.class": f"{_TOKENS}.internals.unsecured"
            ".OAuthBearerUnsecuredValidatorCallbackHandler",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
        }

    def add_user(self, name: str) -> None:
        """Give it a password; again, another one."""
        self._passwords[name] = secrets.token_hex(8)
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        password = self._passwords[name].encode()
        admin = self.admin()
        wish = UserScramCredentialUpsertion(name, kind, password)
        admin.alter_user_scram_credentials([wish])[name].result(READY_SECONDS)

    def allow(
        self,
        user: str,
        prefix: str,
        *,
        kinds: Iterable[ResourceType] = (
            ResourceType.TOPIC,
            ResourceType.GROUP,
            ResourceType.TRANSACTIONAL_ID,
        ),
        operation: AclOperation = AclOperation.ALL,
    ) -> None:
        """Everything, unless told otherwise, with what has a name that starts with `prefix`."""
        rights = [
            AclBinding(
                kind,
                prefix,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind in kinds
        ]
        admin = self.admin()
        for done in admin.create_acls(rights).values():
            done.result(READY_SECONDS)

    def client_settings(self, user: str = ADMIN) -> dict[str, Any]:
        """For the clients of confluent_kafka, with the user's password."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def token_settings(self, user: str = ADMIN, *, seconds: float = 60.0) -> dict[str, Any]:
        """With a fresh token whenever the client asks for one, which is before the old one ends."""

        def fresh(_: str) -> tuple[str, float]:
            ends_at = time.time() + seconds
            return unsigned_token(user, ends_at), ends_at

        return {
            "bootstrap.servers": self.token_bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": fresh,
        }


def unsigned_token(user: str, ends_at: float) -> str:
    """A JSON web token without a signature, which the validator of these brokers believes."""
    claims = {"sub": user, "iat": time.time() - 1.0, "exp": ends_at}
    parts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
    return ".".join([base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts] + [""])


def make_certificate(certificate: Path, key: Path) -> None:
    """One that signs itself, so it is also the authority that clients trust.

    Kafka wants the key and the certificate in one file.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        missing("openssl", "install the package openssl")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=holdfast-tests"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    with key.open("ab") as file:
        file.write(certificate.read_bytes())
