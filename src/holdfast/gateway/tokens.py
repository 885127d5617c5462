"""Who may come in: bearer tokens with roles, from a file that is read again when it changes.

    [gcs]
    role = "send"
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

Only the digest of a token is in the file, so whoever reads the file has no token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import UsageError
from holdfast.model.keys import is_key

LOOK_SECONDS = 1.0  # so old is what is known of the file at most
TOKENS_MAX = 10_000
_DIGEST = re.compile("[0-9a-f]{64}")
_log = logging.getLogger("holdfast.gateway")


class Role(IntEnum):
    """Each may what those before it may."""

    READ = 1
    SEND = 2
    ADMIN = 3


class Principal(NamedTuple):
    """Who makes a request."""

    name: str
    role: Role


ANYBODY_HERE = Principal("local", Role.ADMIN)  # on loopback without tokens


class Tokens:
    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """A file that cannot be read is refused now; one that is broken later changes nothing."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = self._seen()
        self._known = read_tokens(path)
        self._looked = clock()

    def principal(self, token: str) -> Principal | None:
        """Looks at every digest, whichever fits, so that time tells nothing."""
        digest = digest_of(token)
        found = None
        for known, principal in self._current().items():
            if hmac.compare_digest(known, digest):
                found = principal
        return found

    def still_has(self, token: str, principal: Principal) -> bool:
        """Of one that was let in: it knows the token, so time tells it nothing."""
        return self._current().get(digest_of(token)) == principal

    def _current(self) -> Mapping[str, Principal]:
        with self._lock:
            if self._clock() - self._looked >= LOOK_SECONDS:
                self._looked = self._clock()
                self._look()
            return self._known

    def _look(self) -> None:
        try:
            stamp = self._seen()
            if stamp != self._stamp:
                self._stamp = stamp
                self._known = read_tokens(self._path)
        except UsageError as error:
            _log.warning("tokens stay as they were: %s", error)

    def _seen(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from None
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_tokens(path: Path) -> dict[str, Principal]:
    """By digest."""
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is no file of tokens: {error}") from None
    if len(entries) > TOKENS_MAX:
        raise UsageError(f"{path} has {len(entries):,} tokens; {TOKENS_MAX:,} is the most")
    found: dict[str, Principal] = {}
    for name, entry in entries.items():
        digest, principal = _entry(path, name, entry)
        if digest in found:
            raise UsageError(f"{path}: {name} and {found[digest].name} have the same token")
        found[digest] = principal
    return found


def _entry(path: Path, name: str, entry: object) -> tuple[str, Principal]:
    roles = [role.name.lower() for role in Role]
    given = entry if isinstance(entry, dict) else {}
    if set(given) != {"role", "sha256"} or not is_key(name):
        raise UsageError(f"{path}: [{name}] needs role and sha256 and nothing else")
    role, digest = str(given["role"]), str(given["sha256"])
    if role not in roles:
        raise UsageError(f"{path}: [{name}] role {role!r}: give one of {', '.join(roles)}")
    if not _DIGEST.fullmatch(digest):
        raise UsageError(f"{path}: [{name}] sha256 has to be 64 digits of 0 to 9 and a to f")
    return digest, Principal(name, Role[role.upper()])


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_token() -> str:
    return f"hf_{secrets.token_urlsafe(32)}"


def lines_for(name: str, role: str, token: str) -> str:
    """What the file needs to know of a token."""
    if not is_key(name):
        raise UsageError(f"{name!r} cannot be the name of a token: use letters, digits, . _ : -")
    return f'[{name}]\nrole = "{role}"\nsha256 = "{digest_of(token)}"\n'
