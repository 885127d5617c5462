"""The door: who makes a call, by the token in its metadata, and for how long that holds."""

from __future__ import annotations

import time
from collections.abc import Iterable

from holdfast.gateway.guarding import require
from holdfast.gateway.problems import Problem
from holdfast.gateway.tokens import ANYBODY_HERE, LOOK_SECONDS, Principal, Role, Tokens

_BEARER = "bearer "
Metadata = Iterable[tuple[str, str | bytes]]


class Door:
    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens

    def enter(self, metadata: Metadata, role: Role) -> Entry:
        given = next((str(text) for name, text in metadata if name == "authorization"), "")
        entry = Entry(self._tokens, given, role)
        entry.check()
        return entry


class Entry:
    """Who came in. A stream asks again and again: a token that is taken away ends it."""

    def __init__(self, tokens: Tokens | None, given: str, role: Role) -> None:
        self._tokens = tokens
        self._given = given
        self._role = role
        self._looked = 0.0
        self.who = ""

    def check(self) -> None:
        """Looks no more often than the file of tokens is looked at."""
        now = time.monotonic()
        if not self.who or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self.who = require({"principal": self._principal()}, self._role).name

    def _principal(self) -> Principal:
        if self._tokens is None:
            return ANYBODY_HERE
        if self._given.lower().startswith(_BEARER):
            found = self._tokens.principal(self._given[len(_BEARER) :].strip())
            if found is not None:
                return found
        text = "the token is not known here" if self._given else "who is asking? give a token"
        detail = f"{text}: metadata authorization: Bearer TOKEN"
        raise Problem(401, "Unauthorized", detail)
