"""Simulated processes: workers, and the supervisor that keeps them. The loops inside are the real
ones of `runtime`; only what starts, stops and ends a process is made here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.engine.stamping import Clock
from holdfast.errors import GiveUp, HoldfastError, TheirBug, YourBug
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.supervisor import EXIT_FENCED, EXIT_REFUSED, HEARTBEAT_SECONDS, Supervisor
from holdfast.runtime.worker import Worker
from holdfast.testing.simulation.engine import SimulatedEngine
from holdfast.testing.simulation.faults import Fault
from holdfast.testing.simulation.store import Author, Lost

if TYPE_CHECKING:
    from holdfast.testing.simulation.machine import Machine

EXIT_KILLED = -9
STARTING_SECONDS = (0.05, 0.4)
TURN_SECONDS = 0.002
WAKE_SECONDS = 0.001
IDLE_SECONDS = 0.05


class SimulatedProcess:
    """Alive until it ends; on its own clock; maybe standing still."""

    patient = False
    crashes = True

    def __init__(self, machine: Machine, name: str, program: int) -> None:
        self.machine = machine
        self.author = Author(name, program)
        self.clock: Clock = machine.clock.process_clock()
        self.alive = True
        self.paused_until = 0.0

    def check(self) -> None:
        if not self.alive:
            raise Lost

    def end(self, reason: str) -> None:
        if self.alive:
            self.alive = False
            self.machine.universe.note(self.author.process, reason, fault=True)

    def pause(self, seconds: float) -> None:
        """Stand still in the middle of a call; the others go on, and may take over."""
        universe = self.machine.universe
        self.paused_until = universe.now + seconds
        universe.note(self.author.process, f"stands still for {seconds:.1f} s", fault=True)
        universe.run_until(self.paused_until)

    @property
    def paused(self) -> bool:
        return self.machine.universe.now < self.paused_until

    def rest(self, seconds: float) -> None:
        self.machine.universe.sleep(seconds)


class LoopProcess(SimulatedProcess):
    """A process that turns a loop until it ends, and whose heartbeats a supervisor hears."""

    def __init__(self, machine: Machine, name: str, program: int) -> None:
        super().__init__(machine, name, program)
        self.pid = int(name.rsplit(maxsplit=1)[-1])
        self.exit_code: int | None = None
        self._engine = SimulatedEngine(machine.universe, machine.faults, machine.store, self)
        self._finishing = False
        self._busy = False
        self._beat = machine.universe.now
        self._rested = 0.0
        self._wake_order = 0
        self._step_after(machine.random_between(STARTING_SECONDS))

    def _turn(self) -> None:
        raise NotImplementedError

    def _step_after(self, seconds: float) -> None:
        """The next turn; whatever was planned before is void."""
        self._wake_order += 1
        order = self._wake_order
        self.machine.universe.after(seconds, lambda: self._step(order))

    def _step(self, order: int) -> None:
        if order != self._wake_order or not self.alive or self._busy:
            return
        self._busy = True
        try:
            self._turn()
        except Lost:
            self.exit_code = self.exit_code or EXIT_KILLED
        except (YourBug, TheirBug, GiveUp) as error:
            self._exit(EXIT_REFUSED, str(error))
        except HoldfastError as error:
            self._exit(1, str(error))
        finally:
            self._busy = False

    def _exit(self, code: int, reason: str) -> None:
        self.exit_code = code
        self.alive = False
        self.machine.universe.note(self.author.process, f"exits with {code}: {reason}")

    def rest(self, seconds: float) -> None:
        """Nobody waits for it: its next turn comes later."""
        self._rested += seconds

    def end(self, reason: str) -> None:
        super().end(reason)
        self.exit_code = self.exit_code or EXIT_KILLED

    # What the supervisor sees of it.

    def heartbeats(self) -> int:
        now = self.machine.universe.now
        if not self.alive or self.paused:
            return 0
        beats = int((now - max(self._beat, self.paused_until)) / HEARTBEAT_SECONDS)
        if beats > 0:
            self._beat = now
        return beats

    def ended(self) -> int | None:
        return None if self.alive else self.exit_code

    def finish(self) -> None:
        self._finishing = True
        if not self._busy:
            self._step_after(WAKE_SECONDS)

    def kill(self) -> None:
        """The supervisor thinks it is gone; on another machine it may live on as a zombie."""
        if self.alive and self.machine.faults.strikes(Fault.KILL_LOST):
            self.machine.universe.note(self.author.process, "survives its kill", fault=True)
            return
        self.end("is killed")


class WorkerProcess(LoopProcess):
    """What `runtime/process.py` is: a worker, its loop and its heartbeats."""

    def __init__(
        self, machine: Machine, name: str, program: int, post: int, partitions: Sequence[int]
    ) -> None:
        super().__init__(machine, name, program)
        self.post = post
        self._partitions = list(partitions)
        self._worker: Worker | None = None
        machine.universe.note(name, f"starts with partitions {self._partitions}")

    def _turn(self) -> None:
        self._engine.waits, self._rested = TURN_SECONDS, 0.0
        if self._worker is None:
            fleet = self.machine.programs[self.author.program]
            self._worker = Worker(fleet, self._engine, self._partitions, self.clock)
        self._worker.turn(self.rest)
        self.check()
        if self._worker.fenced or self._finishing:
            self._exit(EXIT_FENCED if self._worker.fenced else 0, "stops")
        else:
            self._step_after(self._engine.waits + self._rested)

    def wake(self, partition: int) -> None:
        if partition in self._engine.claims and self.alive and not self._busy:
            self._step_after(WAKE_SECONDS)


class SupervisorProcess:
    """The real supervisors, of workers and of the caller, in a process of its own, which may end
    and take its children along."""

    def __init__(self, machine: Machine, workers: int, name: str) -> None:
        self.machine = machine
        self.name = name
        self.alive = True
        universe = machine.universe
        self.children: list[LoopProcess] = []
        numbers = machine.layout.numbers
        self._supervisors = [
            Supervisor(self._spawn, workers, numbers, lambda: universe.now),
            Supervisor(self._spawn_caller, 1, [0], lambda: universe.now, role="caller"),
        ]
        universe.note(name, f"starts for {workers} workers")
        self._tick()

    def _spawn(self, number: int, partitions: Sequence[int]) -> WorkerProcess:
        child = self.machine.start_worker(number, partitions)
        self.children.append(child)
        return child

    def _spawn_caller(self, number: int, partitions: Sequence[int]) -> LoopProcess:
        child = self.machine.start_caller()
        self.children.append(child)
        return child

    def _tick(self) -> None:
        if not self.alive:
            return
        try:
            for supervisor in self._supervisors:
                supervisor.tick()
        except GiveUp as error:
            self.end(f"gives up: {error}")
            return
        if all(supervisor.stopped for supervisor in self._supervisors):
            self.alive = False
            self.machine.universe.note(self.name, "has stopped")
            return
        self.machine.universe.after(HEARTBEAT_SECONDS, self._tick)

    def stop(self) -> None:
        for supervisor in self._supervisors:
            supervisor.stop()

    def end(self, reason: str) -> None:
        """Its children die with it, unless the machine they are on does not hear of it."""
        if not self.alive:
            return
        self.alive = False
        self.machine.universe.note(self.name, reason, fault=True)
        for child in self.children:
            if child.alive:
                child.kill()


class RescaleProcess(SimulatedProcess):
    """What `holdfast rescale` is: alone with the data, until it is done or has failed."""

    def __init__(self, machine: Machine, name: str, partitions: int) -> None:
        super().__init__(machine, name, machine.program)
        self._partitions = partitions
        self._engine = SimulatedEngine(machine.universe, machine.faults, machine.store, self)
        self._job: Rescale | None = None
        machine.universe.note(name, f"rescales to {partitions} partitions")
        machine.universe.after(machine.random_between(STARTING_SECONDS), self._step)

    def _step(self) -> None:
        if not self.alive:
            return
        try:
            if self._job is None:
                fleet = self.machine.programs[self.author.program]
                self._job = Rescale(fleet, self._engine, self._partitions, self.clock)
            if self._job.step():
                self._done("is done")
                return
        except Lost:
            return
        except HoldfastError as error:
            self._done(f"gives up: {error}")
            return
        self.machine.universe.after(TURN_SECONDS if self._job.moved else IDLE_SECONDS, self._step)

    def _done(self, reason: str) -> None:
        self.alive = False
        self.machine.universe.note(self.author.process, reason)
