"""How those who commit calls tell whoever runs them: a bell, and a look at what is open."""

from __future__ import annotations

import os

from holdfast.engine.port import Engine


def new_bell() -> int:
    """Rung by whoever commits calls. It may be rung from anywhere, in any process that has it."""
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def ring(bell: int) -> None:
    try:
        os.eventfd_write(bell, 1)
    except BlockingIOError:
        pass  # rung 2^64 times, and nobody came


def has_open_calls(engine: Engine) -> bool:
    return any(engine.view(number).calls(0, 1) for number in engine.catalog.layout.numbers)
