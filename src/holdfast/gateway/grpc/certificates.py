"""Certificates of the gRPC server: of clients too, and renewed ones; `ciphers` has the rest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import grpc

from holdfast.gateway.serving import tls_context
from holdfast.gateway.settings import Settings

_log = logging.getLogger("holdfast.gateway")


def credentials(settings: Settings) -> Any:
    """None without TLS."""
    if settings.certificate is None or settings.key is None:
        return None
    files = Files(settings.certificate, settings.key, settings.client_ca)
    return grpc.dynamic_ssl_server_credentials(
        files.read(), files.renewed, require_client_authentication=settings.client_ca is not None
    )


class Files:
    def __init__(self, certificate: str, key: str, client_ca: str | None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._read = b""

    def read(self) -> Any:
        """Refused in one line if they do not fit each other."""
        tls_context(self._certificate, self._key, self._client_ca)
        certificate, key = Path(self._certificate).read_bytes(), Path(self._key).read_bytes()
        self._read = certificate + key
        ca = None if self._client_ca is None else Path(self._client_ca).read_bytes()
        return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)

    def renewed(self) -> Any:
        """Asked at every handshake; None: as they were."""
        try:
            now = Path(self._certificate).read_bytes() + Path(self._key).read_bytes()
            return None if now == self._read else self.read()
        except Exception as error:
            _log.warning("the certificate stays as it was: %s", error)
            return None
