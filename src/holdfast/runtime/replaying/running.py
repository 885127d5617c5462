"""All partitions of a fleet replayed, each in a process of its own, on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from holdfast.engine.port import Engine
from holdfast.engine.urls import open_engine
from holdfast.errors import GiveUp, UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.replaying.comparing import Comparison, Outcome
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.history import History, all_slots
from holdfast.runtime.schemas import codebook_of
from holdfast.runtime.snapshots.beginnings import find_start, snapshots_at, why_not
from holdfast.runtime.snapshots.store import SnapshotStore


def partitions(engine: Engine, until: Until = END, only: int | None = None) -> list[int]:
    """Every partition there ever was, retired ones too; with a position, the one it is of."""
    numbers = sorted(all_slots(engine.catalog))
    if until.position is None:
        return numbers
    if only is None and len(numbers) > 1:
        raise UsageError(
            f"a position is one partition's own, and there are {len(numbers)}: write "
            f"PARTITION:NUMBER, as in {numbers[-1]}:{until.position}"
        )
    if only is not None and only not in numbers:
        raise UsageError(f"there is no partition {only}: there are 0 to {numbers[-1]}")
    return numbers if only is None else [only]


def compare(
    engine: Engine,
    fleet: FleetModel,
    number: int,
    until: Until = END,
    store: SnapshotStore | None = None,
) -> Outcome:
    """One partition, here."""
    history = History(engine, number)
    start = find_start(history, store)
    if start is None or (start.what and until.is_before(start.head)):
        return Outcome(number, begins=why_not(history, store))
    codebook = codebook_of(fleet, engine.catalog.schemas())
    return Comparison(fleet, codebook, engine, history, start, until).run()


def compare_all(
    reference: str,
    url: str,
    numbers: Sequence[int],
    until: Until = END,
    snapshots: str | None = None,
) -> Iterator[Outcome]:
    """Outcomes in the order of `numbers`, each as soon as those before it are there."""
    processes = min(len(numbers), os.cpu_count() or 1)
    # Spawned: a fork would copy connections of SQLite, which must not be used in two processes.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        jobs = [pool.submit(_work, reference, url, n, until, snapshots) for n in numbers]
        try:
            for job in jobs:
                yield job.result()
        except BrokenProcessPool:
            raise GiveUp(
                f"a process that replayed with {reference} ended: the code ends its process on "
                "some event, or the memory ran out; --agent AGENT/KEY folds one agent alone"
            ) from None


def _work(reference: str, url: str, number: int, until: Until, snapshots: str | None) -> Outcome:
    fleet = load_fleet(reference)
    engine = open_engine(url, fleet.name)
    try:
        with snapshots_at(snapshots, engine) as store:
            return compare(engine, fleet, number, until, store)
    finally:
        engine.close()
