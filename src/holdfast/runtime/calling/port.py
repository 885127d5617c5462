"""What runs an attempt at a call. Real executors have child processes, the simulator its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Function = Callable[..., object]

RESULT_BYTES_MAX = 1024 * 1024
CALL_ERROR_LENGTH_MAX = 2_000
LOST = "lost"  # the attempt came to nothing through no fault of its own: it does not count


class Attempt(NamedTuple):
    serial: int  # of this caller, never used twice
    call: str  # the call's stable id, the same for every attempt
    name: str
    function: Function
    arguments: bytes
    reply: str


class Outcome(NamedTuple):
    """How an attempt ended. Without a reason it is a success, and `body` the packed reply.

    Where another attempt would only do the same, to the world too, there is none.
    """

    serial: int
    reason: str = ""  # as in CallFailed, or LOST
    error: str = ""
    body: bytes = b""
    again: bool = True  # another attempt might do better


class Executor(Protocol):
    """Runs attempts somewhere else. No call here ever waits.

    Not guaranteed: that a killed attempt has done nothing, or does nothing more if its function has
    started something elsewhere.
    """

    def start(self, attempt: Attempt) -> None:
        """Take it on; how many at once is the caller's business."""

    def begun(self) -> Sequence[int]:
        """Those whose function runs since the last look: their time counts from here."""

    def finished(self) -> Sequence[Outcome]:
        """Those that ended since the last look, each told once; never one that was killed."""

    def kill(self, serial: int) -> None:
        """End it; the others go on, or are told to be lost."""


def shorten(text: str, most: int = CALL_ERROR_LENGTH_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
