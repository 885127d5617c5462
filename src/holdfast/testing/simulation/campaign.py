"""A campaign: many seeds, one after the other or on several cores, and what they add up to."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.process import BaseProcess
from types import FrameType

from holdfast.engine.memory import MemoryEngine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.schemas import agree
from holdfast.testing.simulation.faults import WHOLE, Fault, Restriction
from holdfast.testing.simulation.findings import Finding
from holdfast.testing.simulation.minimise import Judged, Minimiser
from holdfast.testing.simulation.run import Run, run
from holdfast.testing.simulation.timeline import tell
from holdfast.testing.simulation.verdict import judge

SEEDS_PER_TALLY = 10
SEED_SECONDS_MAX = 60.0  # a run takes a tenth of a second; a handler may loop for ever


class SimulationError(RuntimeError):
    """The simulation itself failed; of the promises it says nothing."""


class Overrun(BaseException):
    """No `except Exception` on the way may keep it."""


class PromiseBroken(AssertionError):
    """A simulated run broke a promise. The text has the command that shows it again."""


@dataclass
class Tally:
    """What runs add up to."""

    seeds: int = 0
    events: int = 0
    commits: int = 0
    virtual_seconds: float = 0.0
    faults: Counter[Fault] = field(default_factory=Counter)
    chances: Counter[Fault] = field(default_factory=Counter)
    failing: list[int] = field(default_factory=list)
    crashed: dict[int, str] = field(default_factory=dict)  # seeds whose run raised, and what
    seconds: float = 0.0  # of real time

    def add(self, run: Run, findings: list[Finding]) -> None:
        logs = [log for generation in run.evidence.generations for log in generation]
        self.seeds += 1
        self.events += sum(frame.count for log in logs for frame in log.frames)
        self.commits += sum(len(log.commits) for log in logs)
        self.virtual_seconds += run.seconds
        self.faults.update(fault for fault, _ in run.struck)
        self.chances.update(run.chances)
        if findings:
            self.failing.append(run.seed)

    def crash(self, seed: int, trace: str) -> None:
        """A run that raised has shown nothing, so it is no success."""
        self.seeds += 1
        self.failing.append(seed)
        self.crashed[seed] = trace

    def merge(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.events += other.events
        self.commits += other.commits
        self.virtual_seconds += other.virtual_seconds
        self.faults += other.faults
        self.chances += other.chances
        self.failing = sorted(self.failing + other.failing)
        self.crashed |= other.crashed


def simulate(
    fleet: FleetModel,
    seeds: int | Iterable[int] = 100,
    *,
    upgrades: Sequence[FleetModel] = (),
    command: str = "holdfast simulate FLEET",
) -> Tally:
    """Run the seeds (100: those from 0 to 99) one after the other; PromiseBroken at the first one
    that breaks a promise. `upgrades` are later releases of the fleet, taken on the way."""
    programs = [fleet, *upgrades]
    for older, newer in pairwise(programs):
        check_upgrade(older, newer)
    began = time.monotonic()
    tally = Tally()
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        done, findings = judged(programs, seed)
        tally.add(done, findings)
        if findings:
            raise PromiseBroken(explain(programs, (done, findings), f"{command} --seed {seed}"))
    tally.seconds = time.monotonic() - began
    return tally


def check_upgrade(older: FleetModel, newer: FleetModel) -> None:
    """Raise SchemaError for classes that no rolling upgrade may bring."""
    catalog = MemoryEngine(older.name).catalog
    agree(older, catalog)
    agree(newer, catalog)


def judged(programs: Sequence[FleetModel], seed: int, restriction: Restriction = WHOLE) -> Judged:
    done = run(programs, seed, restriction)
    return done, judge(done.evidence)


def explain(programs: Sequence[FleetModel], failed: Judged, command: str) -> str:
    seed = failed[0].seed
    minimiser = Minimiser(lambda smaller: judged(programs, seed, smaller), failed)
    return tell(*minimiser.minimise(), command)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends whatever runs longer, with a traceback that names the place."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Overrun(f"a run took more than {seconds:g} s: does a handler end?")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Overrun as overrun:
        raise SimulationError(str(overrun)) from overrun
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Campaign:
    """Seeds on several processes, until they are done or time is up."""

    def __init__(self, programs: Sequence[FleetModel], jobs: int) -> None:
        self._programs = list(programs)
        self._jobs = jobs

    def tallies(self, first: int, count: int | None, seconds: float | None) -> Iterator[Tally]:
        """Tallies as they come, each of a few seeds. `count` None: until the time is up."""
        until = None if seconds is None else time.monotonic() + seconds
        last = None if count is None else first + count
        if self._jobs == 1:
            yield from self._share(first, 1, last, until)
            return
        context = multiprocessing.get_context("fork")  # the fleet's classes are inherited, not sent
        results: multiprocessing.SimpleQueue[Tally | None] = context.SimpleQueue()
        processes = [
            context.Process(target=self._work, args=(results, first + n, last, until), daemon=True)
            for n in range(self._jobs)
        ]
        for process in processes:
            process.start()
        working = len(processes)
        while working:
            if results.empty():
                _check_alive(processes)
                time.sleep(0.05)
                continue
            tally = results.get()
            if tally is None:
                working -= 1
            else:
                yield tally
        for process in processes:
            process.join()

    def _work(
        self,
        results: multiprocessing.SimpleQueue[Tally | None],
        first: int,
        last: int | None,
        until: float | None,
    ) -> None:
        try:
            for tally in self._share(first, self._jobs, last, until):
                results.put(tally)
            results.put(None)
        except KeyboardInterrupt:
            sys.exit(130)

    def _share(
        self, first: int, step: int, last: int | None, until: float | None
    ) -> Iterator[Tally]:
        tally = Tally()
        for seed in itertools.count(first, step):
            if (last is not None and seed >= last) or (until and time.monotonic() > until):
                break
            try:
                with limited(SEED_SECONDS_MAX):
                    tally.add(*judged(self._programs, seed))
            except Exception:
                tally.crash(seed, traceback.format_exc())
            if tally.seeds == SEEDS_PER_TALLY:
                yield tally
                tally = Tally()
        yield tally


def _check_alive(processes: Sequence[BaseProcess]) -> None:
    """Whoever ends without a word has not run its seeds."""
    for process in processes:
        if process.exitcode not in (None, 0):
            raise SimulationError(f"a process of the campaign ended with {process.exitcode}")
