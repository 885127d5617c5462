"""What an engine URL says: `kafka://[user:password@]host:port[,host:port…][/PREFIX][?name=value…]`.

Names with a dot are handed to the client library as they are: `?sasl.mechanism=SCRAM-SHA-512`.
Secrets are better kept in a file, `?config=PATH`, of `name=value` lines in the same words.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from holdfast.engine.port import Limits
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError  # an extra: who only reads a URL needs it not

PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
RECORD_BYTES_MAX = 72 * 1024 * 1024  # a frame has at most 64 MiB, and a few bytes around it
SESSION_SECONDS = 6.0  # the least that brokers allow unless told otherwise
# The longest a commit may be on its way. A dead owner's transaction hides what was sent behind it
# in the inboxes it wrote to until its successor has ended it, or for this long if there is none.
TRANSACTION_SECONDS = 10.0
BASE_SECONDS = 300.0
OURS = (
    *("cache", "config", "replication", "session_seconds", "standby", "instance", "base"),
    *("transaction_seconds", "base_seconds", "serve"),
)
# They would lead to other brokers than our messages name, break what we promise, or do nothing.
_NOT_THEIRS = (
    *("bootstrap.servers", "group.id", "group.instance.id", "transactional.id"),
    *("enable.idempotence", "acks", "request.required.acks", "message.max.bytes", "linger.ms"),
    *("message.timeout.ms", "delivery.timeout.ms", "transaction.timeout.ms"),
    *("isolation.level", "auto.offset.reset", "enable.auto.commit", "enable.partition.eof"),
    *("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"),
    *("max.poll.interval.ms", "allow.auto.create.topics"),
)

_TOKENS = {"sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt"}


@dataclass(frozen=True)
class KafkaSettings:
    bootstrap: str
    prefix: str | None  # None: that of the fleet, or of the only one there is
    limits: Limits = field(default_factory=Limits)
    replication: int | None = None  # None: three, or as many as there are brokers
    # For the client library, and with secrets in it: not for messages.
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None  # where mirrors are kept; None: where this user's caches are
    session_seconds: float = SESSION_SECONDS
    transaction_seconds: float = TRANSACTION_SECONDS
    standby: bool = False  # follow what others own, to take it over quickly
    instance: str | None = None  # the name of this worker in the group, the same after a restart
    base: str | None = None  # a store for base copies; None: a topic
    base_seconds: float = BASE_SECONDS
    serve: str | None = None  # the host under which owners answer readers; "no": they do not
    # What the clients of this process have complained of, and when. A call that fails says only
    # that nobody has answered; why not, the library tells here.
    complaints: deque[tuple[float, KafkaError]] = field(
        default_factory=lambda: deque(maxlen=64), compare=False, repr=False
    )

    @property
    def place(self) -> str:
        """For messages: without secrets."""
        return f"kafka://{self.bootstrap}{f'/{self.prefix}' if self.prefix else ''}"

    def named(self, prefix: str) -> KafkaSettings:
        return replace(self, prefix=prefix)

    @property
    def group(self) -> str:
        """Of the workers."""
        return f"{self.prefix}.workers"

    @property
    def folder(self) -> Path:
        """Of all mirrors of this fleet on this machine."""
        root = self.cache or _usual_cache()
        return root / f"{self.prefix}@{re.sub('[^A-Za-z0-9.-]', '_', self.bootstrap)}"

    @property
    def serving_host(self) -> str | None:
        """None where owners answer nobody: not beside encrypted brokers, unless it is asked for.

        What owners answer is not encrypted.
        """
        encrypted = self.client.get("security.protocol", "").upper() in ("SSL", "SASL_SSL")
        if self.serve == "no" or (encrypted and self.serve is None):
            return None
        return self.serve or usual_host(self.bootstrap)

    def common(self) -> dict[str, object]:
        """What producers, consumers and admins share."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "holdfast",
            "socket.keepalive.enable": True,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 500,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1_000,
            "allow.auto.create.topics": False,
            "error_cb": lambda error: self.complaints.append((time.monotonic(), error)),
            **self.client,
        }


