"""Goal: a compiled agent makes calls and takes their replies, CallFailed too."""

from __future__ import annotations

from pathlib import Path

from holdfast import Agent, CallFailed, Context, Event, Fleet, on


class Tick(Event):
    number: int


class Done(Event):
    number: int


def half(number: int) -> Done:
    if number % 2:
        raise ValueError("odd")
    return Done(number=number // 2)


class Counter(Agent, compiled=True):
    total: int = 0
    failed: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        ctx.call(half, event.number, reply=Done, retries=0)

    @on
    def done(self, event: Done, ctx: Context) -> None:
        self.total += event.number

    @on
    def failure(self, event: CallFailed, ctx: Context) -> None:
        self.failed += 1


fleet = Fleet("halves", agents=[Counter])


def test_replies_and_failures_are_taken(tmp_path: Path) -> None:
    with fleet.open(f"sqlite:{tmp_path / 'data'}") as live:
        live.send_many([(Counter, "c-1", Tick(number=n)) for n in range(6)])
        live.settle()
        assert live.state(Counter, "c-1") == Counter(total=3, failed=3)
        made_up = CallFailed("id", "half", "error", "none", 1)
        live.send_many([(Counter, "c-1", Done(number=4)), (Counter, "c-1", made_up)])
        live.settle()
        assert live.state(Counter, "c-1") == Counter(total=7, failed=4)
        assert not live.dead_letters()
