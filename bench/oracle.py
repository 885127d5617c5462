"""What has to come out, in NumPy: the final states and the actions of a stream, as sums of hashes.

It shares nothing with the programs but the events. Sums do not depend on the order of partitions,
so they are compared with `==`: one per field over all agents, one per class of action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.events import (
    BATTERY,
    HEARTBEAT,
    NEAR,
    POSITION,
    WORD,
    Events,
    Floats,
    Ints,
    Stream,
    mix,
)

CHUNK = 1 << 20
FLOATS = ("lat", "lon", "alt", "battery", "closest")
COUNTS = ("mode", "moves", "beats", "warnings")
ACTIONS = ("Descend", "Land", "Avoid", "Lost")


@dataclass(frozen=True)
class Outcome:
    """States and actions after a run, as every contender reports them."""

    agents: int
    states: dict[str, int]  # field to hash
    actions: dict[str, tuple[int, int]]  # class to count and hash

    def differences(self, found: Outcome) -> list[str]:
        """One line for each thing that `found` has otherwise."""
        lines = []
        if self.agents != found.agents:
            lines.append(f"{found.agents} agents instead of {self.agents}")
        for name, value in self.states.items():
            if found.states.get(name) != value:
                lines.append(f"states differ in {name}")
        for name, (count, value) in self.actions.items():
            there, other = found.actions.get(name, (0, 0))
            if there != count:
                lines.append(f"{there} actions {name} instead of {count}")
            elif other != value:
                lines.append(f"{count} actions {name}, but others")
        return lines


def hashes(agents: Sequence[int] | NDArray[np.int64], values: Floats | NDArray[np.int64]) -> Ints:
    """One per agent and value: integers as they are, floats by their bits."""
    return mix(mix(np.asarray(agents, dtype=np.int64).view(np.uint64)) ^ values.view(np.uint64))


def total(found: Ints) -> int:
    return int(found.sum(dtype=np.uint64)) & WORD


@dataclass
class Tally:
    """Actions counted and hashed as they come."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACTIONS, 0))
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACTIONS, 0))

    def add(self, name: str, agents: Sequence[int] | NDArray[np.int64], values: Floats) -> None:
        self.counts[name] += len(agents)
        self.sums[name] = self.sums[name] + total(hashes(agents, values)) & WORD

    def outcome(self) -> dict[str, tuple[int, int]]:
        return {name: (self.counts[name], self.sums[name]) for name in ACTIONS}


def states_outcome(
    columns: Mapping[str, Floats | NDArray[np.int64]], there: Ints
) -> dict[str, int]:
    """Of agents that exist; `there` are their numbers."""
    agents = there.astype(np.int64)
    return {name: total(hashes(agents, columns[name][agents])) for name in (*FLOATS, *COUNTS)}


class Oracle:
    """The drone program over arrays with one row per agent."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        count = stream.agents
        self._floats = {name: np.zeros(count) for name in FLOATS}
        self._floats["battery"][:] = 100.0
        self._floats["closest"][:] = 1.0
        self._counts = {name: np.zeros(count, dtype=np.int64) for name in COUNTS}
        self._there = np.zeros(count, dtype=bool)
        self._tally = Tally()

    def take(self, lane: int, lanes: int, count: int) -> None:
        """The first `count` events of a lane. Lanes may come one after the other."""
        for first in range(0, count, CHUNK):
            self._fold(Events(self._stream, lane, lanes, first, min(CHUNK, count - first)))

    def outcome(self) -> Outcome:
        columns: dict[str, Floats | NDArray[np.int64]] = {**self._floats, **self._counts}
        there = np.flatnonzero(self._there).astype(np.uint64)
        return Outcome(len(there), states_outcome(columns, there), self._tally.outcome())

    def _fold(self, part: Events) -> None:
        self._there[part.agent] = True
        self._move(part, part.kind == POSITION)
        if self._stream.mix == "mixed":
            self._drain(part, part.kind == BATTERY)
            self._count("beats", part.agent[part.kind == HEARTBEAT])
        if self._stream.mix == "messages":
            self._warn(part.peer[part.kind == NEAR], part.distance[part.kind == NEAR])

    def _count(self, name: str, agents: NDArray[np.int64]) -> None:
        self._counts[name] += np.bincount(agents, minlength=self._stream.agents)

    def _move(self, part: Events, rows: NDArray[np.bool_]) -> None:
        agent, alt = part.agent[rows], part.alt[rows]
        # Where an agent occurs more than once, NumPy leaves what was assigned last.
        for name, values in (("lat", part.lat[rows]), ("lon", part.lon[rows]), ("alt", alt)):
            self._floats[name][agent] = values
        self._count("moves", agent)
        high = alt > 100.0
        self._tally.add("Descend", agent[high], alt[high] - 20.0)

    def _drain(self, part: Events, rows: NDArray[np.bool_]) -> None:
        """Below 15 % it lands, from 90 % on it flies again: the last such event decides."""
        agent, percent = part.agent[rows], part.percent[rows]
        self._floats["battery"][agent] = percent
        decides = (percent < 15.0) | (percent >= 90.0)
        agent, lands = agent[decides], (percent[decides] < 15.0).astype(np.int64)
        order = np.argsort(agent, kind="stable")
        agent, lands = agent[order], lands[order]
        begins = np.ones(len(agent), dtype=bool)
        begins[1:] = agent[1:] != agent[:-1]
        before = np.empty_like(lands)
        before[1:] = lands[:-1]
        before[begins] = self._counts["mode"][agent[begins]]
        landed = agent[(lands == 1) & (before == 0)]
        self._tally.add("Land", landed, np.zeros(len(landed)))
        ends = np.append(begins[1:], True) if len(agent) else begins
        self._counts["mode"][agent[ends]] = lands[ends]

    def _warn(self, peer: NDArray[np.int64], distance: Floats) -> None:
        self._there[peer] = True
        self._count("warnings", peer)
        np.minimum.at(self._floats["closest"], peer, distance)
        close = distance < 0.015625
        self._tally.add("Avoid", peer[close], distance[close])


def expect(stream: Stream, counts: Sequence[int]) -> Outcome:
    """After `counts[i]` events of lane i of `len(counts)` lanes."""
    oracle = Oracle(stream)
    for lane, count in enumerate(counts):
        oracle.take(lane, len(counts), count)
    return oracle.outcome()
