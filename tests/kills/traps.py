"""A fleet in which some events kill the worker that folds them, each in a way of its own."""

import os
import time

from holdfast import Agent, Context, Event, Fleet, on

CACHE: list[bytearray] = []


class Step(Event):
    number: int


class Slow(Event):
    number: int
    seconds: float


class Trap(Event):
    how: str


class Hoard(Event):
    """Not fatal by itself: it keeps a little memory for ever, as a bug in a cache would."""

    number: int


class Snap(Event):
    """A trap that a timer springs."""


class NotAnException(BaseException):
    """What `except Exception` lets through, as a cancelled task of asyncio is."""


class Walker(Agent):
    steps: list[int] = []
    trapped: int = 0

    @on
    def stepped(self, event: Step, ctx: Context) -> None:
        self.steps.append(event.number)

    @on
    def crept(self, event: Slow, ctx: Context) -> None:
        time.sleep(event.seconds)
        self.steps.append(event.number)

    @on
    def sprung(self, event: Trap, ctx: Context) -> None:
        self.trapped += 1
        if event.how == "timer":
            ctx.after(0.05, Snap())
        else:
            spring(event.how)

    @on
    def hoarded(self, event: Hoard, ctx: Context) -> None:
        CACHE.append(bytearray(8 * 1024 * 1024))
        self.steps.append(event.number)

    @on
    def snapped(self, event: Snap, ctx: Context) -> None:
        self.trapped += 1
        spring("exit")


class Guarded(Agent, on_error="pause"):
    steps: list[int] = []

    @on
    def stepped(self, event: Step, ctx: Context) -> None:
        self.steps.append(event.number)

    @on
    def sprung(self, event: Trap, ctx: Context) -> None:
        spring(event.how)


def spring(how: str) -> None:
    if how == "exit":
        os._exit(9)
    if how == "loop":
        while True:
            sum(range(100_000))  # some milliseconds in which no other thread runs
            time.sleep(0.005)  # leaves half of the processor to other tests
    if how == "memory":
        hoard = []
        while True:
            hoard.append(bytearray(16 * 1024 * 1024))
    if how == "SystemExit":
        raise SystemExit(0)
    if how == "NotAnException":
        raise NotAnException("from a handler")


fleet = Fleet("traps", agents=[Walker, Guarded])
