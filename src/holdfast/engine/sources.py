"""Sources that an inbox knows: named ones and anonymous ones, each kind with a bound of its own.

A named source is never forgotten, and past the bound a new one is refused. An anonymous one, whose
name starts with "~", stands for a handle that was given no source, or for one request with a key
of its own. Nobody resends under it after ANONYMOUS_SECONDS: from then on it may be forgotten, the
oldest first, where the bound leaves no room for another. After FORGOTTEN_SECONDS it is unknown:
whether its rows are still there makes no difference, and all copies of a partition decide the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from holdfast.engine.port import Limits
from holdfast.errors import TooManySources

ANONYMOUS_SECONDS = 600.0
# The stamp of a source in use is renewed this late only: most appends leave it where it is.
RENEWED_SECONDS = ANONYMOUS_SECONDS / 10
IDLE_SECONDS = ANONYMOUS_SECONDS + RENEWED_SECONDS
# A day more: clocks may jump forward an hour at a time, and more than once before a resend.
FORGOTTEN_SECONDS = IDLE_SECONDS + 24 * 3600.0
# So many forgotten ones go when one comes: what a flood left behind goes faster than it came.
FORGOTTEN_AT_ONCE = 8


class SourceRow(NamedTuple):
    top: int
    stamp: float


class Sources(Protocol):
    """The rows of sources, read and written in the transaction that appends."""

    def source(self, name: str) -> SourceRow | None: ...
    def put_source(self, name: str, row: SourceRow, before: SourceRow | None) -> None:
        """`before` is the row that is there: without one the source is counted as a new one."""

    def source_count(self, *, anonymous: bool) -> int: ...
    def oldest_anonymous(self, most: int) -> list[tuple[float, str]]:
        """Their stamps and names."""

    def forget_source(self, name: str, stamp: float) -> None:
        """With all that is known of it; the stamp is that of its row."""


class SourceCount(NamedTuple):
    named: int
    anonymous: int

    @classmethod
    def of(cls, names: Iterable[str]) -> SourceCount:
        kinds = [is_anonymous(name) for name in names]
        return cls(kinds.count(False), kinds.count(True))


def is_anonymous(name: str) -> bool:
    return name.startswith("~")


def is_forgotten(name: str, used: float, stamp: float) -> bool:
    """Whether a source is unknown now that was used then."""
    return is_anonymous(name) and used < stamp - FORGOTTEN_SECONDS


def renewed(before: SourceRow | None, top: int, stamp: float) -> SourceRow:
    fresh = before is not None and stamp <= before.stamp + RENEWED_SECONDS
    return SourceRow(top, before.stamp if before is not None and fresh else stamp)


def known(ledger: Sources, name: str, stamp: float) -> SourceRow | None:
    row = ledger.source(name)
    if row is not None and is_forgotten(name, row.stamp, stamp):
        ledger.forget_source(name, row.stamp)
        return None
    return row


def sweep(ledger: Sources, stamp: float, most: int) -> None:
    """Remove what is left of forgotten ones."""
    for used, name in ledger.oldest_anonymous(most):
        if not is_forgotten(name, used, stamp):
            return
        ledger.forget_source(name, used)


def _forget_one_idle(ledger: Sources, stamp: float) -> None:
    """One, for the one that comes: which is forgotten must not depend on what was swept when."""
    for used, name in ledger.oldest_anonymous(1):
        if used < stamp - IDLE_SECONDS:
            ledger.forget_source(name, used)


def make_room(ledger: Sources, name: str, stamp: float, limits: Limits) -> None:
    """For a source that is not known. Bounded work, however many are."""
    if not is_anonymous(name):
        if ledger.source_count(anonymous=False) >= limits.sources_max:
            raise TooManySources(
                f"{limits.sources_max:,} named sources have sent here, the bound (none is "
                "forgotten): reuse source names, or raise sources_max in the engine URL"
            )
        return
    sweep(ledger, stamp, FORGOTTEN_AT_ONCE)
    if ledger.source_count(anonymous=True) < limits.anonymous_sources_max:
        return
    _forget_one_idle(ledger, stamp)
    if ledger.source_count(anonymous=True) >= limits.anonymous_sources_max:
        raise TooManySources(
            f"{limits.anonymous_sources_max:,} requests and handles without a source have sent "
            "here within 11 minutes, the bound: send later, give a source and numbers instead of "
            "a key per request, or raise anonymous_sources_max in the engine URL"
        )
