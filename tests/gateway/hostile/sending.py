"""Sending what is wrong, and counting what was appended all the same."""

from __future__ import annotations

from tests.gateway.raw import (
    Raw,
    heard_in,
)
from tests.gateway.served import Heard, Served


def inboxes(yard: Served) -> int:
    return sum(progress.inbox for progress in yard.live.positions().values())


def answer(yard: Served, data: bytes) -> Heard:
    """To bytes after which the gateway closes the line."""
    with Raw(yard.port) as raw:
        raw.send(data)
        (found,) = heard_in(raw.rest())
        return found


def posted(yard: Served, media: str, body: bytes, path: str = "/events") -> Heard:
    return yard.client.ask("POST", path, body, {"content-type": media})
