"""A fleet of its own on a broker, with copies of its own, for every run."""

from __future__ import annotations

import uuid
from pathlib import Path


def fresh(bootstrap: str, folder: Path, **settings: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    prefix = f"bench-{uuid.uuid4().hex[:6]}"
    return f"kafka://{bootstrap}/{prefix}?cache={folder / 'cache'}&{query}".rstrip("&")
