"""TIME and POSITION as people write them on the command line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import NamedTuple

from holdfast.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_AGO = re.compile(r"-?\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)(\s+ago)?")
_POSITION = re.compile(r"(?:(\d+):)?(\d+)")
_SECONDS = re.compile(r"\d+(\.\d+)?")
# A bare number below it is a position, above it seconds since 1970 (that is the year 2001).
SECONDS_SINCE_1970 = 1_000_000_000


class Place(NamedTuple):
    """A position in the inbox of a partition; None: of the only one there is."""

    partition: int | None
    position: int


def parse_time(text: str, now: float | None = None) -> float:
    """Seconds since 1970, from ISO 8601 (UTC if it names no zone), seconds, "-2h" or "2h ago"."""
    text = text.strip()
    ago = _AGO.fullmatch(text)
    if ago is not None and (text.startswith("-") or ago[3]):
        return (time.time() if now is None else now) - float(ago[1]) * _UNITS[ago[2]]
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time: write 2026-11-16T03:00:00Z, seconds since 1970, or -2h"
        ) from None


def parse_place(text: str) -> Place | float:
    """A position ("PARTITION:NUMBER" or a number), or else a time."""
    found = _POSITION.fullmatch(text.strip())
    if found is not None and (found[1] is not None or int(found[2]) < SECONDS_SINCE_1970):
        return Place(None if found[1] is None else int(found[1]), int(found[2]))
    return parse_time(text)
