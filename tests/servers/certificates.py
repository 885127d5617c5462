"""A certificate authority for tests, made with the `openssl` program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.servers.missing import missing

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")  # made at once, unlike RSA


class Pair(NamedTuple):
    certificate: Path
    key: Path


class Certificates:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.ca, self._ca_key = folder / "ca.pem", folder / "ca.key"
        _openssl(
            *("req", "-x509", "-nodes", "-days", "2", *_KEY),
            *("-subj", f"/CN=ca-{folder.name}", "-keyout", self._ca_key, "-out", self.ca),
        )

    def issue(self, name: str) -> Pair:
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, more = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        more.write_text(f"subjectAltName = DNS:{name}\n", "utf-8")
        _openssl(
            *("req", "-nodes", *_KEY, "-subj", f"/CN={name}"),
            *("-keyout", made.key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._ca_key),
            *("-CAcreateserial", "-days", "2", "-extfile", more, "-out", made.certificate),
        )
        return made


def _openssl(*words: str | Path) -> None:
    found = shutil.which("openssl")
    if found is None:
        missing("openssl", "install the package openssl")
    subprocess.run([found, *words], check=True, capture_output=True, timeout=60)
