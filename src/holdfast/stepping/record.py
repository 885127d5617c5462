"""The record: one agent as stored."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """An agent as stored. `version` counts its events; a gone agent has an empty state."""

    agent: str
    key: str
    version: int
    schema: int
    state: bytes
    extras: bytes
    updated: float

    @property
    def gone(self) -> bool:
        return not self.state
