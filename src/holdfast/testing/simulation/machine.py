"""The machine of a run: its clock, store and processes, and troubles that come by the second."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine.port import Limits
from holdfast.engine.stamping import Instant
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.testing.simulation.callers import CallerProcess
from holdfast.testing.simulation.clocks import MachineClock
from holdfast.testing.simulation.evidence import Attempted
from holdfast.testing.simulation.faults import Fault, Faults
from holdfast.testing.simulation.processes import (
    RescaleProcess,
    SimulatedProcess,
    SupervisorProcess,
    WorkerProcess,
)
from holdfast.testing.simulation.store import Author, Lost, Operation, Store
from holdfast.testing.simulation.universe import Universe, stream

RESTART_SECONDS = (0.1, 1.5)  # until somebody starts a supervisor that is gone


class Machine:
    def __init__(
        self,
        universe: Universe,
        faults: Faults,
        programs: Sequence[FleetModel],
        partitions: int,
        workers: int,
    ) -> None:
        self.universe = universe
        self.faults = faults
        self.programs = programs
        self.program = 0  # the release that new processes run
        self.clock = MachineClock(universe, faults)
        self.store = Store(universe, faults, programs[0].name, partitions, _limits(universe))
        self.store.on_power_loss = self._power_is_lost
        self.store.on_append = self._wake_owners
        self._worker_count = workers
        self._pids = 0
        self._retains = universe.random.random() < 0.5
        self._old_posts: set[int] = set()  # posts that a rolling upgrade has not come to yet
        self._rescaler: RescaleProcess | None = None
        self.workers: list[WorkerProcess] = []
        self.callers: list[CallerProcess] = []
        self.clients: list[SimulatedProcess] = []
        self.attempts: list[Attempted] = []
        self.returned = 0  # functions so far
        self.outages: dict[str, float] = {}  # until when a function fails
        self.call_random = stream(universe.seed, "calls")
        self.supervisor = SupervisorProcess(self, workers, self._name("supervisor"))
        universe.after(1.0, self._every_second)

    def _name(self, kind: str) -> str:
        self._pids += 1
        return f"{kind} {self._pids}"

    def random_between(self, bounds: tuple[float, float]) -> float:
        return self.universe.random.uniform(*bounds)

    @property
    def layout(self) -> Layout:
        return self.store.image.catalog.layout

    def start_worker(self, post: int, partitions: Sequence[int]) -> WorkerProcess:
        program = self.program - 1 if post in self._old_posts else self.program
        name = self._name("worker")
        worker = WorkerProcess(self, name, program, post, partitions)
        self.workers = [w for w in self.workers if w.alive] + [worker]
        return worker

    def start_caller(self) -> CallerProcess:
        program = self.program - 1 if self._old_posts else self.program
        caller = CallerProcess(self, self._name("caller"), program)
        self.callers = [c for c in self.callers if c.alive] + [caller]
        return caller

    def _wake_owners(self, partition: int) -> None:
        for worker in self.workers:
            worker.wake(partition)

    def _power_is_lost(self) -> None:
        self.supervisor.alive = False
        rescaler = [self._rescaler] if self._rescaler is not None else []
        for process in (*self.workers, *self.callers, *self.clients, *rescaler):
            process.end("is gone with the power")
        self.clock.boot()

    # What comes by the second.

    def _every_second(self) -> None:
        self.universe.after(1.0, self._every_second)
        if not self.supervisor.alive and not self.rescaling:
            self.universe.after(self.random_between(RESTART_SECONDS), self.restart_supervisor)
        if self.faults.strikes(Fault.FULL_DISK):
            self._fill_disk()
        if self.faults.strikes(Fault.CLOCK_JUMP):
            self.clock.jump()
        if self.faults.strikes(Fault.SUPERVISOR_RESTART):
            self.supervisor.end("crashes")
        if self.faults.strikes(Fault.CALLER_CRASH):
            for caller in self.callers:
                caller.end("crashes")
        if self.faults.strikes(Fault.POWER_LOSS):
            self.store.lose_power()
        if self._retains:
            self._forget()
        if self.upgradable and self.faults.strikes(Fault.UPGRADE):
            self.upgrade()
        if self.calm and self.faults.strikes(Fault.RESCALE):
            self.rescale()

    def restart_supervisor(self) -> None:
        if not self.supervisor.alive and not self.rescaling:
            name = self._name("supervisor")
            self.supervisor = SupervisorProcess(self, self._worker_count, name)

    def _forget(self) -> None:
        """Retention: what is folded may go, and nothing but it."""
        frames = self.universe.random.randint(0, 3)
        upkeep = Operation(Author("upkeep", 0), self.universe.now, self.wall(), "retain", (frames,))
        try:
            self.store.perform(upkeep)
        except Lost:
            pass  # the power went

    def _fill_disk(self) -> None:
        self.store.disk_is_full = True
        self.universe.note("disk", "is full", fault=True)
        self.universe.after(self.faults.draw(Fault.FULL_DISK, 0.3, 3.0), self._free_disk)

    def _free_disk(self) -> None:
        self.store.disk_is_full = False
        self.universe.note("disk", "has room again")

    # A rescale: the supervisor stops, and what comes back finds other partitions.

    @property
    def rescaling(self) -> bool:
        return self._rescaler is not None and self._rescaler.alive

    def rescale(self) -> None:
        others = [n for n in range(1, 6) if n != len(self.layout.partitions)]
        wanted = self.universe.random.choice(others)
        self.supervisor.stop()

        def begin() -> None:
            if self.rescaling:
                return
            if self.supervisor.alive:
                self.supervisor.end("is told to make way")
            self._rescaler = RescaleProcess(self, self._name("rescale"), wanted)

        self.universe.after(1.0, begin)

    # A rolling upgrade: one worker after the other is ended and started with newer classes.

    @property
    def upgradable(self) -> bool:
        return self.program + 1 < len(self.programs) and self.calm

    def upgrade(self) -> None:
        self.program += 1
        self._old_posts = set(range(self._worker_count))
        self.universe.note("operator", f"begins an upgrade to release {self.program + 1}")
        self._upgrade_next()

    def _upgrade_next(self) -> None:
        if not self._old_posts:
            for caller in self.callers:
                if caller.alive and caller.author.program < self.program:
                    caller.finish()
            return
        post = min(self._old_posts)
        self._old_posts.remove(post)
        for worker in self.workers:
            if worker.alive and worker.author.program < self.program and worker.post == post:
                worker.finish()
        self.universe.after(self.random_between((0.5, 2.0)), self._upgrade_next)

    # The end of all faults.

    def heal(self) -> None:
        self.faults.active = False
        self.store.heal()
        self.clock.heal()
        self.universe.note("everything", "faults end here")

    @property
    def upgrading(self) -> bool:
        return bool(self._old_posts)

    @property
    def calm(self) -> bool:
        """Nobody is about to change anything: neither an upgrade nor a rescale is under way."""
        return not self.upgrading and not self.rescaling and self.supervisor.alive

    def wall(self) -> Instant:
        return self.clock.read(0.0, 0.0)


def _limits(universe: Universe) -> Limits:
    """In some runs so small that they are met."""
    random = stream(universe.seed, "limits")
    usual = Limits()
    return Limits(
        backlog_events_max=random.choice([20, usual.backlog_events_max]),
        outbox_messages_max=random.choice([2, usual.outbox_messages_max]),
    )
