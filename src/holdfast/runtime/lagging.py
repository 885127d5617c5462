"""Lag: what waits in each partition, and since when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.engine.port import Engine, View
from holdfast.runtime.metering.families import FAMILIES
from holdfast.runtime.metering.samples import Sample, exposed, gauge
from holdfast.stepping.grounding import read_ground
from holdfast.stepping.lane import LANE


class Lag(NamedTuple):
    partition: int
    inbox: int  # events that came, ever
    folded: int
    oldest_seconds: float  # since the oldest that waits came; 0.0 if none does
    owner: str
    paused_seconds: float | None = None  # at its last handover, as far as events waited
    ground_stop: str = ""  # why, while one is in force

    @property
    def waiting(self) -> int:
        return self.inbox - self.folded


def lags(engine: Engine, clock: Callable[[], float] = time.time) -> list[Lag]:
    return [
        lag_of(number, engine.view(number), engine.paused_seconds(number), clock)
        for number in engine.catalog.layout.numbers
    ]


def lag_of(
    number: int,
    view: View,
    paused_seconds: float | None,
    clock: Callable[[], float] = time.time,
) -> Lag:
    head = view.head()
    folded = head.position + head.urgent
    following, urgent = view.inbox_next(), view.urgent_next()
    inbox = max(folded, following + urgent)
    waiting = view.frames(head.position, 1) if following > head.position else []
    if urgent > head.urgent:
        waiting += view.frames(LANE + head.urgent, 1)
    # The time of now, not of the question: a view may have been made for it, of what others own.
    now = clock()
    oldest = max((max(0.0, now - frame.stamp) for frame in waiting), default=0.0)
    ground = read_ground(head.ground_stop)
    why = ground.why if ground is not None and ground.in_force else ""
    return Lag(number, inbox, folded, oldest, view.owner(), paused_seconds, why)


def lag_samples(found: list[Lag]) -> Iterator[Sample]:
    for lag in found:
        own = {"partition": lag.partition}
        yield gauge("holdfast_inbox_events_total", lag.inbox, **own)
        yield gauge("holdfast_folded_events_total", lag.folded, **own)
        yield gauge("holdfast_lag_events", lag.waiting, **own)
        yield gauge("holdfast_lag_seconds", round(lag.oldest_seconds, 3), **own)
        yield gauge("holdfast_ground_stop", int(bool(lag.ground_stop)), **own)
        if lag.paused_seconds is not None:  # partitions of other engines are not handed over
            yield gauge("holdfast_handover_pause_seconds", lag.paused_seconds, **own)


def as_metrics(fleet: str, found: list[Lag]) -> str:
    """In the text format of Prometheus."""
    return exposed(FAMILIES, lag_samples(found), {"fleet": fleet}).decode()
