"""A fleet whose agents note numbers in order; one below 0 is the end of the worker."""

from __future__ import annotations

from holdfast import Agent, Context, Event, Fleet, on


class Death(BaseException):
    """The end of a process, as far as one process can have it."""


class Step(Event):
    number: int


class Halt(Event, priority="urgent"):
    number: int


class Walker(Agent):
    seen: list[int] = []

    @on(Step, Halt)
    def note(self, event: Step | Halt, ctx: Context) -> None:
        if event.number < 0:
            raise Death
        self.seen.append(event.number)


FLEET = Fleet("walkers", agents=[Walker])
