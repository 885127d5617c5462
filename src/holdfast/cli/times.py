"""TIME on the command line: ISO 8601, seconds since 1970, or how long ago."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from holdfast.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ago = re.compile(r"-?\s*(\d+(?:\.\d+)?)\s*([smhd])(?:\s+ago)?")


def parse_time(text: str, now: float | None = None) -> float:
    """Seconds since 1970. A time without a zone is UTC."""
    words = text.strip()
    ago = _ago.fullmatch(words)
    if ago and (words.startswith("-") or words.endswith("ago")):
        return (time.time() if now is None else now) - float(ago[1]) * _UNITS[ago[2]]
    try:
        return float(words)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: write 2026-11-16T03:00:00Z, seconds since 1970, or -2h"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
