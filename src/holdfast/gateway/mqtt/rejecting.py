"""What is no event, in a file beside the data: as it was, with the reason.

Bounded: past its size the file becomes the older one, and what was the older one is gone.
"""

from __future__ import annotations

import base64
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.engine.sqlite.files import bytes_of
from holdfast.errors import DiskFull
from holdfast.gateway.mqtt.packets import Published

REJECTED_FILE_BYTES_MAX = 16 * 1024 * 1024
REJECTED_PAYLOAD_BYTES_MAX = 64 * 1024  # of a payload that is kept
TELL_SECONDS = 5.0  # between two lines about rejected messages

_log = logging.getLogger("holdfast.mqtt")


class Rejected(NamedTuple):
    message: Published
    reason: str


class Rejects:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "rejected.ndjson"
        self.older = folder / "rejected.1.ndjson"
        self._untold = 0
        self._example: Rejected | None = None  # of those
        self._told = float("-inf")

    def write(self, rejected: Sequence[Rejected]) -> None:
        """Returns when all are on the disk."""
        if not rejected:
            return
        lines = b"".join(_line(each) for each in rejected)
        try:
            kept = bytes_of(self.path)
            if kept and kept + len(lines) > REJECTED_FILE_BYTES_MAX:
                self._turn_over()
            with self.path.open("ab") as file:
                file.write(lines)
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            raise DiskFull(
                f"{self.path}: rejected messages cannot be written: {error.strerror}: make room"
            ) from None
        self._untold += len(rejected)
        self._example = rejected[0]
        self.tell()

    def _turn_over(self) -> None:
        if self.older.exists():
            _log.warning("%s is overwritten: more was rejected than is kept", self.older)
        with suppress(FileNotFoundError):  # another bridge did it a moment ago
            self.path.replace(self.older)

    def tell(self, *, at_once: bool = False) -> None:
        """At once the first time, then not for every one of them."""
        now = time.monotonic()
        waits = now - self._told < TELL_SECONDS and not at_once
        if self._example is None or not self._untold or waits:
            return
        message, reason = self._example
        _log.warning(
            "%d message%s rejected, to %s: %s: %s",
            self._untold,
            "" if self._untold == 1 else "s",
            self.path,
            message.topic[:200],
            reason,
        )
        self._untold, self._told = 0, now


def _line(rejected: Rejected) -> bytes:
    message, reason = rejected
    kept = message.payload[:REJECTED_PAYLOAD_BYTES_MAX]
    told: dict[str, object] = {"at": time.time(), "topic": message.topic, "reason": reason}
    try:
        told["payload"] = kept.decode()
    except UnicodeDecodeError:
        told["base64"] = base64.b64encode(kept).decode()
    if len(kept) < len(message.payload):
        told["bytes"] = len(message.payload)
    if message.content_type:
        told["content_type"] = message.content_type
    if message.user:
        told["properties"] = dict(message.user)
    return msgspec.json.encode(told) + b"\n"
