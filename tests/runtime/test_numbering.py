"""Goal: threads that share a handle never number each other out of the window in which a repeat is
told from something new."""

from __future__ import annotations

import threading

import pytest

from holdfast import Agent, Context, Event, Fleet, Live, on
from holdfast.engine.admission import WINDOW
from holdfast.errors import Busy


class Tick(Event):
    pass


class Clock(Agent):
    ticks: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks += 1


fleet = Fleet("clocks", agents=[Clock])
MANY = [(Clock, "busy", Tick())] * (WINDOW // 2)


def held_up(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Thread, threading.Event]:
    """A thread whose send has its number, and stops before the inbox."""
    append, numbered, go_on = live._router.append, threading.Event(), threading.Event()

    def stopped(*arguments: object, **options: object) -> object:
        if threading.current_thread() is slow:
            numbered.set()
            assert go_on.wait(60)
        return append(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(live._router, "append", stopped)
    slow = threading.Thread(target=live.send, args=(Clock, "slow", Tick()))
    slow.start()
    assert numbered.wait(60)
    return slow, go_on


def test_a_slow_thread_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with fleet.open("memory:") as live:
        slow, go_on = held_up(live, monkeypatch)
        live.send_many(MANY)
        with pytest.raises(Busy, match=r"a send of another thread has not ended for 0.05 s"):
            live.send_many(MANY, timeout=0.05)
        go_on.set()
        slow.join()
        live.send_many(MANY)
        live.settle()
        assert live.state(Clock, "slow").ticks == 1
        assert live.state(Clock, "busy").ticks == 2 * len(MANY)
