"""The exposition: what Prometheus scrapes, merged from processes and views.

Processes of this machine tell what they count (board.py); views tell of all partitions, wherever
they are folded. So of a fleet on several machines each one tells of its own processes, and all of
them tell of positions and lag: take the maximum, not the sum.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.port import Engine, View
from holdfast.errors import HoldfastError
from holdfast.runtime.lagging import lag_of, lag_samples
from holdfast.runtime.metering.board import Bulletin, board_of, bulletins
from holdfast.runtime.metering.families import FAMILIES
from holdfast.runtime.metering.samples import Sample, exposed, gauge

if TYPE_CHECKING:
    from holdfast.runtime.handle import Handle

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGION = "HOLDFAST_REGION"
LETTERS_COUNTED_MAX = 1_000
LOOK_SECONDS_MAX = 5.0  # for all partitions that other machines fold: a scrape has 10 s
_ONE_SECONDS = 0.1  # for one of them, however little time is left
_RESTARTS = "holdfast_process_restarts_total"


def exposition(live: Handle, more: Iterable[Sample] = ()) -> bytes:
    """Everything that is measured of a fleet, in the text format of Prometheus.

    `more` are samples of the caller's own, of families that are known.
    """
    return expose(live.engine, (*live.own_samples(), *more))


def expose(engine: Engine, own: Iterable[Sample] = ()) -> bytes:
    """`own` is what this process tells of itself, where it does not publish."""
    told = list(own)
    board = board_of(engine)
    posted = bulletins(board) if board is not None else []
    if told:
        posted = [each for each in posted if each.pid != os.getpid()]
    samples = [
        *_of_partitions(engine),
        *_of_fleet(engine, board),
        *_ups(posted, told, time.time()),
        *told,
        *(sample for each in reversed(posted) for sample in each.samples),
    ]
    # Of two who tell the same, the one that told it last is right: a process that was replaced
    # while it stood still is the older one.
    unique: dict[tuple[str, object], Sample] = {}
    for sample in samples:
        unique.setdefault((sample.name, sample.labels), sample)
    common = {"fleet": engine.catalog.fleet, "region": os.environ.get(REGION, "")}
    return exposed(FAMILIES, unique.values(), common)


def _of_partitions(engine: Engine) -> Iterator[Sample]:
    unreadable = 0
    deadline = time.monotonic() + LOOK_SECONDS_MAX
    for number in engine.catalog.layout.numbers:
        try:
            view = engine.view(number, max(_ONE_SECONDS, deadline - time.monotonic()))
            found = [*_of_partition(number, view)]
            found += lag_samples([lag_of(number, view, engine.paused_seconds(number))])
        except HoldfastError:
            unreadable += 1  # its other metrics go on, and this one says why some are missing
            continue
        yield from found
    yield gauge("holdfast_unreadable_partitions", unreadable)
    yield gauge("holdfast_partitions", len(engine.catalog.layout.numbers))


def _of_partition(number: int, view: View) -> Iterator[Sample]:
    head = view.head()
    letters = head.letters_next - 1
    own = {"partition": number}
    yield gauge("holdfast_commits_total", head.commits, **own)
    yield gauge("holdfast_actions_total", head.actions_next, **own)
    yield gauge("holdfast_timers_fired_total", head.journal_next, **own)
    yield gauge("holdfast_calls_total", head.calls_next - 1, **own)
    yield gauge("holdfast_dead_letters_total", letters, **own)
    if letters <= LETTERS_COUNTED_MAX:
        waiting = [redriven for _, redriven in view.letters()].count(False) if letters else 0
        yield gauge("holdfast_dead_letters", waiting, **own)
    oldest = view.calls(0, 1)
    seconds = max(0.0, time.time() - oldest[0].now) if oldest else 0.0
    yield gauge("holdfast_oldest_call_seconds", round(seconds, 3), **own)
    yield gauge("holdfast_partition_owned", bool(view.owner()), **own)


def _of_fleet(engine: Engine, board: Path | None) -> Iterator[Sample]:
    yield gauge("holdfast_backlog_events_max", engine.limits.backlog_events_max)
    if board is not None:
        status = os.statvfs(board.parent)
        yield gauge("holdfast_disk_free_bytes", status.f_bavail * status.f_frsize)
        yield gauge("holdfast_disk_reserve_bytes", engine.limits.disk_reserve_bytes)


def _ups(posted: list[Bulletin], own: list[Sample], now: float) -> Iterator[Sample]:
    """Whether each runs that runs, or that its supervisor knows."""
    up = {each.process: each.fresh(now) for each in posted}
    for samples in (own, *(each.samples for each in posted)):
        for sample in samples:
            name = dict(sample.labels).get("process")
            if name is not None and sample.name == _RESTARTS:
                up.setdefault(name, False)
            elif name is not None and samples is own:
                up[name] = True
    for name, well in up.items():
        yield gauge("holdfast_process_up", well, process=name)
