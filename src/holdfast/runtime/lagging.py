"""Lag: what waits in each partition, and since when."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.engine.port import Engine, View
from holdfast.stepping.grounding import read_ground


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
        _lag(number, engine.view(number), clock, engine.paused_seconds(number))
        for number in engine.catalog.layout.numbers
    ]


def _lag(number: int, view: View, clock: Callable[[], float], paused_seconds: float | None) -> Lag:
    head = view.head()
    folded = head.position
    inbox = max(folded, view.inbox_next())
    waiting = view.frames(folded, 1) if inbox > folded else []
    # The time of now, not of the question: a view may have been made for it, of what others own.
    oldest = max(0.0, clock() - waiting[0].stamp) if waiting else 0.0
    ground = read_ground(head.ground_stop)
    why = ground.why if ground is not None and ground.in_force else ""
    return Lag(number, inbox, folded, oldest, view.owner(), paused_seconds, why)


def as_metrics(fleet: str, found: list[Lag]) -> str:
    """In the text format of Prometheus."""
    families: dict[str, Sequence[float | None]] = {
        "holdfast_inbox_events_total counter": [lag.inbox for lag in found],
        "holdfast_folded_events_total counter": [lag.folded for lag in found],
        "holdfast_lag_events gauge": [lag.waiting for lag in found],
        "holdfast_lag_seconds gauge": [round(lag.oldest_seconds, 3) for lag in found],
        "holdfast_ground_stop gauge": [int(bool(lag.ground_stop)) for lag in found],
        "holdfast_handover_pause_seconds gauge": [lag.paused_seconds for lag in found],
    }
    lines = []
    for family, values in families.items():
        if all(value is None for value in values):
            continue  # partitions of this engine are not handed over
        lines.append(f"# TYPE {family}")
        name = family.split()[0]
        for lag, value in zip(found, values, strict=True):
            if value is not None:
                lines.append(f'{name}{{fleet="{fleet}",partition="{lag.partition}"}} {value}')
    return "\n".join(lines) + "\n"
