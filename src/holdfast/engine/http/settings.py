"""The URL of a gateway: `https://host:port?token_file=…&ca=…&cert=…&key=…`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from holdfast.errors import UsageError

if TYPE_CHECKING:
    import ssl

TOKEN = "HOLDFAST_TOKEN"
OURS = ("token_file", "ca", "cert", "key")


class HttpSettings(NamedTuple):
    host: str
    port: int
    secure: bool
    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @property
    def place(self) -> str:
        """For messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}"

    def token(self) -> str:
        """Read at every use: it may have been renewed."""
        if self.token_file is None:
            return os.environ.get(TOKEN, "")
        try:
            return Path(self.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise UsageError(f"token_file {self.token_file}: {error}") from None

    def context(self) -> ssl.SSLContext | None:
        if not self.secure:
            return None
        import ssl  # most commands need none of it

        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(filter(None, (self.ca, self.cert, self.key)))
            raise UsageError(f"TLS files {names} do not work: {error}") from None
        return context


def parse_http(url: str) -> HttpSettings:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    secure = parts.scheme == "https"
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{parts.scheme}: no secrets in a URL: set {TOKEN}, or give ?token_file=")
    if not host or parts.path not in ("", "/") or parts.fragment:
        raise UsageError(f"{url!r} is no address of a gateway: write {parts.scheme}://host:port")
    given: dict[str, str] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in OURS or not text:
            raise UsageError(f"setting {name}={text!r} of a gateway: known are {', '.join(OURS)}")
        given[name] = text
    if not secure and given.keys() & {"ca", "cert", "key"}:
        raise UsageError("ca, cert and key are for https: write https://host:port")
    return HttpSettings(host, port or (443 if secure else 80), secure, **given)
