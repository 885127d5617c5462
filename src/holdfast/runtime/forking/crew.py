"""The crew: workshops in processes of their own, or in this one.

Between our own processes objects travel by pickle; nothing of it is ever stored.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from holdfast.engine.urls import open_engine
from holdfast.errors import DamagedData, HoldfastError
from holdfast.runtime.forking.choosing import chosen_of
from holdfast.runtime.forking.workshop import Plan, Workshop
from holdfast.runtime.loading import load_fleet


class Setup(NamedTuple):
    """All that a process needs to make its workshop."""

    reference: str
    url: str
    plan: Plan
    agents: str


class Here:
    """A member in this process."""

    def __init__(self, workshop: Workshop) -> None:
        self.partitions: Sequence[int] = ()
        self._workshop = workshop
        self._result: object = None

    def ask(self, method: str, *arguments: object) -> None:
        self._result = getattr(self._workshop, method)(*arguments)

    def answer(self) -> object:
        return self._result

    def end(self) -> None:
        pass


class Elsewhere:
    """A member in a process of its own, which ends with its end of the line."""

    def __init__(self, setup: Setup) -> None:
        self.partitions: Sequence[int] = ()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.runtime.forking.crew", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _real(sys.stderr) else subprocess.DEVNULL,
            )
        self._line = Connection(ours.detach())
        self._line.send(setup)

    def ask(self, method: str, *arguments: object) -> None:
        try:
            self._line.send((method, arguments))
        except OSError:
            raise self._gone() from None

    def answer(self) -> object:
        try:
            result = self._line.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        if isinstance(result, Exception):
            raise result
        return result

    def _gone(self) -> HoldfastError:
        code = self._process.wait()
        return DamagedData(
            f"a process of the fork ended with {code} while it folded partitions "
            f"{', '.join(map(str, self.partitions))}: the candidate ends its process on some "
            "event; --jobs 1 shows where"
        )

    def end(self) -> None:
        self._line.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _real(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _portable(error: HoldfastError) -> HoldfastError:
    """The same, as the nearest class that can be made of a text."""
    for cls in type(error).__mro__:
        if issubclass(cls, HoldfastError) and "__init__" not in vars(cls):
            return cls(str(error))
    return error


def serve(line: Connection) -> None:
    setup: Setup = line.recv()
    failed: Exception | None = None
    try:
        fleet = load_fleet(setup.reference)
        engine = open_engine(setup.url, fleet.name)
        workshop = Workshop(engine, fleet, setup.plan, chosen_of(setup.agents, fleet))
    except HoldfastError as error:
        failed = _portable(error)
    while True:
        try:
            method, arguments = line.recv()
        except (EOFError, OSError):
            return  # whoever asks is gone, or done
        result: object = failed
        if failed is None:
            try:
                result = getattr(workshop, method)(*arguments)
            except HoldfastError as error:
                result = _portable(error)
        line.send(result)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
