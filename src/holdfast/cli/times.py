"""Times on the command line, written in one way everywhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from holdfast.errors import UsageError

_AGO = re.compile(r"(?:-\s*)?(\d+(?:\.\d+)?)\s*(s|sec|min|m|h|d)(?:\s+ago)?")
_SECONDS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_time(text: str, now: float) -> float:
    """Seconds since 1970 of "2026-11-16T03:00:00Z", "1794798000.5", "-2h" or "2h ago"."""
    words = text.strip()
    try:
        return float(words)
    except ValueError:
        pass
    ago = _AGO.fullmatch(words)
    if ago is not None and (words.startswith("-") or words.endswith("ago")):
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: write 2026-11-16T03:00:00Z, seconds since 1970, or 2h ago"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
