"""The drone program on Bytewax: `python -m bytewax.run` does not fit, it is run by `main` below.

    python drones.py PLAN.json OUT.json

Events come from the same integers as everywhere else (bench/events.py), here in plain Python, one
lane per worker. A state is handed out at the end of its stream. Runs with a recovery store and an
epoch per second.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

WORD = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15
RESTS = 8
POSITION, BATTERY, HEARTBEAT, NEAR, WARNED = range(5)
FIELDS = ("lat", "lon", "alt", "battery", "closest", "mode", "moves", "beats", "warnings")
FRESH = (0.0, 0.0, 0.0, 100.0, 1.0, 0, 0, 0, 0)
ACTIONS = ("Descend", "Land", "Avoid", "Lost")
BATCH = 256


def mix(x: int) -> int:
    x &= WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def hashed(agent: int, value: float | int) -> int:
    bits = struct.unpack("<Q", struct.pack("<d", value))[0] if isinstance(value, float) else value
    return mix(mix(agent) ^ bits)


def make(plan: dict[str, Any], n: int) -> tuple[str, tuple[Any, ...]]:
    """Event `n`: its key, and its kind with what that kind needs."""
    agents = plan["agents"]
    one = mix(n * GOLDEN + plan["seed"])
    two = mix(one)
    low, high = one & 0xFFFFFFFF, two >> 40
    agent = n if n < agents else (((one >> 32) * (agents // RESTS)) >> 32) * RESTS + n % RESTS
    key, draw = f"d-{agent}", two & 0xFF
    if plan["mix"] == "messages" and draw < 51:
        return key, (NEAR, f"d-{(low * agents) >> 32}", high * 2.0**-24)
    if plan["mix"] == "mixed" and draw < 102:
        return key, (BATTERY, high * (100 * 2.0**-24)) if draw < 64 else (HEARTBEAT, high)
    alt = high * (101 * 2.0**-24)
    if plan["every"]:
        alt = 101.0 + n * 2.0**-20 if n % plan["every"] == 0 else high * 2.0**-24
    return key, (POSITION, low * 2.0**-32, ((two >> 8) & 0xFFFFFFF) * 2.0**-28, alt)


class Clock:
    """One for all workers: they are threads of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begin = 0.0
        self.counts: dict[int, int] = {}
        self.told = 0.0


CLOCK = Clock()


