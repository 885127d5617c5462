"""Goal: sends of several threads that wait for one inbox share an append, each learns its result at
once, and an interrupt in one of them stops none of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import APPEND_SECONDS, Parcel, Taken
from holdfast.errors import Busy
from holdfast.runtime.routing import Group, _Waiting
from holdfast.stepping.inputs import control_frame
from tests.run.speed import patient


class Gated(MemoryEngine):
    """Its appends wait until somebody lets them pass."""

    def __init__(self) -> None:
        super().__init__("clocks", 1)
        self.passes = threading.Semaphore(0)
        self.parcels: list[int] = []  # how many each append had
        self.interrupted = False

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        self.parcels.append(len(parcels))
        self.passes.acquire()
        if self.interrupted:
            raise KeyboardInterrupt
        return super().append(partition, parcels, wait_seconds)


def resume() -> Parcel:
    frame = control_frame("Clock", "c-1", ["resume"])
    return Parcel(frame, frame.encode())


class Sender(threading.Thread):
    def __init__(self, group: Group, sends: int = 1) -> None:
        super().__init__(daemon=True)
        self._group = group
        self._sends = sends
        self.outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            for _ in range(self._sends):
                self.outcome = self._group.append(resume(), 60.0)
        except BaseException as error:
            self.outcome = error


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patient(20.0)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def gated(waiting: int) -> tuple[Gated, Group, list[Sender]]:
    """A group whose first append is under way, with so many sends behind it."""
    engine = Gated()
    group = Group(engine, 0)
    senders = [Sender(group)]
    until(lambda: len(engine.parcels) == 1)
    senders += [Sender(group) for _ in range(waiting)]
    until(lambda: len(group._queue) == waiting)
    return engine, group, senders


def test_sends_that_wait_share_one_append() -> None:
    engine, _, senders = gated(5)
    engine.passes.release(2)
    for sender in senders:
        sender.join(20)
    assert engine.parcels == [1, 5]
    assert all(isinstance(sender.outcome, Taken) for sender in senders)


def test_whoever_has_its_result_does_not_wait_for_the_next_append() -> None:
    engine = Gated()
    group = Group(engine, 0)
    busy = Sender(group, sends=3)
    until(lambda: len(engine.parcels) == 1)
    other = Sender(group)
    until(lambda: len(group._queue) == 1)
    engine.passes.release(2)
    until(lambda: len(engine.parcels) == 3)
    other.join(20)
    assert not other.is_alive(), "its event is durable, and it waits for somebody else's"
    engine.passes.release(9)
    busy.join(20)
    assert isinstance(busy.outcome, Taken)


def test_an_interrupt_in_one_thread_leaves_the_others_a_reason() -> None:
    engine, group, senders = gated(0)
    senders += [Sender(group) for _ in range(2)]
    until(lambda: len(group._queue) == 2)
    engine.passes.release(1)
    until(lambda: len(engine.parcels) == 2)
    engine.interrupted = True
    engine.passes.release(9)
    for sender in senders:
        sender.join(20)
    outcomes = [type(sender.outcome) for sender in senders]
    assert outcomes[0] is Taken
    assert set(outcomes[1:]) == {KeyboardInterrupt, Busy}


def test_who_is_interrupted_while_it_waits_does_not_take_the_lead_with_it() -> None:
    """Ctrl-C reaches a thread that waits for its turn: those behind it go on."""
    engine, group, senders = gated(1)
    gone = _Waiting([resume()])
    with group._lock:
        group._queue.insert(0, gone)  # first in the queue, so the lead will be its
    engine.passes.release(9)
    until(lambda: group._leader is gone)
    group._leave(gone)  # as the interrupt has it
    for sender in senders:
        sender.join(20)
    assert engine.parcels == [1, 1]
    assert all(isinstance(sender.outcome, Taken) for sender in senders)
    assert group._leader is None
