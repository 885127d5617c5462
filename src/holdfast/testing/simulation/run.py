"""One run of one seed: faults for a while, then none, and everything has to settle."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.engine.port import waiting_in
from holdfast.model.fleet import FleetModel
from holdfast.runtime.calling.lane import PAUSE_SECONDS_MAX
from holdfast.testing.simulation.clients import Client
from holdfast.testing.simulation.evidence import Evidence
from holdfast.testing.simulation.faults import WHOLE, Fault, Faults, Restriction
from holdfast.testing.simulation.machine import Machine
from holdfast.testing.simulation.store import EVERYTHING
from holdfast.testing.simulation.universe import Line, Universe

OPERATIONS = (30, 90)  # by all clients together
THINKING_SECONDS = 0.25  # between two operations, on average
SETTLE_SECONDS = 120.0  # after the last fault; the slowest rest on the way is a second
SKIP_SECONDS = 3_000.0  # time that passes at once, so that late timers come due


@dataclass
class Run:
    """What a run has left behind."""

    seed: int
    evidence: Evidence
    trace: list[Line]
    trace_hash: str
    struck: list[tuple[Fault, int]]
    chances: Counter[Fault]
    operations: int
    seconds: float  # of virtual time


def run(
    programs: Sequence[FleetModel],
    seed: int,
    restriction: Restriction = WHOLE,
) -> Run:
    """The same seed and restriction give the same run, in every process."""
    with _quietly():
        universe = Universe(seed)
        faults = Faults(universe, restriction)
        random = universe.random
        partitions = random.randint(1, 4)
        workers = random.randint(1, min(3, partitions))
        machine = Machine(universe, faults, programs, partitions, workers)
        evidence = Evidence(list(programs), {}, [])
        clients = [Client(machine, n + 1, evidence) for n in range(random.randint(1, 4))]
        done = _under_faults(universe, clients, restriction)
        machine.heal()
        _settle(machine, clients, evidence)
        for client in clients:
            client.read_to_the_end()
    evidence.schemas = machine.store.image.catalog.schemas()
    evidence.generations = machine.store.generations
    evidence.condemned = machine.store.condemned
    evidence.premature = machine.store.premature
    evidence.attempts = machine.attempts
    evidence.ended = universe.now
    return Run(
        seed,
        evidence,
        universe.trace,
        universe.trace_hash,
        faults.struck,
        faults.chances,
        done,
        universe.now,
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """What workers log is in the trace; a thousand runs would fill the terminal with it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _under_faults(universe: Universe, clients: list[Client], restriction: Restriction) -> int:
    wanted = universe.random.randint(*OPERATIONS)
    if restriction.operations_max is not None:
        wanted = min(wanted, restriction.operations_max)
    for done in range(wanted):
        client = universe.random.choice(clients)
        thinking = universe.random.uniform(0.0, 2.0 * THINKING_SECONDS)
        universe.at(universe.now + thinking, client.act)
        if done % len(clients) == 0:
            universe.sleep(thinking)
    universe.sleep(2.0)
    return wanted


def _settle(machine: Machine, clients: list[Client], evidence: Evidence) -> None:
    """Liveness: within a bound all is sent, folded, delivered, and due timers have fired."""
    universe = machine.universe
    deadline = universe.now + SETTLE_SECONDS + _patience(machine)
    for skip in (0.0, SKIP_SECONDS):
        machine.clock.offset += skip
        before: object = None
        while universe.now < deadline:
            sent = not [client for client in clients if not client.finish()]
            wall = machine.wall().wall
            universe.sleep(1.0)
            now = _quiet_at(machine)
            if sent and machine.calm and now is not None and now == before:
                evidence.quiet = True
                evidence.clock_at_quiet = wall - 1.0  # the slowest clock is half a second behind
                break
            before = now
        else:
            evidence.quiet = False
            return


def _patience(machine: Machine) -> float:
    """As long as a call may rest before its next attempt, which then succeeds."""
    views = [machine.store.image.view(n) for n in machine.layout.numbers]
    calls = [call for view in views for call in view.calls(0, EVERYTHING)]
    rests = [call.backoff * 2.0 ** min(call.retries, 20) for call in calls]
    return min(PAUSE_SECONDS_MAX, max(rests, default=0.0))


def _quiet_at(machine: Machine) -> object:
    """The heads at which nothing waits anywhere, or None."""
    image = machine.store.image
    views = {n: image.view(n) for n in machine.layout.numbers}
    for view in views.values():
        if waiting_in(view, view.head()) or view.calls(0, 1):
            return None
        for destination, following in view.sent_next().items():
            if views[destination].marks().get(view.incarnation(), 0) != following - 1:
                return None
    heads = [view.head() for view in views.values()]
    return [(head.position, head.urgent) for head in heads]