class Lane(StatefulSourcePartition[tuple[str, Any], int]):
    def __init__(self, plan: dict[str, Any], lane: int, at: int) -> None:
        self._plan, self._lane, self._at = plan, lane, at
        self._lanes = plan["workers"]
        self._least = -(-plan["agents"] // self._lanes)
        self._total = plan["most"] // self._lanes
        with CLOCK.lock:
            CLOCK.begin = CLOCK.begin or time.perf_counter()

    def next_batch(self) -> list[tuple[str, Any]]:
        now = time.perf_counter() - CLOCK.begin
        self._tell(now)
        count = BATCH
        if self._total:
            if self._at >= self._total:
                raise StopIteration
            count = min(BATCH, self._total - self._at)
            if self._plan["rate"]:
                due = int(now * self._plan["rate"] / self._lanes)
                count = min(count, max(0, due - self._at))
        elif now >= self._plan["seconds"] and self._at >= self._least:
            raise StopIteration
        numbers = range(self._at, self._at + count)
        self._at += count
        CLOCK.counts[self._lane] = self._at
        return [make(self._plan, n * self._lanes + self._lane) for n in numbers]

    def next_awake(self) -> datetime | None:
        if not self._plan["rate"]:
            return None
        return datetime.now(UTC) + timedelta(milliseconds=0.5)

    def snapshot(self) -> int:
        return self._at

    def _tell(self, now: float) -> None:
        if now - CLOCK.told >= 5.0:
            CLOCK.told = now
            made = sum(CLOCK.counts.values())
            print(f"    bytewax: {now:3.0f} s, {made / 1e6:.2f} M events made", file=sys.stderr)


class Lanes(FixedPartitionedSource[tuple[str, Any], int]):
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    def list_parts(self) -> list[str]:
        return [str(n) for n in range(self._plan["workers"])]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Lane:
        return Lane(self._plan, int(for_part), resume_state or 0)


class Drone(StatefulBatchLogic[tuple[Any, ...], tuple[Any, ...], list[Any]]):
    """The state is a list in the order of FIELDS; outputs say what they are first."""

    def __init__(self, plan: dict[str, Any], state: list[Any] | None) -> None:
        *self._state, self._deadline = [*FRESH, None] if state is None else state
        self._silent_after = plan["watchdog"]

    def on_batch(self, values: list[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], bool]:
        out: list[tuple[Any, ...]] = []
        state = self._state
        for event in values:
            kind = event[0]
            if kind == POSITION:
                state[0], state[1], state[2] = event[1:]
                state[6] += 1
                if event[3] > 100.0:
                    out.append(("Descend", event[3] - 20.0))
                if self._silent_after:
                    self._deadline = datetime.now(UTC) + timedelta(seconds=self._silent_after)
            elif kind == BATTERY:
                state[3] = event[1]
                if not state[5] and event[1] < 15.0:
                    state[5] = 1
                    out.append(("Land", 0.0))
                elif state[5] and event[1] >= 90.0:
                    state[5] = 0
            elif kind == HEARTBEAT:
                state[7] += 1
            elif kind == NEAR:
                out.append(("send", event[1], (WARNED, event[2])))
            else:
                state[8] += 1
                state[4] = min(state[4], event[1])
                if event[1] < 0.015625:
                    out.append(("Avoid", event[1]))
        return out, StatefulBatchLogic.RETAIN

    def on_notify(self) -> tuple[list[tuple[Any, ...]], bool]:
        self._deadline = None
        return [("Lost", 0.0)], StatefulBatchLogic.RETAIN

    def on_eof(self) -> tuple[list[tuple[Any, ...]], bool]:
        return [("state", *self._state)], StatefulBatchLogic.RETAIN

    def notify_at(self) -> datetime | None:
        return self._deadline

    def snapshot(self) -> list[Any]:
        return [*self._state, self._deadline]


class Tally:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(ACTIONS, 0)
        self.sums = dict.fromkeys(ACTIONS, 0)
        self.states = dict.fromkeys(FIELDS, 0)
        self.agents = 0
        self.handed: list[float] = []  # when states were handed out: the check's time
        self.latencies: list[float] = []


TALLY = Tally()


class Counting(StatelessSinkPartition[tuple[str, tuple[Any, ...]]]):
    """Throws actions away, but counts and hashes them."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    def write_batch(self, items: list[tuple[str, tuple[Any, ...]]]) -> None:
        with CLOCK.lock:
            now = time.perf_counter()
            for key, (what, *values) in items:
                agent = int(key[2:])
                if what in ACTIONS:
                    TALLY.counts[what] += 1
                    TALLY.sums[what] += hashed(agent, values[0])
                    if self._plan["rate"]:
                        number = (values[0] - 81.0) * 2.0**20
                        if number >= self._plan["first_counted"]:
                            due = CLOCK.begin + number / self._plan["rate"]
                            TALLY.latencies.append(now - due)
                    continue
                late = what == "late"
                TALLY.handed.append(now)
                TALLY.agents += not late
                for name, value, fresh in zip(FIELDS, values, FRESH, strict=True):
                    known = hashed(agent, fresh) if late else 0
                    TALLY.states[name] += hashed(agent, value) - known


class CountingSink(DynamicSink[tuple[str, tuple[Any, ...]]]):
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counting:
        return Counting(self._plan)


def flow(plan: dict[str, Any]) -> Dataflow:
    flow = Dataflow("drones")
    events = op.input("events", flow, Lanes(plan))
    outputs = op.stateful_batch("drone", events, lambda state: Drone(plan, state))
    if plan["mix"] == "messages":
        # A dataflow has no way back: messages go on to a second step with the rest of the state.
        parts = op.branch("parts", outputs, lambda pair: pair[1][0] == "send")
        messages = op.map("messages", parts.trues, lambda pair: (pair[1][1], pair[1][2]))
        warned = op.stateful_batch("warned", messages, lambda state: Drone(plan, state))
        late = op.map_value("late", warned, lambda v: ("late", *v[1:]) if v[0] == "state" else v)
        op.output("warnings", late, CountingSink(plan))
        outputs = parts.falses
    op.output("actions", outputs, CountingSink(plan))
    return flow


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    store = Path(plan["folder"]) / "recovery"
    store.mkdir()
    init_db_dir(store, plan["workers"])
    cluster_main(
        flow(plan),
        [],
        0,
        epoch_interval=timedelta(seconds=1),
        recovery_config=RecoveryConfig(str(store)),
        worker_count_per_proc=plan["workers"],
    )
    checking = TALLY.handed[-1] - TALLY.handed[0]
    result = {
        "counts": [CLOCK.counts[lane] for lane in sorted(CLOCK.counts)],
        "seconds": time.perf_counter() - CLOCK.begin - checking,
        "agents": TALLY.agents,
        "states": {name: value & WORD for name, value in TALLY.states.items()},
        "actions": {name: [TALLY.counts[name], TALLY.sums[name] & WORD] for name in ACTIONS},
        "latencies": TALLY.latencies,
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