def parse_kafka(url: str, limits: Limits) -> KafkaSettings:
    """`limits` are what the caller has found among the settings already."""
    rest = url.partition("://")[2]
    place, _, query = rest.partition("?")
    hosts, _, prefix = place.partition("/")
    if "@" in prefix:
        raise _not_encoded()
    client: dict[str, str] = {}
    credentials, at, hosts = hosts.rpartition("@")
    if at:
        user, colon, password = credentials.partition(":")
        if not colon:
            raise UsageError(f"kafka://{user}@…: give a password too, or a file with ?config=PATH")
        client |= {
            "sasl.username": unquote(user),
            "sasl.password": unquote(password),
            "sasl.mechanism": "SCRAM-SHA-512",
            "security.protocol": "SASL_SSL",
        }
    hosts = ",".join(_host(each) for each in hosts.split(","))
    if prefix and not PREFIX.fullmatch(prefix):
        raise UsageError(
            f"prefix {prefix!r}: give letters, digits, dots, dashes and underlines, at most 120"
        )
    given = dict(parse_qsl(query, keep_blank_values=True))
    if "config" in given:
        client |= _file(Path(given["config"]))
    client |= {name: value for name, value in given.items() if "." in name}
    if client.get("sasl.mechanism", "").upper() == "OAUTHBEARER" and not _TOKENS & client.keys():
        raise UsageError(
            "sasl.mechanism=OAUTHBEARER: say where tokens come from: sasl.oauthbearer.method=oidc "
            "with sasl.oauthbearer.token.endpoint.url, .client.id and .client.secret"
        )
    for name in _NOT_THEIRS:
        if name in client:
            raise UsageError(f"engine setting {name}: Holdfast sets it itself: leave it out")
    return KafkaSettings(
        hosts,
        prefix or None,
        limits,
        replication=_whole(given, "replication"),
        client=client,
        cache=Path(given["cache"]) if given.get("cache") else _cache_from_environment(),
        session_seconds=_seconds(given, "session_seconds", SESSION_SECONDS),
        transaction_seconds=_seconds(given, "transaction_seconds", TRANSACTION_SECONDS),
        standby=_yes(given, "standby"),
        instance=given.get("instance") or None,
        base=given.get("base") or None,
        serve=given.get("serve") or None,
        base_seconds=_seconds(given, "base_seconds", BASE_SECONDS),
    )


def usual_host(brokers: str) -> str:
    """The name under which others find this process, if nobody says otherwise.

    Where all brokers (`host:port,host:port`) are on this machine, its readers are too.
    """
    hosts = [each.rpartition(":")[0].strip("[]") for each in brokers.split(",")]
    return "127.0.0.1" if all(map(is_loopback, hosts)) else socket.gethostname()


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def is_ours(name: str) -> bool:
    """Whether a setting of a URL is read here."""
    if "@" in name:
        raise _not_encoded()
    return "." in name or name in OURS


def _not_encoded() -> UsageError:
    """Without a word of the URL: a part of the password could be in it."""
    return UsageError(
        "kafka://user:password@…: write / ? # and @ in a password as %2F %3F %23 and %40, or keep "
        "it in a file, ?config=PATH"
    )


def _cache_from_environment() -> Path | None:
    place = os.environ.get("HOLDFAST_CACHE")
    return Path(place) if place else None


def _usual_cache() -> Path:
    place = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if place.startswith("~"):  # nobody's home
        return Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}"
    return Path(place) / "holdfast"


def _host(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "9092"
    if not host or not port.isdigit():
        raise UsageError(f"{text!r} is no broker: write kafka://host:port, with commas between")
    return f"{host}:{port}"


def _file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"config {path}: cannot be read ({error}): name a file") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise UsageError(f"config {path}:{number}: write name=value")
            found[name.strip()] = value.strip()
    return found


def _whole(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isdigit() or not int(text):
        raise UsageError(f"engine setting {name}={text!r}: give a whole number from 1 on")
    return int(text)


def _yes(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "no")
    if text not in ("yes", "no"):
        raise UsageError(f"engine setting {name}={text!r}: write yes or no")
    return text == "yes"


def _seconds(given: Mapping[str, str], name: str, usual: float) -> float:
    text = given.get(name)
    try:
        value = usual if text is None else float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:  # nor is nan
        raise UsageError(f"engine setting {name}={text!r}: give seconds, from 0 to a million")
    return value
