"""Conformance: waiting for work. Whoever sleeps too long is late; who does not, is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdfast.engine.port import Engine
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.workbench import Owner, Workbench, append, inbox, parcel, soon

LONG_SECONDS = 60.0  # half of it is more than a busy machine needs to wake somebody
SHORT_SECONDS = 0.05


def slept(engine: Engine, seconds: float) -> float:
    start = time.monotonic()
    engine.wait(seconds)
    return time.monotonic() - start


def slept_while(engine: Engine, act: Callable[[], object]) -> float:
    """How long a wait took during which something happened on another thread."""
    timer = threading.Timer(0.1, act)
    start = time.monotonic()  # a busy machine may let it act before the wait begins
    timer.start()
    engine.wait(LONG_SECONDS)
    elapsed = time.monotonic() - start
    timer.join()
    assert elapsed > 0.05, "it did not wait at all"
    return elapsed


class WaitConformance(Workbench):
    @promise("or `seconds` passed")
    def test_wait_ends_after_its_time(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        assert slept(engine, SHORT_SECONDS) >= SHORT_SECONDS * 0.9

    def test_wait_without_grants_ends_after_its_time(self) -> None:
        assert slept(self.engine(), SHORT_SECONDS) >= SHORT_SECONDS * 0.9

    def test_wait_sleeps_though_old_events_wait(self) -> None:
        """A partition that is held up must not turn its worker into a busy loop."""
        engine = self.engine()
        Owner.of(engine)
        append(engine, parcel(["held up"]))
        soon(lambda: inbox(engine) == ["held up"])
        start = time.monotonic()
        for _ in range(10):  # the first ones may still hear of what was appended
            engine.wait(SHORT_SECONDS)
        assert time.monotonic() - start >= 5 * SHORT_SECONDS

    @promise("What was appended since the last `wait` ends it at once")
    def test_an_append_before_the_wait_is_not_slept_through(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        append(engine, parcel(["a"]))
        assert slept(engine, LONG_SECONDS) < LONG_SECONDS / 2

    @promise("Sleep until something was appended to a partition granted here")
    def test_an_append_ends_a_wait(self) -> None:
        engine = self.engine(partitions=2)
        Owner.of(engine, 0)
        Owner.of(engine, 1)
        appender = self.again(engine) if self.capabilities.several_processes else engine
        assert slept_while(engine, lambda: append(appender, parcel(["a"]), 1)) < LONG_SECONDS / 2
        assert inbox(engine, 1) == ["a"]

    def test_an_append_elsewhere_does_not_end_a_wait(self) -> None:
        """Workers that woke for each other's partitions would wake all the time."""
        engine = self.engine(partitions=2)
        Owner.of(engine, 0)
        append(engine, parcel(["not mine"]), 1)
        assert slept(engine, SHORT_SECONDS) >= SHORT_SECONDS * 0.9

    @promise("End a `wait` of this process, from another thread")
    def test_wake_ends_a_wait(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        assert slept_while(engine, engine.wake) < LONG_SECONDS / 2

    @promise("the next one, if there is none now")
    def test_a_wake_before_the_wait_is_not_lost_and_ends_one_only(self) -> None:
        engine = self.engine()
        Owner.of(engine)
        engine.wake()
        engine.wake()
        assert slept(engine, LONG_SECONDS) < LONG_SECONDS / 2
        assert slept(engine, SHORT_SECONDS) >= SHORT_SECONDS * 0.9

    def test_wake_ends_a_wait_without_grants(self) -> None:
        """A worker that got no partition has to stop when it is told to, too."""
        engine = self.engine()
        assert slept_while(engine, engine.wake) < LONG_SECONDS / 2

    def test_wake_ends_the_wait_of_one_whose_partition_was_claimed(self) -> None:
        """The wake-up is for this process, not for whoever owns the partition now."""
        engine = self.engine()
        Owner.of(engine)
        Owner.of(self.other_handle(engine))
        assert slept_while(engine, engine.wake) < LONG_SECONDS / 2
