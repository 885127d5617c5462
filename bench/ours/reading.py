"""What a fleet holds after a run, in the form of the oracle; and a reader that times actions.

`python -m bench.ours.reading URL OUT` is that reader: it notes when it first sees each action of a
latency run, until a file OUT.stop says how many there will be.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from bench.events import number_of
from bench.oracle import COUNTS, FLOATS, Outcome, Tally, states_outcome
from bench.program import Avoid, Descend, Drone, Mode, fleet
from holdfast import Live

POLL_SECONDS = 0.0005


def outcome_of(live: Live, agents: int) -> Outcome:
    floats = {name: np.zeros(agents) for name in FLOATS}
    counts = {name: np.zeros(agents, dtype=np.int64) for name in COUNTS}
    there = []
    for key, state in live.states(Drone):
        if not key.startswith("d-"):
            continue  # it warmed a worker up
        agent = int(key[2:])
        there.append(agent)
        for name in FLOATS:
            floats[name][agent] = getattr(state, name)
        counts["mode"][agent] = int(state.mode is Mode.LANDING)
        for name in ("moves", "beats", "warnings"):
            counts[name][agent] = getattr(state, name)
    states = states_outcome({**floats, **counts}, np.array(there, dtype=np.uint64))
    return Outcome(len(there), states, actions_of(live).outcome())


def actions_of(live: Live) -> Tally:
    tally = Tally()
    cursor = None
    while page := live.actions(after=cursor, most=65_536):
        cursor = page.cursor
        found: dict[str, tuple[list[int], list[float]]] = {}
        for issued in page:
            action = issued.action
            value = 0.0
            if isinstance(action, Descend):
                value = action.to
            elif isinstance(action, Avoid):
                value = action.distance
            agents, values = found.setdefault(type(action).__name__, ([], []))
            agents.append(int(issued.key[2:]))
            values.append(value)
        for name, (agents, values) in found.items():
            tally.add(name, agents, np.array(values))
    return tally


def watch(url: str, out: Path) -> None:
    stop = out.with_name(out.name + ".stop")
    numbers: list[float] = []
    times: list[float] = []
    expected = None
    with fleet.connect(url) as live:
        cursor = live.actions(most=10**9).cursor
        print("ready", flush=True)
        while expected is None or len(numbers) < expected:
            page = live.actions(after=cursor)
            now = time.perf_counter()
            for issued in page:
                action = issued.action
                assert isinstance(action, Descend)
                numbers.append(action.to)
                times.append(now)
            cursor = page.cursor
            if not page:
                if stop.exists():
                    expected = int(json.loads(stop.read_text()))
                time.sleep(POLL_SECONDS)
    np.savez(out, number=number_of(np.array(numbers)), time=np.array(times))


if __name__ == "__main__":
    watch(sys.argv[1], Path(sys.argv[2]))
