"""Attempts at functions on a real executor, without a fleet around them."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.runtime.calling.coroutines import CoroutineExecutor
from holdfast.runtime.calling.port import Attempt, Function, Outcome
from holdfast.runtime.calling.processes import ProcessExecutor
from tests.kills.harness import children
from tests.runtime.calling.functions import Told

PATIENCE_SECONDS = 60.0


class Bench:
    """An executor, and what it has told so far."""

    def __init__(self, executor: ProcessExecutor | CoroutineExecutor) -> None:
        self.executor = executor
        self.began: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self._serial = 0
        self._others = set(children(os.getpid()))

    def pids(self) -> list[int]:
        """The children that this one has started and that live."""
        return sorted(set(children(os.getpid())) - self._others)

    def start(self, function: Function, *arguments: object, reply: str = "Told") -> int:
        self._serial += 1
        packed = msgspec.msgpack.encode(arguments)
        name = function.__name__
        self.executor.start(
            Attempt(self._serial, f"call-{self._serial}", name, function, packed, reply)
        )
        return self._serial

    def look(self) -> None:
        self.began.update(self.executor.begun())
        for outcome in self.executor.finished():
            assert outcome.serial not in self.outcomes, "told twice"
            self.outcomes[outcome.serial] = outcome

    def looked(self) -> bool:
        self.look()
        return True

    def until_begun(self, serial: int) -> None:
        self._until(lambda: serial in self.began or serial in self.outcomes)
        assert serial in self.began, self.outcomes[serial]

    def outcome(self, serial: int) -> Outcome:
        self._until(lambda: serial in self.outcomes)
        return self.outcomes[serial]

    def run(self, function: Function, *arguments: object, reply: str = "Told") -> Outcome:
        return self.outcome(self.start(function, *arguments, reply=reply))

    def text(self, function: Function, *arguments: object) -> str:
        """What a function tells that succeeds."""
        outcome = self.run(function, *arguments)
        assert (outcome.reason, outcome.error) == ("", "")
        return msgspec.msgpack.decode(outcome.body, type=Told).text

    def _until(self, done) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + PATIENCE_SECONDS
        self.look()
        while not done():
            assert time.monotonic() < deadline, f"told so far: {self.outcomes}"
            time.sleep(0.002)
            self.look()


@contextmanager
def processes() -> Iterator[Bench]:
    executor = ProcessExecutor(time.monotonic)
    try:
        yield Bench(executor)
    finally:
        executor.close()


@contextmanager
def coroutines() -> Iterator[Bench]:
    executor = CoroutineExecutor(time.monotonic)
    try:
        yield Bench(executor)
    finally:
        executor.close()


def open_descriptors() -> set[str]:
    """What this process has open, by number and target."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{link.name} {link.readlink()}")
        except OSError:
            continue  # the one this look has opened itself
    return found
