"""The door: who makes a call, by the token in its metadata, and for how long that holds."""

from __future__ import annotations

import time
from collections.abc import Iterable

from holdfast.gateway.carrying import HEADER
from holdfast.gateway.guarding import require, why_unknown
from holdfast.gateway.problems import Problem
from holdfast.gateway.tokens import ANYBODY_HERE, LOOK_SECONDS, Principal, Role, Tokens

_BEARER = "bearer "
Metadata = Iterable[tuple[str, str | bytes]]


class Door:
    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens

    def enter(self, metadata: Metadata, role: Role) -> Entry:
        told = dict(metadata)
        entry = Entry(self._tokens, str(told.get("authorization", "")), role)
        entry.trace = str(told.get(HEADER, ""))
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
        self.trace = ""  # of all that it sends, where events do not say their own

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
        detail = why_unknown(self._given, "metadata authorization")
        raise Problem(401, "Unauthorized", detail)
