"""Simulated calls: the real caller in a process of its own, and an executor that runs no function.

What a function would have returned is made up from the class of its reply, another one at every
attempt, so that a reply that is taken twice shows. Functions fail, die, hang and are late by faults
of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import UsageError
from holdfast.model.event import Event
from holdfast.runtime.calling.caller import Caller
from holdfast.runtime.calling.port import LOST, Attempt, Outcome
from holdfast.testing.generating import generate_event
from holdfast.testing.simulation.evidence import Attempted
from holdfast.testing.simulation.faults import Fault
from holdfast.testing.simulation.processes import TURN_SECONDS, LoopProcess
from holdfast.testing.simulation.universe import stream

if TYPE_CHECKING:
    from holdfast.testing.simulation.machine import Machine

RUN_SECONDS = (0.001, 0.2)
SLOW_SECONDS = (0.5, 6.0)
OUTAGE_SECONDS = (1.0, 20.0)
NEVER = float("inf")
_encode = msgspec.msgpack.Encoder().encode


class Running(NamedTuple):
    attempt: Attempt
    due: float
    reason: str  # as in an Outcome; empty: it will return


class SimulatedExecutor:
    """For both kinds of functions. It ends with its process, and so does all that runs in it."""

    def __init__(self, machine: Machine, process: CallerProcess) -> None:
        self._machine = machine
        self._process = process
        self._begun: list[int] = []
        self._running: dict[int, Running] = {}

    def start(self, attempt: Attempt) -> None:
        running = self._fate(attempt)
        self._running[attempt.serial] = running
        self._begun.append(attempt.serial)
        self._note(attempt, "is run")
        self._tell(attempt, None)

    def _fate(self, attempt: Attempt) -> Running:
        machine, faults = self._machine, self._machine.faults
        now = machine.universe.now
        due = now + machine.call_random.uniform(*RUN_SECONDS)
        if faults.strikes(Fault.CALL_OUTAGE):
            machine.outages[attempt.name] = now + faults.draw(Fault.CALL_OUTAGE, *OUTAGE_SECONDS)
            machine.universe.note(attempt.name, "fails for a while", fault=True)
        if faults.active and now < machine.outages.get(attempt.name, 0.0):
            return Running(attempt, due, "error")
        if faults.strikes(Fault.CALL_SLOW):
            due = now + faults.draw(Fault.CALL_SLOW, *SLOW_SECONDS)
        for fault, reason in (
            (Fault.CALL_ERROR, "error"),
            (Fault.CALL_DIED, "died"),
            (Fault.CALL_LOST, LOST),
            (Fault.CALL_HUNG, "hung"),
        ):
            if faults.strikes(fault):
                return Running(attempt, NEVER if reason == "hung" else due, reason)
        return Running(attempt, due, "")

    def begun(self) -> list[int]:
        begun, self._begun = self._begun, []
        return begun

    def finished(self) -> list[Outcome]:
        now, healed = self._machine.universe.now, not self._machine.faults.active
        ended = [
            each
            for each in self._running.values()
            if each.due <= now or (healed and each.due == NEVER)
        ]
        return [self._finish(each) for each in ended]

    def _finish(self, running: Running) -> Outcome:
        attempt = running.attempt
        del self._running[attempt.serial]
        reason = "died" if running.reason == "hung" else running.reason
        event = None if reason else self._returned(attempt)
        if event is None:
            self._note(attempt, f"ends: {reason or 'error'}")
            return Outcome(attempt.serial, reason or "error", "made up")
        self._note(attempt, f"returns {event}")
        self._tell(attempt, event)
        return Outcome(attempt.serial, body=_encode(event))

    def _returned(self, attempt: Attempt) -> Event | None:
        fleet = self._machine.programs[self._process.author.program]
        cls = fleet.events.get(attempt.reply)
        self._machine.returned += 1
        name = f"{attempt.call} {self._machine.returned}"
        random = stream(self._machine.universe.seed, name)
        try:
            return None if cls is None else generate_event(cls, random)
        except UsageError:
            return None  # of a type that cannot be made up: then the function has failed

    def kill(self, serial: int) -> None:
        running = self._running.pop(serial, None)
        if running is not None:
            self._note(running.attempt, "is ended")

    def next_in(self) -> float:
        dues = [each.due for each in self._running.values()]
        return min(dues, default=NEVER) - self._machine.universe.now

    def _tell(self, attempt: Attempt, event: Event | None) -> None:
        at = self._machine.universe.now
        what = (attempt.call, attempt.name, attempt.arguments, at, event)
        self._machine.attempts.append(Attempted(*what))

    def _note(self, attempt: Attempt, what: str) -> None:
        who = self._process.author.process
        self._machine.universe.note(who, f"{attempt.name} of {attempt.call} {what}")


class CallerProcess(LoopProcess):
    """What `runtime/calling/process.py` is: the caller and its loop."""

    def __init__(self, machine: Machine, name: str, program: int) -> None:
        super().__init__(machine, name, program)
        self._executor = SimulatedExecutor(machine, self)
        self._caller: Caller | None = None
        machine.universe.note(name, "starts")

    def _turn(self) -> None:
        self._rested = 0.0
        machine = self.machine
        if self._caller is None:
            fleet = machine.programs[self.author.program]
            executors = {"process": self._executor, "async": self._executor}
            self._caller = Caller(fleet, self._engine, executors, lambda: machine.universe.now)
        moved = self._caller.tick()
        self.check()
        if self._finishing:
            self._exit(0, "stops")
            return
        idle = min(self._caller.idle_seconds(), self._executor.next_in())
        self._step_after(self._rested + (TURN_SECONDS if moved else max(TURN_SECONDS, idle)))
