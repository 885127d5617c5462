"""A fleet of agents that count what comes to them; one of its urgent events ends the worker."""

import os
import signal

from holdfast import Action, Agent, Context, Event, Fleet, on


class Tick(Event):
    number: int


class Alarm(Event, priority="urgent"):
    number: int


class Blast(Event, priority="urgent"):
    pass


class Wail(Action, priority="urgent"):
    number: int


class Siren(Agent):
    ticks: list[int] = []
    alarms: list[int] = []
    overtook: int = 0

    @on
    def tick(self, event: Tick, ctx: Context) -> None:
        self.ticks.append(event.number)

    @on
    def alarm(self, event: Alarm, ctx: Context) -> None:
        self.alarms.append(event.number)
        if len(self.ticks) < event.number:
            self.overtook += 1
        ctx.emit(Wail(number=event.number))

    @on
    def blast(self, event: Blast, ctx: Context) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


fleet = Fleet("sirens", agents=[Siren])
