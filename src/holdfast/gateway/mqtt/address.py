"""What an MQTT URL says: `mqtt://[user@]host[:port][?name=value…]`, `mqtts://` with TLS.

No password is taken from it: lists of processes are public. It is in a file, or in the variable
HOLDFAST_MQTT_PASSWORD.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.errors import UsageError

PASSWORD = "HOLDFAST_MQTT_PASSWORD"
SETTINGS = (
    *("version", "client_id", "keepalive", "session_seconds", "receive_max"),
    *("password_file", "ca", "cert", "key"),
)
RECEIVE_MAX = 32_768  # messages that the broker sends without an acknowledgement
SESSION_SECONDS = 7 * 24 * 3600  # so long the broker keeps what comes for a bridge that is gone
KEEPALIVE_SECONDS = 30
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Broker:
    host: str
    port: int
    tls: bool = False
    version_5: bool = True
    client_id: str | None = None  # None: after the fleet
    keepalive: int = KEEPALIVE_SECONDS
    session_seconds: int = SESSION_SECONDS
    receive_max: int = RECEIVE_MAX
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def place(self) -> str:
        """For messages: without secrets."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{shown}:{self.port}"

    def named(self, fleet: str) -> str:
        """The client id, the same at every start: by it the broker knows the bridge again."""
        return self.client_id or f"holdfast-{re.sub('[^A-Za-z0-9._-]', '_', fleet)}"[:64]

    def tls_context(self) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.cert:
                context.load_cert_chain(self.cert, self.key or None)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(each for each in (self.ca, self.cert, self.key) if each)
            raise UsageError(
                f"{self.place}: the certificates {files} cannot be used: {error}"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def parse_broker(url: str) -> Broker:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        _refuse("its host or port cannot be read")
    if parts.scheme not in ("mqtt", "mqtts"):
        _refuse(f"the scheme {parts.scheme!r} is none of MQTT")
    if parts.password is not None:
        _refuse(f"keep the password in a file, ?password_file=PATH, or in the variable {PASSWORD}")
    if not parts.hostname:
        _refuse("it names no host")
    if parts.path.strip("/") or parts.fragment:
        _refuse(f"leave {(parts.path or parts.fragment)!r} out: topics are said in the table")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in given:
        if name not in SETTINGS:
            _refuse(f"unknown setting {name!r}: known are {', '.join(SETTINGS)}")
    tls = parts.scheme == "mqtts"
    files = {name: given.get(name, "") for name in ("ca", "cert", "key")}
    if not tls and any(files.values()):
        _refuse("certificates are for mqtts://")
    if given.get("version", "5") not in ("5", "3.1.1"):
        _refuse(f"version={given['version']!r}: 5 or 3.1.1")
    client_id = given.get("client_id")
    if client_id is not None and not _CLIENT_ID.fullmatch(client_id):
        _refuse(f"client_id={client_id!r}: give 1 to 64 letters, digits, dots, dashes, underlines")
    user = unquote(parts.username or "")
    return Broker(
        parts.hostname,
        port or (8883 if tls else 1883),
        tls,
        given.get("version", "5") == "5",
        client_id,
        _whole(given, "keepalive", KEEPALIVE_SECONDS, 5, 65_535),
        _whole(given, "session_seconds", SESSION_SECONDS, 1, 2**32 - 1),
        _whole(given, "receive_max", RECEIVE_MAX, 1, 65_535),
        user,
        _password(user, given.get("password_file")),
        **files,
    )


def _password(user: str, file: str | None) -> str:
    if file is None:
        return os.environ.get(PASSWORD, "") if user else ""
    if not user:
        _refuse("a password without a user: write mqtt://USER@host")
    try:
        return Path(file).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no text"
        _refuse(f"password_file={file}: {what}")


def _whole(given: dict[str, str], name: str, usual: int, least: int, most: int) -> int:
    text = given.get(name, str(usual))
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        _refuse(f"{name}={text!r}: give a whole number from {least} to {most}")
    return int(text)


def _refuse(why: str) -> NoReturn:
    """Without the URL: somebody may have written a password into it."""
    raise UsageError(f"the MQTT URL: {why}; write mqtt://host:1883 or mqtts://USER@host:8883")
