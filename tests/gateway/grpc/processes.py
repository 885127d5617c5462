"""`holdfast gateway` as a process of its own, on a port that is known."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from tests.cli.commands import SCRIPT


class GatewayProcess:
    def __init__(self, url: str, *options: str) -> None:
        command = [str(SCRIPT), "gateway", "--engine", url, *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        self.line = self._process.stdout.readline()
        if "gRPC at" not in self.line:
            out, _ = self._process.communicate(timeout=120)
            raise AssertionError(self.line + out)
        self.port = int(self.line.rpartition(":")[2])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=120)

    def stop(self) -> str:
        """What it has printed since."""
        self._process.terminate()
        out, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, out
        return out


@contextmanager
def gateway_process(url: str, *options: str) -> Iterator[GatewayProcess]:
    process = GatewayProcess(url, "--port", "0", *options)
    try:
        yield process
    finally:
        process.kill()


class Folder:
    """A private CA, a server's certificate and a client's, made by openssl."""

    def __init__(self, place: Path, openssl: str) -> None:
        self.place = place
        self._openssl = openssl
        self._made("req", "-x509", "-nodes", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca")
        self.issue("server", "subjectAltName=IP:127.0.0.1")
        self.issue("client", "extendedKeyUsage=clientAuth")

    def issue(self, name: str, extension: str) -> None:
        key = (
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            f"{name}.key",
        )
        self._made("req", *key, "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (self.place / "extensions").write_text(extension)
        signer = ("-CA", "ca", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
        self._made("x509", "-req", "-in", f"{name}.csr", *signer, "-days", "2", "-out", name)

    def _made(self, *words: str) -> None:
        subprocess.run([self._openssl, *words], cwd=self.place, check=True, capture_output=True)

    def path(self, name: str) -> str:
        return os.fspath(self.place / name)

    def channel(self, port: int, as_client: bool = True) -> grpc.Channel:
        def read(name: str) -> bytes:
            return (self.place / name).read_bytes()

        own = (read("client.key"), read("client")) if as_client else (None, None)
        secrets = grpc.ssl_channel_credentials(read("ca"), *own)
        return grpc.secure_channel(f"127.0.0.1:{port}", secrets)
