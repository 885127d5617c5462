"""Which sentence of the port a test stands for. A test of the house counts them: none without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., None])


def promise(*quotes: str) -> Callable[[F], F]:
    """The test shows that these hold. Each is a part of one sentence of engine/port.py."""

    def claim(test: F) -> F:
        test.__dict__["promises"] = (*promises_of(test), *quotes)
        return test

    return claim


def promises_of(test: object) -> tuple[str, ...]:
    found: tuple[str, ...] = getattr(test, "promises", ())
    return found
