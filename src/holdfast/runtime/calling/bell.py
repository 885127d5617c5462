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


def left_open(engine: Engine) -> bool:
    """Whether somebody has left calls open that this machine runs, to be asked before it folds.

    Where the engine assigns, a worker looks once it has a partition: before that it would ask
    owners who may be dead, and nobody takes over from them while it waits.
    """
    return not engine.capabilities.assigns and has_open_calls(engine)


def has_open_calls(engine: Engine) -> bool:
    return any(engine.view(number).calls(0, 1) for number in engine.catalog.layout.numbers)
