"""`python -m bench.calls`: what ten thousand open calls cost the fold of everybody else, as JSON.

Positions of 5,000 drones wait in an inbox; the clock runs from the first look of the worker until
all are folded. In one directory nobody calls; in the other 10,000 calls of other agents are open,
their functions run, and none of them ends. Both are folded in turn, several times.
The rates are the best ones, the ratios are medians of the turns. The second ratio counts seconds of
the processor, of the caller's thread too, and tells the same on a crowded machine.

Beside it: the time from an event that calls a trivial function to its committed reply.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

from bench.drones import KEYS, Drone, Position, coordinates
from holdfast import Agent, CallFailed, Context, Event, Fleet, Live, call, on
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.urls import open_engine
from holdfast.runtime.calling.status import read_status
from holdfast.runtime.calling.thread import CallerThread
from holdfast.runtime.worker import Worker

OPEN_CALLS = 10_000
CALLS_PER_AGENT = 100
BATCH = 4_096


class Wait(Event):
    pass


class Ping(Event):
    pass


class Over(Event):
    pass


class Pong(Event):
    pass


@call(concurrency=2)
def hang() -> Over:
    time.sleep(3600.0)
    return Over()


@call
def pong() -> Pong:
    return Pong()


class Waiter(Agent):
    over: int = 0
    pongs: int = 0

    @on
    def wait(self, event: Wait, ctx: Context) -> None:
        for _ in range(CALLS_PER_AGENT):
            ctx.call(hang, reply=Over, timeout=7200.0)

    @on
    def ping(self, event: Ping, ctx: Context) -> None:
        ctx.call(pong, reply=Pong)

    @on
    def ended(self, event: Over | Pong | CallFailed, ctx: Context) -> None:
        if isinstance(event, Pong):
            self.pongs += 1
        else:
            self.over += 1


fleet = Fleet("bench-calls", agents=[Drone, Waiter])


def prepare(url: str, calls: int) -> None:
    with fleet.open(url) as live:
        rows = [(Waiter, f"w-{n}", Wait()) for n in range(calls // CALLS_PER_AGENT)]
        if rows:
            live.wait_for(live.send_many(rows))


def fold(url: str, events: int, calls: int) -> tuple[float, float]:
    """Events per second of the fold alone, and per second of the processor: all of them wait before
    it begins, agents are loaded, and whoever runs the calls has taken all of them."""
    engine = open_engine(url, fleet.name)
    assert isinstance(engine, SqliteEngine)
    caller = CallerThread(fleet, engine)
    try:
        while calls and calls != held(engine.root):
            time.sleep(0.05)
        rows = coordinates(0, BATCH)
        batch = [(Drone, key, Position(lat, lon, alt)) for key, lat, lon, alt in rows]
        live = Live(fleet, engine)
        worker = Worker(fleet, engine, [0])
        worker.tick()
        gc.collect()
        gc.freeze()  # as a worker's process does
        for _ in range(events // BATCH):
            live.send_many(batch)
        start, busy = time.perf_counter(), time.process_time()
        while worker.tick():
            pass
        count = events // BATCH * BATCH
        return count / (time.perf_counter() - start), count / (time.process_time() - busy)
    finally:
        caller.stop()
        engine.close()


def held(root: Path) -> int:
    status = read_status(root)
    return 0 if status is None else sum(s.running + s.waiting for s in status.functions)


def latencies(url: str, count: int) -> list[float]:
    """Milliseconds from the acknowledged event to the committed reply."""
    found = []
    with fleet.open(url) as live:
        for n in range(1, count + 1):
            live.send(Waiter, "p", Ping())
            start = time.perf_counter()
            while live.state(Waiter, "p") is None or live.state(Waiter, "p").pongs < n:
                time.sleep(0.0002)
            found.append((time.perf_counter() - start) * 1000.0)
    return sorted(found[1:])  # the first one starts the process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    gc.set_threshold(100_000, 20, 100)  # as a worker's process has it
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        plain, calling, pinging = (f"sqlite:{Path(folder) / name}" for name in ("a", "b", "c"))
        prepare(plain, 0)
        prepare(calling, OPEN_CALLS)
        pairs = [
            (fold(plain, wanted.events, 0), fold(calling, wanted.events, OPEN_CALLS))
            for _ in range(wanted.rounds)
        ]
        without, beside = (max(rate for rate, _ in each) for each in zip(*pairs, strict=True))
        times = latencies(pinging, 300)
    report = {
        "drones": len(KEYS),
        "events": wanted.events,
        "open_calls": OPEN_CALLS,
        "events_per_second_without": round(without),
        "events_per_second_beside": round(beside),
        "ratio": round(statistics.median(b[0] / a[0] for a, b in pairs), 3),
        "ratio_of_processor_time": round(statistics.median(b[1] / a[1] for a, b in pairs), 3),
        "call_to_reply_ms": {
            "p50": round(statistics.median(times), 2),
            "p99": round(times[int(len(times) * 0.99)], 2),
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
